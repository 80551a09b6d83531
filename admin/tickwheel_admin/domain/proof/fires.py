"""What became of a fire, as its row in the ledger says."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tickwheel_admin.domain.runs.run import FINAL, RunState

DEFAULT_LATE_MS = 60_000
MAX_LATE_SECONDS = 86_400


class FireOutcome(StrEnum):
    """What became of it; each fire has one."""

    SUCCEEDED = "succeeded"  # at the first try
    RETRIED = "retried"  # succeeded at a later try
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"  # the reason is counted, too
    OPEN = "open"  # it has not ended


def outcome_of(state: RunState, tries: int) -> FireOutcome:
    """What became of a fire whose run is in that state after so many tries."""
    if state not in FINAL:
        return FireOutcome.OPEN
    if state is RunState.SUCCEEDED:
        return FireOutcome.RETRIED if tries > 1 else FireOutcome.SUCCEEDED
    return FireOutcome(state.value)


class FireCount(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many runs came to the same."""

    outcome: FireOutcome
    reason: str | None  # of those that were skipped
    is_late: bool
    runs: int


class ProvenFire(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the proof reads of a run."""

    id: int
    executor_id: int
    job_id: int
    trigger_id: int
    scheduled_at: int
    state: RunState
    reason: str | None
    tries: int
    jitter_ms: int | None
    started_at: int | None  # of the last attempt
    ended_at: int | None
    node_id: int | None
    error_id: int | None  # of its failure group
    cancelled_by: str | None

    @property
    def outcome(self) -> FireOutcome:
        """What became of it."""
        return outcome_of(self.state, self.tries)

    @property
    def start_delay_ms(self) -> int | None:
        """How long after it was due it started; None: it did not, or was tried several times."""
        if self.started_at is None or self.tries > 1:
            return None
        return max(0, self.started_at - self.scheduled_at - (self.jitter_ms or 0))

    def is_late(self, late_ms: int) -> bool:
        """Whether its only try started later than that after it was due."""
        return (self.start_delay_ms or 0) > late_ms

    def counted(self, late_ms: int) -> FireCount:
        """It alone, to be added to sums."""
        return FireCount(
            outcome=self.outcome, reason=self.reason, is_late=self.is_late(late_ms), runs=1
        )

    def is_exception(self, late_ms: int) -> bool:
        """Whether it is told of by itself: anything but a success at the first try, in time."""
        return self.outcome is not FireOutcome.SUCCEEDED or self.is_late(late_ms)
