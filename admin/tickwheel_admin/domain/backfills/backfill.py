"""A backfill: the fires of a trigger over a range of the past, run now as slots allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.triggers.spec import TriggerSpec

MAX_PARALLEL = 100  # also the most runs that are cancelled with a backfill in one transaction
MAX_INSTANTS = 100_000
MAX_OPEN_OF_JOB = 10  # that run or are paused
_KEY = "backfill"  # what the request keys of its runs begin with


class BackfillState(StrEnum):
    """Whether a backfill goes on."""

    RUNNING = "running"
    PAUSED = "paused"  # no further instants are run; what is open goes on
    CANCELLED = "cancelled"  # the same for good; what was open was asked to end
    DONE = "done"  # every instant has a run that has ended, or had one before


class FillOutcome(StrEnum):
    """What became of one instant of a backfill."""

    OPEN = "open"  # its run has not ended
    EXISTING = "existing"  # it had a run already
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


# An instant whose run did nothing on purpose may be run by another backfill.
VOID = frozenset({FillOutcome.CANCELLED, FillOutcome.SKIPPED})
VOID_STATES = frozenset({RunState.CANCELLED, RunState.SKIPPED})
ENDED = tuple(each for each in FillOutcome if each not in (FillOutcome.OPEN, FillOutcome.EXISTING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A stored backfill."""

    id: int
    executor_id: int
    job_id: int
    trigger_id: int
    spec: TriggerSpec  # as the trigger was when the backfill was asked for
    saved_at: int  # when the trigger was saved, for a fixed rate
    from_at: int
    to_at: int  # the first instant that is not in it
    newest_first: bool
    only_holes: bool = False  # instants whose run failed are run too (domain.backfills.coverage)
    parallel: int  # 1..MAX_PARALLEL: most runs that have not ended
    parameters: str | None  # JSON object over those of job and trigger
    requested_by: str
    total: int  # instants when it was asked for
    state: BackfillState
    reason: str | None = None  # why it ended before its last instant
    cursor_at: int | None = None  # instants up to here are written; None: none is
    version: int = 0
    written: int = 0  # runs
    existing: int = 0
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    lost: int = 0
    cancelled: int = 0
    skipped: int = 0
    created_at: int
    ended_at: int | None = None  # when its last run had ended

    @property
    def ended(self) -> int:
        """Runs that have ended."""
        return sum(self.counts().values())

    @property
    def open(self) -> int:
        """Runs that have not ended, as far as was looked."""
        return self.written - self.ended

    @property
    def resting(self) -> bool:
        """Whether nothing is to be done for it until somebody resumes or cancels it."""
        return self.state is BackfillState.PAUSED and self.open == 0

    @property
    def left(self) -> int:
        """Instants that it has not looked at."""
        return max(0, self.total - self.existing - self.written)

    @property
    def handled(self) -> int:
        """Instants with nothing left to do."""
        return self.ended + self.existing

    def counts(self) -> dict[FillOutcome, int]:
        """Runs that have ended, by how."""
        return {each: getattr(self, each.value) for each in ENDED}

    def with_outcomes(self, outcomes: dict[FillOutcome, int]) -> Backfill:
        """With so many more runs ended."""
        more = {each.value: getattr(self, each.value) + n for each, n in outcomes.items()}
        return replace(self, **more)

    def request_key(self, at: int) -> str:
        """What makes the run of an instant one of its kind."""
        return f"{_KEY}:{self.id}:{at}"

    def most_open(self, config: JobConfig) -> int:
        """How many runs may be open: of a job that is not parallel no more than may be live."""
        if config.blocking.strategy is Blocking.PARALLEL:
            return self.parallel
        return min(self.parallel, config.blocking.concurrency)


def backfill_of(run: Run) -> int | None:
    """The backfill that a run is of; None: of none, or it is a shard of such a run."""
    if run.origin is not Origin.BACKFILL or run.request_key is None:
        return None
    kind, backfill_id, _ = run.request_key.split(":")
    return int(backfill_id) if kind == _KEY else None


def outcome_of(state: RunState | None) -> FillOutcome:
    """What a run that has ended comes to; None: it is no longer in the ledger."""
    return FillOutcome.LOST if state is None else FillOutcome(state.value)
