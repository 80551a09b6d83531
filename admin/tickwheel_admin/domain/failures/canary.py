"""A canary retry: of the runs that failed alike, one is done again first, then more and more.

The next wave is twice as large as the one before, and begins when all runs of that have succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tickwheel_admin.domain.runs.run import FINAL, RunState

MAX_WAVE = 128  # runs that are done again by one transaction
# Runs fail some time after they were due: those that were due so long before it began count.
DUE_BEFORE_MS = 86_400_000


class CanaryState(StrEnum):
    """Whether a canary retry goes on. The values are part of the API."""

    RUNNING = "running"
    STOPPED = "stopped"  # by somebody, or because a run did not succeed
    DONE = "done"  # every run was done again, or left out


class CanaryReason(StrEnum):
    """Why a canary retry was stopped. The values are part of the API."""

    FAILED = "failed"  # a run of the last wave did not succeed
    BY_HAND = "by_hand"
    NOT_ALLOWED = "not_allowed"  # whoever began it may not retry runs of the executor any more


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRetry:
    """A row of `failure_canary`. Instants are UTC ms."""

    id: int
    group_id: int
    executor_id: int
    state: CanaryState
    user_id: int  # who began it; 0: nobody who has an account
    started_by: str
    started_at: int
    since: int  # runs that failed before are not its own
    # Of the run up to which it has come, newest first.
    before_at: int
    before_id: int
    wave: int = 0  # runs of the last wave
    open_runs: tuple[int, ...] = ()  # of the last wave, that have not ended
    retried: int = 0
    succeeded: int = 0
    failed: int = 0  # ended in any other way
    left_out: int = 0  # could not be done again
    reason: CanaryReason | None = None
    stopped_by: str | None = None
    ended_at: int | None = None
    version: int = 1

    @property
    def is_running(self) -> bool:
        return self.state is CanaryState.RUNNING

    @property
    def next_wave(self) -> int:
        """How many runs may be done again next."""
        return min(max(1, 2 * self.wave), MAX_WAVE)

    def request_key(self, run_id: int) -> str:
        """What makes the retry of a run one of its kind."""
        return f"canary:{self.id}:{run_id}"

    def seen(self, states: Sequence[RunState | None], still_open: Sequence[int]) -> CanaryRetry:
        """With what became of its open runs.

        Args:
            states: of those that have ended; None: the run is no longer in the ledger.
            still_open: the others.
        """
        ended = [each for each in states if each is None or each in FINAL]
        succeeded = ended.count(RunState.SUCCEEDED)
        return replace(
            self,
            open_runs=tuple(still_open),
            succeeded=self.succeeded + succeeded,
            failed=self.failed + len(ended) - succeeded,
        )

    def ended(
        self,
        state: CanaryState,
        *,
        now: int,
        reason: CanaryReason | None = None,
        by: str | None = None,
    ) -> CanaryRetry:
        """It does nothing more."""
        return replace(self, state=state, reason=reason, stopped_by=by, ended_at=now)
