"""Run a whole executor's schedule in virtual time: a month in seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tickwheel_executor.client.call import Call
from tickwheel_executor.executor import Executor

from .schedule.instants import to_ms, zone_named
from .schedule.simulated_run import SimulatedRun

if TYPE_CHECKING:
    from .schedule.play import SchedulePlay


class SimulatedSchedule:
    """What a simulated schedule brought; made by `simulated_schedule`."""

    def __init__(self, play: SchedulePlay, jobs: Collection[str]) -> None:
        self._play = play
        self._jobs = jobs
        self.runs: Sequence[SimulatedRun] = ()  # all, in the order of their instants

    def of(self, job: str) -> list[SimulatedRun]:
        """The runs of one job or workflow; ValueError when it is not part of the simulation."""
        if job not in self._jobs:
            raise ValueError(f"there is no job {job!r}; there are {', '.join(sorted(self._jobs))}")
        return [run for run in self.runs if run.job == job]

    def fires(self, job: str) -> list[datetime]:
        """The instants of one job or workflow, in the zone of the simulation."""
        return [run.scheduled_at for run in self.of(job)]

    @property
    def failed(self) -> list[SimulatedRun]:
        """What neither succeeded nor was skipped."""
        return [run for run in self.runs if run.outcome not in ("succeeded", "skipped")]

    def __enter__(self) -> SimulatedSchedule:
        """Play it; for tests without an event loop."""
        return Call(self.__aenter__()).result()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Everything has ended already."""

    async def __aenter__(self) -> SimulatedSchedule:
        """Play it."""
        self.runs = await self._play.play()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Everything has ended already."""


def simulated_schedule(
    executor: Executor,
    *,
    start: str | date,
    until: str | date,
    timezone: str = "UTC",
    jobs: Collection[str] | None = None,
    calendars: Mapping[str, Mapping[str, Any]] | None = None,
    durations: Mapping[str, timedelta | Callable[[datetime], timedelta]] | None = None,
    answers: Mapping[str, Mapping[str, bool]] | None = None,
    returns: Mapping[str, Mapping[str, Any]] | None = None,
    around: Callable[[datetime], AbstractContextManager[object]] | None = None,
    nodes: int = 1,
    max_runs: int = 100_000,
) -> SimulatedSchedule:
    """Run the jobs and workflows that an executor declares, with their handlers, in virtual time.

    Fires, jitter, calendars, changes of the clocks, overlapping runs and retries follow the rules
    of the admin, by its own code, which the extra `schedule` installs. Handlers run
    as in `run_handler`, one after another; what they wait for themselves takes its real time.

        with simulated_schedule(
            executor, start="2026-03-01", until="2026-04-01", timezone="Europe/Berlin"
        ) as schedule:
            assert len(schedule.fires("send-invoices")) == 22  # `async with` on an event loop

    Args:
        executor: stays open: it may be started afterwards.
        start: a date, a datetime, or either in ISO 8601. Nothing has run before.
        until: nothing fires from then on; what has begun goes on to its end.
        timezone: of `start`, `until` and all instants of the result. Triggers have their own.
        jobs: names of those to simulate; None: all.
        calendars: by name, those that triggers name, with the fields that the API takes.
        durations: by job, how long each try takes in virtual time: a duration, or a function of
            the instant at which it starts. Others take none; workflows take that of their waits.
        answers: by workflow, as for `run_workflow`.
        returns: by workflow, as for `run_workflow`.
        around: called with the virtual instant before each handler; the handler runs within what
            it returns, such as `time_machine.travel`.
        nodes: how many there are, for jobs that run on each.
        max_runs: above it a ValueError says which jobs bring most.

    Raises:
        HandlerError: an admin would refuse a declared job; with every problem.
        ModuleNotFoundError: the rules of the admin are not installed.
        ValueError: an instant, a calendar or a name is wrong.
    """
    try:
        from .schedule.job_plan import JobPlan, calendars_of
        from .schedule.play import Rules, SchedulePlay
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("tickwheel_admin"):
            raise
        raise ModuleNotFoundError(
            "simulated_schedule follows the rules of the admin: install the extra `schedule` of"
            " tickwheel-executor",
            name=error.name,
        ) from None
    zone = zone_named(timezone)
    rules = Rules(
        start=to_ms(start, zone, name="start"),
        until=to_ms(until, zone, name="until"),
        zone=zone,
        nodes=nodes,
        durations=durations or {},
        answers=answers or {},
        returns=returns or {},
        around=around,
        max_runs=max_runs,
    )
    if rules.until <= rules.start:
        raise ValueError(f"until: {until} is not after start: {start}")
    executor.handlers.jobs.check(executor.handlers)
    known = calendars_of(calendars or {})
    declared = {str(raw["name"]): raw for raw in executor.declared_jobs}
    wanted = declared.keys() if jobs is None else set(jobs)
    named = {*wanted, *rules.durations, *rules.answers, *rules.returns}
    if unknown := sorted(named - declared.keys()):
        raise ValueError(
            f"the executor declares no job {', '.join(map(repr, unknown))}; it declares"
            f" {', '.join(sorted(declared)) or 'none'}"
        )
    plans, number = [], 1
    for name, raw in declared.items():
        if name in wanted:
            plans.append(JobPlan(raw, first_number=number, start=rules.start, calendars=known))
        number += len(raw.get("triggers", ()))
    return SimulatedSchedule(SchedulePlay(executor.handlers, plans, rules), sorted(wanted))
