"""The periods that figures are told of, and into how many columns each is cut."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class Period(StrEnum):
    """Up to now; the same length before it is what it is compared with."""

    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"

    @property
    def bucket_ms(self) -> int:
        """Length of one column."""
        return _CUTS[self][0]

    @property
    def buckets(self) -> int:
        """How many columns."""
        return _CUTS[self][1]

    @property
    def length_ms(self) -> int:
        """Of all of them."""
        return self.bucket_ms * self.buckets

    def first_start(self, now: int, *, zone_offset_ms: int = 0) -> int:
        """Where the first column begins: the last one is not over yet.

        Args:
            zone_offset_ms: of the reader's zone, so that columns of several hours begin with the
                reader's day; to whole hours, for hours are what figures are kept of.
        """
        offset = zone_offset_ms // HOUR_MS * HOUR_MS
        return now - (now + offset) % self.bucket_ms - (self.buckets - 1) * self.bucket_ms


_CUTS = {
    Period.HOUR: (MINUTE_MS, 60),
    Period.SIX_HOURS: (10 * MINUTE_MS, 36),
    Period.DAY: (30 * MINUTE_MS, 48),
    Period.WEEK: (3 * HOUR_MS, 56),
    Period.MONTH: (12 * HOUR_MS, 60),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeBucket:
    """Runs by how they ended, scheduled within one column of a period."""

    start_at: int
    succeeded: int = 0
    failed: int = 0  # or lost
    timed_out: int = 0
    other: int = 0  # cancelled: neither a success nor a failure

    @property
    def total(self) -> int:
        """All of them."""
        return self.succeeded + self.failed + self.timed_out + self.other

    @property
    def failures(self) -> int:
        """Those that did not do what they were to do."""
        return self.failed + self.timed_out

    @property
    def decided(self) -> int:
        """What a success rate is a share of."""
        return self.succeeded + self.failures
