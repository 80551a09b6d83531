"""When declared jobs fire and what their runs do to each other, by the admin's own rules.

The only module of the SDK that imports the server, and only its rules: these are what a test of a
schedule is about. It is imported when a schedule is simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.input.calendar import parse_calendar
from tickwheel_admin.domain.input.job import read_job
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import merged_parameters, start_by
from tickwheel_admin.domain.planning.plan import next_after_end, runs_left
from tickwheel_admin.domain.routing.strategy import Split
from tickwheel_admin.domain.runs.blocking import Lanes, Verdict, decide, to_cover
from tickwheel_admin.domain.runs.blocking import Standing as Standing
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.jitter import due_of
from tickwheel_admin.domain.triggers.kinds import AnySpec
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse
from tickwheel_executor.errors import HandlerError

_LANE = "job"  # shards of a run are played together, so a job has one


class TriggerPlan:
    """One trigger of a job.

    Args:
        number: of the trigger, from 1: its jitter depends on it.

    Raises:
        ScheduleError: it never fires, or its calendar is not there.
    """

    def __init__(
        self, spec: AnySpec, *, number: int, start: int, calendars: Mapping[str, Calendar]
    ) -> None:
        self.number = number
        self.follows_runs = spec.follows_runs
        self._spec = spec
        self._calendar = calendar_of(spec, calendars)
        self._schedule = parse(spec, saved_at=start, calendar=self._calendar)
        self._fires = 0

    def first_from(self, start: int) -> int | None:
        """Its first instant from `start` on."""
        return self._schedule.next_after(start - 1)

    def fire(self, at: int) -> int | None:
        """Count one; returns the next instant of the schedule; None: none, or a run brings it."""
        self._fires += 1
        if self.follows_runs or runs_left(self._spec, self._fires) == 0:
            return None
        return self._schedule.next_after(at)

    def next_after_end(self, ended_at: int) -> int | None:
        """When it fires after its run has ended."""
        return next_after_end(
            self._spec, ended_at=ended_at, fires=self._fires, calendar=self._calendar
        )

    def due_at(self, at: int) -> int:
        """When the run of an instant is due: with jitter later."""
        if not self._spec.jitter_ms:
            return at
        following = None if self.follows_runs else self._schedule.next_after(at)
        return due_of(self.number, at, jitter_ms=self._spec.jitter_ms, next_nominal=following)

    def interval_start(self, at: int) -> int | None:
        """The instant before this one, from which a run works that processes intervals."""
        return None if self.follows_runs else self._schedule.last_before(at)

    def parameters(self, of_job: str) -> str:
        """Those of the job with its own over them."""
        own = self._spec.parameters
        return of_job if own is None else merged_parameters(of_job, own)


class JobPlan:
    """One declared job.

    Args:
        raw: the declaration as it is sent.
        first_number: of its first trigger, within the whole executor.

    Raises:
        HandlerError: an admin would refuse it; with every problem.
    """

    def __init__(
        self,
        raw: Mapping[str, Any],
        *,
        first_number: int,
        start: int,
        calendars: Mapping[str, Calendar],
    ) -> None:
        self.name = str(raw["name"])
        self.is_workflow = "workflow" in raw
        self._config = _config_of(raw)
        self.triggers: list[TriggerPlan] = []
        problems: list[str] = []
        for number, spec in enumerate(self._config.triggers):
            try:
                trigger = TriggerPlan(
                    spec, number=first_number + number, start=start, calendars=calendars
                )
            except ScheduleError as error:
                problems.append(f"job {self.name!r}, triggers[{number}].{error.field}: {error}")
                continue
            self.triggers.append(trigger)
        if problems:
            raise HandlerError("\n".join(problems))

    @property
    def handler(self) -> str:
        """The name of its handler."""
        return self._config.handler

    @property
    def parameters(self) -> str:
        """JSON of an object."""
        return self._config.parameters

    @property
    def keeps_state(self) -> bool:
        """Whether each run hands something to the next."""
        return self._config.keeps_state

    @property
    def timeout_ms(self) -> int | None:
        """How long a try may take."""
        return self._config.timeout_ms

    @property
    def max_tries(self) -> int:
        """How often a run is tried at most."""
        return 1 + self._config.retry.retries

    def shards(self, nodes: int) -> int:
        """How many runs a fire becomes on so many nodes."""
        match self._config.routing.record.split:
            case None:
                return 1
            case Split.PER_NODE:
                return nodes
            case _:
                return self._config.routing.shards

    def start_by(self, due_at: int) -> int | None:
        """When a run is too late to start."""
        return start_by(due_at, self._config)

    def delay_after(self, outcome: str, *, tries: int, run_id: int) -> int | None:
        """Milliseconds until the next try; None: such an end is not tried again."""
        retry = self._config.retry
        if tries > retry.retries or not retry.tries_again_after(RunState(outcome)):
            return None
        return retry.delay_after(tries, run_id)

    def verdict(self, run: Standing, live: Iterable[Standing], waiting: Sequence[Standing]) -> str:
        """What a due run may do: start, wait, or why it is skipped."""
        found = decide(self._config.blocking, run, _lanes(live, waiting))
        return found.value

    def to_cover(self, live: Iterable[Standing], waiting: Sequence[Standing]) -> Sequence[int]:
        """Live runs that must end for newer ones."""
        return to_cover(self._config.blocking, _LANE, _lanes(live, waiting))

    @cached_property
    def covers_early(self) -> bool:
        """Whether its newest run wins."""
        return self._config.blocking.strategy == "cover_early"


def standing(
    run_id: int, scheduled_at: int, *, started: bool, ready: bool, tries_again: bool = False
) -> Standing:
    """A run that has not ended, as the rules see it."""
    return Standing(
        run_id=run_id,
        lane=_LANE,
        scheduled_at=scheduled_at,
        started=started,
        ready=ready,
        tries_again=tries_again,
    )


START, WAIT = Verdict.START.value, Verdict.WAIT.value


def calendars_of(raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Calendar]:
    """Calendars by name, each with those it is based on.

    Args:
        raw: by name, the fields as the API takes them.

    Raises:
        ValueError: with every problem found.
    """
    specs, problems = {}, []
    for name, fields in raw.items():
        try:
            _, _, specs[name] = parse_calendar({**fields, "name": name})
        except InvalidInput as error:
            problems.append(f"calendar {name!r}: {error}")
    if problems:
        raise ValueError("\n".join(problems))
    found: dict[str, Calendar] = {}

    def make(name: str, above: tuple[str, ...]) -> Calendar:
        if name in found:
            return found[name]
        spec = specs[name]
        if spec.base is not None and (spec.base in above or spec.base not in specs):
            raise ValueError(f"calendar {name!r}: its base {spec.base!r} is not there, or a circle")
        base = None if spec.base is None else make(spec.base, (*above, spec.base))
        found[name] = Calendar(name=name, version=1, spec=spec, base=base)
        return found[name]

    for name in specs:
        make(name, (name,))
    return found


def _config_of(raw: Mapping[str, Any]) -> JobConfig:
    fields = {name: value for name, value in raw.items() if name not in ("workflow", "alarms")}
    if "workflow" in raw:  # its steps are the SDK's to check and to play
        fields["handler"] = "of the workflow"
    config, problems = read_job(fields)
    if problems:
        raise HandlerError("\n".join(f"job {raw['name']!r}: {_told(each)}" for each in problems))
    return config


def _told(problem: Problem) -> str:
    return f"{problem.field}: {problem.message}" if problem.field else problem.message


def _lanes(live: Iterable[Standing], waiting: Sequence[Standing]) -> Lanes:
    in_order = sorted(waiting, key=lambda each: each.order)
    return Lanes(live={_LANE: tuple(live)}, waiting={_LANE: in_order})


def as_object(parameters: str) -> dict[str, Any]:
    """The parameters as a handler gets them."""
    return msgspec.json.decode(parameters, type=dict[str, Any])
