"""How often, how soon and after which ends a run is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from tickwheel_admin.domain.runs.run import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how soon a run is tried again."""

    retries: int = 0  # 0..100 further tries
    delay_ms: int = 10_000  # 0..86,400,000 before the first retry
    factor: float = 2.0  # 1 for fixed delays, up to 10; each further delay is this times longer
    max_delay_ms: int = 3_600_000
    jitter: float = 0.0  # 0..1: up to this share is added, so that many failures part again
    outcomes: tuple[RunState, ...] = (RunState.FAILED, RunState.TIMED_OUT)  # that are tried again
    on_lost: bool = True  # whether a lost attempt, which may have had effects, is tried again

    def delay_after(self, tries: int, run_id: int = 0) -> int:
        """Milliseconds to wait after the `tries`-th try (from 1) of a run ended.

        The jitter follows from run and try, so that the same end gives the same delay however
        often its transaction is repeated.
        """
        # factor ** 99 overflows no float, but the product must be capped before it becomes an int.
        delay = min(self.delay_ms * self.factor ** (tries - 1), self.max_delay_ms)
        if self.jitter:
            digest = blake2b(f"{run_id}/{tries}".encode(), digest_size=4).digest()
            delay += delay * self.jitter * int.from_bytes(digest) / 2**32
        return int(delay)

    def tries_again_after(self, state: RunState) -> bool:
        """Whether an attempt that ended so may be followed by another one."""
        return self.on_lost if state is RunState.LOST else state in self.outcomes
