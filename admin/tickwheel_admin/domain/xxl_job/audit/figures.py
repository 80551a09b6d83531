"""Counts of an audit, and how late runs were."""

from __future__ import annotations

from dataclasses import dataclass, fields

_EXACT = 120  # seconds that are kept as they are; above, two digits


@dataclass(slots=True, kw_only=True)
class FireFigures:
    """Counts of a job, of an hour, of a job's hour or of all."""

    expected: int = 0  # instants
    found: int = 0  # of those, with a row
    lost: int = 0  # without
    lost_at_clock_change: int = 0  # of those, in a night in which the clocks changed
    doubled: int = 0  # runs beyond the first one of an instant
    late: int = 0  # instants whose run started later than the threshold
    missing_shards: int = 0  # of broadcasts: nodes without a row
    not_sent: int = 0  # runs of any origin that no executor took
    no_result: int = 0  # runs of any origin of which nothing was heard again
    discarded: int = 0  # runs of any origin that the block strategy left out
    failed: int = 0  # runs of any origin
    timed_out: int = 0  # runs of any origin
    unknown: int = 0  # rows that may or may not be by schedule

    def add(self, other: FireFigures) -> None:
        """Add another's counts."""
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def faults(self) -> int:
        """What XXL-JOB did wrong with fires; how the worst jobs and hours are found."""
        return self.lost + self.doubled + self.late + self.missing_shards

    @property
    def is_finding(self) -> bool:
        """Whether there is anything that the scheduler should have done better."""
        return bool(self.faults or self.not_sent or self.no_result)

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing worth a line."""
        others = (self.discarded, self.failed, self.timed_out, self.unknown)
        return not (self.is_finding or any(others))


NAMES = tuple(each.name for each in fields(FireFigures))


class Lateness:
    """How late runs were, in seconds: percentiles in little memory."""

    __slots__ = ("_counts", "maximum")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.maximum = 0

    def add(self, seconds: int) -> None:
        self.maximum = max(self.maximum, seconds)
        seconds = _rounded(seconds)
        self._counts[seconds] = self._counts.get(seconds, 0) + 1

    def add_all(self, other: Lateness) -> None:
        self.maximum = max(self.maximum, other.maximum)
        for seconds, count in other._counts.items():
            self._counts[seconds] = self._counts.get(seconds, 0) + count

    def percentile(self, percent: int) -> int | None:
        """Seconds that so many percent were not later than; None without any."""
        left = -(-sum(self._counts.values()) * percent // 100)
        for seconds in sorted(self._counts):
            left -= self._counts[seconds]
            if left <= 0:
                return min(seconds, self.maximum)
        return None


def _rounded(seconds: int) -> int:
    """Up to two digits, upwards."""
    if seconds <= _EXACT:
        return seconds
    unit = int("1" + "0" * (len(str(seconds)) - 2))
    return -(-seconds // unit) * unit
