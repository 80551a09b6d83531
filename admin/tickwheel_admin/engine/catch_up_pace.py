"""How fast missed fires are made up for."""

from __future__ import annotations

MOST_PER_SECOND = 2_500  # runs that one admin plans for missed fires
LEAST_PER_SECOND = 500
BURST = 500  # runs; fewer are planned at once
LATE_MS = 500  # fires on time that are claimed later than this are held up
SLOWER, FASTER = 0.5, 1.25  # after a second with such runs, and after one without
JUDGED_SECONDS = 1.0


class CatchUpPace:
    """Spreads the runs of missed fires over time, so that those on time are not late in their turn.

    After an outage a hundred thousand fires may have been missed. Planned as fast as possible, they
    take database and processor from the fires of these seconds. So only as many are planned as can
    run beside what is on time: fewer where the machine is small, or busy with other work.

    All instants are seconds of a clock that is never set back.
    """

    def __init__(self) -> None:
        self._per_second = float(MOST_PER_SECOND)
        self._left = float(BURST)
        self._at = float("-inf")
        self._judged_at = float("-inf")
        self._is_late = False

    def may_plan(self, now: float) -> bool:
        """Whether some may be planned."""
        self._judge(now)
        if now > self._at:
            earned = (now - self._at) * self._per_second
            self._left = min(float(BURST), self._left + earned)
            self._at = now
        return self._left > 0

    def planned(self, runs: int) -> None:
        """So many were planned; the last batch may be larger than what was left."""
        self._left -= runs

    @property
    def next_at(self) -> float:
        """When some may be planned again; only after `may_plan` said no."""
        return self._at + (1 - self._left) / self._per_second

    def claimed_late(self, late_ms: int, now: float) -> None:
        """Runs on time were claimed, the latest of them so long after its instant."""
        self._is_late = self._is_late or late_ms > LATE_MS
        self._judge(now)

    def _judge(self, now: float) -> None:
        """Where nothing on time is claimed, nothing is late: it becomes faster again."""
        if now - self._judged_at < JUDGED_SECONDS:
            return
        factor = SLOWER if self._is_late else FASTER
        self._per_second = min(
            max(self._per_second * factor, LEAST_PER_SECOND), float(MOST_PER_SECOND)
        )
        self._judged_at, self._is_late = now, False
