"""The next hours or days in virtual time: fires, claims, slots and ends, one event after another.

What is due is planned by the planner's rules, waits and starts in the order of the claim and by the
blocking strategies, is placed by the router, and takes as long as a run that was measured. The
steps of workflows begin by their graphs. Nothing else is guessed: nodes stay as they are, nobody
asks for runs, and no message takes any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop

from tickwheel_admin.domain.forecast.claims import ForecastClaims
from tickwheel_admin.domain.forecast.deadlines import missed_deadlines
from tickwheel_admin.domain.forecast.journal import Journal
from tickwheel_admin.domain.forecast.lifecycle import Lifecycle
from tickwheel_admin.domain.forecast.opening import Opening
from tickwheel_admin.domain.forecast.planned import PlannedFires
from tickwheel_admin.domain.forecast.runs import ForecastRun
from tickwheel_admin.domain.forecast.situation import ForecastSituation
from tickwheel_admin.domain.forecast.tally import ForecastHour, ForecastJobFigures, quantile
from tickwheel_admin.domain.forecast.world import DUE, END, WAKE, World

MAX_RUNS = 150_000  # of one forecast; what comes later is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a situation would bring."""

    start: int
    end: int  # earlier than asked for when there were more than MAX_RUNS
    slots: int
    runs: int
    hours: tuple[ForecastHour, ...]
    jobs: tuple[ForecastJobFigures, ...]
    delay_p50_ms: int | None
    delay_p95_ms: int | None
    late: int
    skipped: dict[str, int]  # by reason
    fires: dict[int, tuple[int, ...]]  # instants by job
    minutes: tuple[int, ...]  # slot-milliseconds by minute


class Simulation:
    """One forecast."""

    def __init__(
        self,
        situation: ForecastSituation,
        *,
        end: int,
        seed: int = 0,
        slow: bool = False,
        routed: bool = False,
        max_runs: int = MAX_RUNS,
        planned: PlannedFires | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Look at the situation.

        Args:
            end: UTC epoch ms.
            slow: let each run take as long as the slowest of twenty of its job.
            routed: let the router place all runs, also where that makes no difference.
            planned: what was computed for another forecast of the same triggers.
            journal: where each run is written down.
        """
        self._end = end
        self._situation = situation
        self._world = world = World(
            situation,
            end=end,
            seed=seed,
            slow=slow,
            routed=routed,
            max_runs=max_runs,
            journal=journal,
        )
        self._lifecycle = Lifecycle(world, seed=seed)
        self._opening = Opening(
            world, self._lifecycle, PlannedFires() if planned is None else planned
        )
        self._claims = ForecastClaims(
            world.executors, world.pools, start=self._lifecycle.try_to_start
        )

    def run(self) -> Forecast:
        """Let the time pass."""
        world, tally, start = self._world, self._world.tally, self._situation.now
        self._opening.open_runs()
        ahead = self._opening.fires()
        tally.changes(start, busy=world.busy, waiting=world.waiting())
        events, touched, end = world.events, world.touched, self._end
        while world.left > 0:
            at = min(events[0][0] if events else end, ahead[-1][0] if ahead else end)
            if at >= end:
                break
            world.at = at
            while events and events[0][0] == at:
                _, kind, _, run = heappop(events)
                self._happens(kind, run, at)
            while ahead and ahead[-1][0] == at:
                _, kind, _, run = ahead.pop()
                self._happens(kind, run, at)
            executor_ids = sorted(touched)
            touched.clear()
            for executor_id in executor_ids:
                self._claims.claim(executor_id, at)
            tally.changes(at, busy=world.busy, waiting=world.waiting())
        if world.left <= 0:
            self._end = min(end, world.at + 1)
        tally.close(self._end)
        delays = tally.all_delays()
        hours = tally.hours()
        if world.journal is not None:
            world.journal.close(self._end)
        jobs = tally.jobs(self._missed())
        return Forecast(
            start=start,
            end=self._end,
            slots=world.slots,
            runs=sum(each.runs for each in jobs),
            hours=hours,
            jobs=jobs,
            delay_p50_ms=quantile(delays, 0.5),
            delay_p95_ms=quantile(delays, 0.95),
            late=sum(hour.late for hour in hours),
            skipped=dict(sorted(tally.skips.items())),
            fires={key: tuple(found) for key, found in sorted(tally.fires_of.items())},
            minutes=tuple(tally.busy_ms),
        )

    def _missed(self) -> dict[int, tuple[int, ...]]:
        """Deadlines that were missed, by job."""
        world = self._world
        found = {
            job.id: missed_deadlines(
                job,
                world.tally.successes.get(job.id, ()),
                start=self._situation.now,
                end=self._end,
                calendars=world.calendars,
            )
            for job in self._situation.jobs
        }
        return {job_id: missed for job_id, missed in found.items() if missed}

    def _happens(self, kind: int, run: ForecastRun, at: int) -> None:
        if kind == DUE:
            self._lifecycle.due(run, at)
        elif kind == END:
            self._lifecycle.attempt_ends(run, at)
        elif kind == WAKE:
            self._lifecycle.workflows.wakes(run, at)
        else:
            self._lifecycle.expire(run, at)
        self._world.touched.add(run.model.executor_id)
