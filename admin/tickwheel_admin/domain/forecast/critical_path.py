"""What the end of a run depends on: the runs before it, and who held slots while they waited."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.forecast.journal import Journal, JournalRun

NOTICED_MS = 1_000  # who starts sooner has not waited
MAX_STEPS = 8
MAX_HOLDERS = 5  # of one wait


class StepOrigin(StrEnum):
    """Why a run of a path is due when it is. The values are part of the API."""

    DUE = "due"  # its own instant, or somebody asked for it
    PARENT = "parent"  # the run before it asks for it by its end
    RUNNING = "running"  # it runs already


class WaitReason(StrEnum):
    """What a due run of a path waits for. The values are part of the API."""

    OWN_RUN = "own_run"  # an earlier run of its job, by the blocking strategy
    SLOT = "slot"  # a free slot of a node
    POOL = "pool"  # free slots of a pool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHolder:
    """A job that holds slots while a run waits for one."""

    job_id: int
    runs: int
    held_ms: int  # of all its slots, during the wait


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """A run of a critical path."""

    job_id: int
    run_id: int | None  # None: it is predicted
    due_at: int
    start_at: int | None  # None: not before the end of the forecast
    end_at: int | None
    origin: StepOrigin
    waits_for: WaitReason | None = None  # None: it starts when it is due
    wait_ms: int = 0  # from now on, or from the instant at which it is due
    holders: tuple[SlotHolder, ...] = ()  # those that hold most first


class PathFinder:
    """Finds paths in one journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ended: defaultdict[tuple[int, int], list[JournalRun]] = defaultdict(list)
        for run in journal.runs.values():
            if run.end_at is not None:
                self._ended[run.job_id, run.end_at].append(run)

    def path(self, last: JournalRun, *, now: int) -> tuple[PathStep, ...]:
        """What its end depends on, in the order in which it happens; `last` is its last step.

        A workflow ends with a run of its steps: the path ends with that, and has the workflow's own
        run before the first of them.
        """
        steps: list[PathStep] = []
        seen: set[int] = set()
        entered: set[int] = set()
        run: JournalRun | None = last
        while run is not None and run.id not in seen and len(steps) < MAX_STEPS:
            ended_by = self._journal.runs.get(run.last_step or 0)
            if ended_by is not None and run.id not in entered:
                entered.add(run.id)
                run = ended_by
                continue
            seen.add(run.id)
            step, run = self._step(run, now)
            steps.append(step)
        return tuple(reversed(steps))

    def _step(self, run: JournalRun, now: int) -> tuple[PathStep, JournalRun | None]:
        start = self._journal.end if run.start_at is None else run.start_at
        before = None if run.parent is None else self._journal.runs.get(run.parent)
        origin = StepOrigin.DUE if before is None else StepOrigin.PARENT
        waits_for: WaitReason | None = None
        holders: tuple[SlotHolder, ...] = ()
        since = max(run.due_at, now)
        if run.start_at is not None and run.start_at <= now and run.run_id is not None:
            origin = StepOrigin.RUNNING
        elif start - since > NOTICED_MS:
            own = [each for each in self._ended[run.job_id, start] if each.id != run.id]
            if run.was_parked and own:
                waits_for, before = WaitReason.OWN_RUN, own[-1]
            else:
                is_pool = self._waits_for_pool(run, start)
                waits_for = WaitReason.POOL if is_pool else WaitReason.SLOT
                holders = self._holders(run, since, start, of_pool=is_pool)
        step = PathStep(
            job_id=run.job_id,
            run_id=run.run_id,
            due_at=run.due_at,
            start_at=run.start_at,
            end_at=run.end_at,
            origin=origin,
            waits_for=waits_for,
            wait_ms=0 if waits_for is None else start - since,
            holders=holders,
        )
        return step, before

    def _waits_for_pool(self, run: JournalRun, start: int) -> bool:
        """Whether a slot of its pool became free when it started."""
        if not run.pool_id:
            return False
        return any(
            hold.pool_id == run.pool_id and hold.to_at == start for hold in self._journal.holds
        )

    def _holders(
        self, run: JournalRun, since: int, until: int, *, of_pool: bool
    ) -> tuple[SlotHolder, ...]:
        held: Counter[int] = Counter()
        runs: defaultdict[int, set[int]] = defaultdict(set)
        for hold in self._journal.holds:
            is_same = (
                hold.pool_id == run.pool_id if of_pool else hold.executor_id == run.executor_id
            )
            overlap = min(hold.to_at, until) - max(hold.from_at, since)
            if is_same and overlap > 0 and hold.run != run.id:
                held[hold.job_id] += overlap
                runs[hold.job_id].add(hold.run)
        most = sorted(held.items(), key=lambda each: (-each[1], each[0]))[:MAX_HOLDERS]
        return tuple(
            SlotHolder(job_id=job_id, runs=len(runs[job_id]), held_ms=ms) for job_id, ms in most
        )
