"""What both sides know of a step: what it needs, how many items may fail, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_STEPS = 1_000
MAX_ITEMS = 10_000  # of one `for_each`
MAX_KEY_CHARS = 64


class NeedOutcome(StrEnum):
    """How a step must have ended before another one starts."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # failed, timed out, lost, declined or cancelled
    ENDED = "ended"  # in any way, also skipped
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a step waits for."""

    step: str  # key of another step of the graph
    outcome: NeedOutcome = NeedOutcome.SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How many items of a `for_each` may fail while its step still succeeds."""

    count: int = 0  # 0..MAX_ITEMS; does not count when there is a percentage
    percent: float | None = None  # 0..100; 100: all

    def allows(self, failed: int, of: int) -> bool:
        """Whether so many failed items of so many are tolerated."""
        if self.percent is None:
            return failed <= self.count
        return failed * 100 <= self.percent * of


class StepState(StrEnum):
    """Where a step stands. What has ended stays as it ended."""

    WAITING = "waiting"  # for other steps
    READY = "ready"  # may go on, but waits for a person or an instant
    RUNNING = "running"  # its run, or one of its items, has not ended
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # also timed out, lost, cancelled, declined: `reason` says it
    SKIPPED = "skipped"  # it did not run, and was not to


ENDED = frozenset({StepState.SUCCEEDED, StepState.FAILED, StepState.SKIPPED})

# Reasons: stable codes.
NEEDS = "needs"  # skipped: what it needs can no longer come true
STOPPED = "stopped"  # skipped or failed: the workflow was to end
