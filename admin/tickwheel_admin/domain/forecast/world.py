"""What all parts of one forecast share: jobs, slots, lines, and the events that are to come."""

from __future__ import annotations

from collections import defaultdict
from heapq import heappush
from itertools import count

from tickwheel_admin.domain.forecast.claims import ForecastExecutor
from tickwheel_admin.domain.forecast.draws import Durations, assumed_ms
from tickwheel_admin.domain.forecast.journal import Journal
from tickwheel_admin.domain.forecast.placing import slots_of
from tickwheel_admin.domain.forecast.queue import PoolLine
from tickwheel_admin.domain.forecast.runs import ForecastRun, JobModel
from tickwheel_admin.domain.forecast.situation import ForecastSituation
from tickwheel_admin.domain.forecast.tally import Tally

END, WAKE, EXPIRE, DUE = range(4)  # of events at one instant ends come first: they free slots

Event = tuple[int, int, int, ForecastRun]  # instant, kind, number, whose


class World:
    """The situation while virtual time passes."""

    def __init__(
        self,
        situation: ForecastSituation,
        *,
        end: int,
        seed: int,
        slow: bool,
        routed: bool,
        max_runs: int,
        journal: Journal | None,
    ) -> None:
        """Look at the situation; see `Simulation`."""
        self.situation = situation
        self.at, self.end = situation.now, end
        self.calendars = {each.name: each for each in situation.calendars}
        self.left = max_runs
        self.assumed_ms = assumed_ms(situation.jobs)
        self.models = {
            job.id: JobModel(job, Durations(job, seed=seed, slow=slow, assumed_ms=self.assumed_ms))
            for job in situation.jobs
        }
        of_executor: defaultdict[int, list[JobModel]] = defaultdict(list)
        for node in situation.nodes:  # also where no job is yet
            of_executor[node.executor_id] = []
        for model in self.models.values():
            of_executor[model.executor_id].append(model)
        self.executors = {
            executor_id: ForecastExecutor(
                slots_of(
                    [node for node in situation.nodes if node.executor_id == executor_id],
                    models,
                    seed=seed,
                    routed=routed,
                )
            )
            for executor_id, models in sorted(of_executor.items())
        }
        self.pools = {each: PoolLine(each, slots) for each, slots in situation.pools.items()}
        self.slots = sum(each.slots.total for each in self.executors.values())
        self.tally = Tally(start=situation.now, end=end, slots=self.slots)
        self.journal = journal
        self.events: list[Event] = []
        self.touched: set[int] = set()  # executors where something may start now
        self.busy = 0  # slots in use
        self.fires = {each.id: each.fires for job in situation.jobs for each in job.triggers}
        self._ids = count(1)
        self._numbers = count()

    def new_id(self) -> int:
        """Of a run."""
        return next(self._ids)

    def comes(self, run: ForecastRun) -> None:
        """The run will be due."""
        heappush(self.events, (run.due_at, DUE, run.id, run))

    def ends(self, run: ForecastRun) -> None:
        """The attempt that goes on will end."""
        heappush(self.events, (run.ends_at, END, run.id, run))

    def expires(self, run: ForecastRun, at: int) -> None:
        """The run will be too late to start."""
        heappush(self.events, (at, EXPIRE, run.id, run))

    def wakes(self, run: ForecastRun, at: int) -> None:
        """Something happens to a workflow by itself; it may do so several times at one instant."""
        heappush(self.events, (at, WAKE, next(self._numbers), run))

    def waiting(self) -> int:
        """Runs that wait for a slot."""
        waiting = 0
        for executor in self.executors.values():
            waiting += len(executor.queue)
        if self.pools:
            waiting += sum(len(line.waiting) for line in self.pools.values())
        return waiting
