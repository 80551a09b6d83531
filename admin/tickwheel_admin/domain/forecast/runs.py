"""The jobs and runs of a forecast while it goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from enum import Enum, auto

from tickwheel_admin.domain.forecast.draws import Durations
from tickwheel_admin.domain.forecast.situation import ForecastJob, ForecastTrigger, MeasuredRun
from tickwheel_admin.domain.runs.blocking import (
    Blocking,
    Lanes,
    Standing,
    Verdict,
    decide,
    to_cover,
)
from tickwheel_admin.domain.runs.run import Origin


class RunPhase(Enum):
    """Where a run stands."""

    COMING = auto()  # not due, or waits for its next try
    READY = auto()  # due: it waits for a slot
    PARKED = auto()  # it waits for an earlier run of its job
    LIVE = auto()
    ENDED = auto()


class JobModel:
    """A job while a forecast goes on."""

    def __init__(self, job: ForecastJob, durations: Durations) -> None:
        self.job = job
        self.id = job.id
        self.executor_id = job.executor_id
        self.revision = job.revision
        self.config = config = job.config
        self.durations = durations
        self.policy = config.blocking
        self.stands_in_line = config.blocking.strategy is not Blocking.PARALLEL
        self.is_workflow = config.workflow is not None
        self.is_sharded = config.is_sharded and not self.is_workflow
        self.is_serial = config.blocking.strategy is Blocking.SERIAL
        self.pool_id = 0 if config.pool is None or self.is_workflow else config.pool.pool_id
        self.pool_slots = 0 if config.pool is None else config.pool.slots
        self.live: defaultdict[Hashable, dict[int, ForecastRun]] = defaultdict(dict)  # by lane
        self.waiting: defaultdict[Hashable, dict[int, ForecastRun]] = defaultdict(dict)
        self.parked: list[ForecastRun] = []

    def verdict(self, run: ForecastRun) -> Verdict:
        """What a due run that stands in line may do."""
        lane = run.lane
        if not self.live[lane] and len(self.waiting[lane]) <= 1:
            return Verdict.START  # as `decide` says of a run that is alone
        if self._must_wait(run):
            return Verdict.WAIT
        return decide(self.policy, run.standing(), self._lane(lane))

    def _must_wait(self, run: ForecastRun) -> bool:
        """Whether `decide` lets the run wait, for it comes after as many as there are places.

        In an outage thousands of a serial job wait, and the first few of them say it already.
        """
        if not self.is_serial or self.policy.max_waiting is not None or run.tries > 0:
            return False
        lane = run.lane
        places = self.policy.concurrency - len(self.live[lane])
        order = (run.scheduled_at, run.id)
        for each in self.waiting[lane].values():
            if places <= 0:
                break
            if each is run or each.phase not in (RunPhase.READY, RunPhase.PARKED):
                continue
            if each.tries > 0:  # its place is kept, or it is tried again before
                places -= each.phase is RunPhase.READY
            elif (each.scheduled_at, each.id) < order:
                places -= 1
        return places <= 0

    def waits(self, run: ForecastRun) -> None:
        """The run stands in line from now on."""
        self.waiting[run.lane][run.id] = run

    def leaves(self, run: ForecastRun) -> None:
        """The run waits no longer."""
        self.waiting[run.lane].pop(run.id, None)

    def lives(self, run: ForecastRun) -> None:
        """The run has started."""
        lane = run.lane
        self.waiting[lane].pop(run.id, None)
        self.live[lane][run.id] = run

    def ends(self, run: ForecastRun) -> None:
        """The attempt has ended."""
        self.live[run.lane].pop(run.id, None)

    def _lane(self, lane: Hashable) -> Lanes:
        return Lanes(
            live={lane: [run.standing() for run in self.live[lane].values()]},
            waiting={lane: [run.standing() for run in self.waiting[lane].values()]},
        )

    def covered_in(self, lane: Hashable) -> list[ForecastRun]:
        """The live runs of a lane that must end for newer ones."""
        live = self.live[lane]
        return [live[each] for each in to_cover(self.policy, lane, self._lane(lane))]


class ForecastRun:
    """A run while a forecast goes on; one for each of a thousand fires, so it is small."""

    __slots__ = (
        "_drawn",
        "chance",
        "due_at",
        "ends_at",
        "expires_at",
        "fire",
        "first_due_at",
        "id",
        "model",
        "node_id",
        "of_pool",
        "origin",
        "part",
        "parts",
        "parts_failed",
        "parts_left",
        "phase",
        "pinned_node_id",
        "priority",
        "scheduled_at",
        "started_at",
        "tries",
        "trigger",
    )

    def __init__(
        self,
        model: JobModel,
        *,
        id: int,  # noqa: A002 - what it is called everywhere
        scheduled_at: int,
        due_at: int,
        priority: int,
        origin: Origin = Origin.SCHEDULE,
        trigger: ForecastTrigger | None = None,
        fire: ForecastRun | None = None,
        part: int = 0,
        pinned_node_id: int | None = None,
        chance: int | None = None,
    ) -> None:
        """A run that is not due yet.

        Args:
            fire: of a shard: the whole fire.
            part: which shard, or item, it is.
            chance: what its length is drawn for; None: its instant.
        """
        self.model = model
        self.id = id
        self.scheduled_at = scheduled_at
        self.chance = scheduled_at if chance is None else chance
        self.due_at = due_at
        self.first_due_at = due_at
        self.priority = priority
        self.origin = origin
        self.trigger = trigger
        self.fire = fire
        self.part = part
        self.parts: list[ForecastRun] = []
        self.parts_left = 0
        self.parts_failed = 0
        self.pinned_node_id = pinned_node_id
        self.phase = RunPhase.COMING
        self.tries = 0
        self.node_id: int | None = None
        self.of_pool = 0  # slots of its pool that it holds
        self.started_at: int | None = None
        self.ends_at = 0
        within = model.config.start_within_ms
        self.expires_at = None if within is None else due_at + within
        self._drawn: MeasuredRun | None = None

    @property
    def drawn(self) -> MeasuredRun:
        """How it goes."""
        if self._drawn is None:
            self._drawn = self.model.durations.of(self.chance, self.part)
        return self._drawn

    def draw_at_least(self, ms: int) -> None:
        """It has been running for so long already."""
        self._drawn = self.model.durations.longer_than(ms, self.chance, self.part)

    # What routing asks.

    @property
    def job_id(self) -> int:
        return self.model.id

    @property
    def job_revision(self) -> int:
        return self.model.revision

    @property
    def parameters(self) -> str | None:
        return None

    @property
    def stands_in_line(self) -> bool:
        """Whether the blocking strategy decides about it: of a serial job's fire about its shards,
        of any other about the fire."""
        model = self.model
        if not model.stands_in_line:
            return False
        if not model.is_sharded:
            return True
        return model.is_serial == (self.fire is not None)

    @property
    def is_whole_fire(self) -> bool:
        """Whether shards do its work."""
        return self.model.is_sharded and self.fire is None

    @property
    def lane(self) -> Hashable:
        """What it stands in line for."""
        if self.fire is None:
            return 0
        return ("node", self.pinned_node_id) if self.pinned_node_id else ("part", self.part)

    def standing(self) -> Standing:
        """As the blocking strategy sees it."""
        return Standing(
            run_id=self.id,
            lane=self.lane,
            scheduled_at=self.scheduled_at,
            started=self.tries > 0,
            ready=self.phase in (RunPhase.READY, RunPhase.PARKED),
            parked=self.phase is RunPhase.PARKED,
            tries_again=self.phase is RunPhase.READY and self.tries > 0,
        )
