"""How runs went over weeks, days or hours of somebody's calendar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.domain.schedule.local_days import day_limits, local_day
from tickwheel_admin.domain.schedule.zones import Zone

HOUR_MS = 3_600_000
MONDAY = 4  # 1970-01-05, in days since 1970-01-01
DAYS = 7


class TrendStep(StrEnum):
    """The length of one bucket."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"  # from Monday


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendBucket:
    """Ended runs that were scheduled within a time; UTC epoch ms."""

    start_at: int
    end_at: int
    succeeded: int = 0
    failed: int = 0  # or lost
    timed_out: int = 0
    cancelled: int = 0
    delays: TimeHistogram = field(default_factory=TimeHistogram)  # until they started
    durations: TimeHistogram = field(default_factory=TimeHistogram)  # of those that succeeded
    is_estimated: bool = False  # the counts are those of a sample, scaled up

    @property
    def total(self) -> int:
        """All of them."""
        return self.succeeded + self.failed + self.timed_out + self.cancelled

    @property
    def failures(self) -> int:
        """Those that did not do what they were to do."""
        return self.failed + self.timed_out

    @property
    def failure_rate(self) -> float | None:
        """The share of those that were not cancelled; None: there are none."""
        decided = self.succeeded + self.failures
        return self.failures / decided if decided else None


def bounds_of(step: TrendStep, from_at: int, to_at: int, zone: Zone) -> list[int]:
    """Where buckets begin, and behind the last of them where it ends; UTC epoch ms.

    The first holds `from_at`, the last what is just before `to_at`, which must be later. Days begin
    at a full hour of UTC, for hours are what figures are kept of.
    """
    if step is TrendStep.HOUR:
        first = from_at - from_at % HOUR_MS
        return [*range(first, to_at, HOUR_MS), to_at + -to_at % HOUR_MS]
    days = 1 if step is TrendStep.DAY else DAYS
    day = local_day(from_at, zone)
    if step is TrendStep.WEEK:
        day -= (day - MONDAY) % DAYS
    found: list[int] = []
    while True:
        midnight = day_limits(day, zone)[0]
        at = midnight - midnight % HOUR_MS
        if not found or at > found[-1]:  # a date that was skipped has no bucket
            found.append(at)
        if at >= to_at:
            return found
        day += days


def added(start_at: int, end_at: int, parts: Iterable[TrendBucket]) -> TrendBucket:
    """Several buckets as one."""
    some = list(parts)
    return TrendBucket(
        start_at=start_at,
        end_at=end_at,
        succeeded=sum(each.succeeded for each in some),
        failed=sum(each.failed for each in some),
        timed_out=sum(each.timed_out for each in some),
        cancelled=sum(each.cancelled for each in some),
        delays=TimeHistogram.sum(each.delays for each in some),
        durations=TimeHistogram.sum(each.durations for each in some),
        is_estimated=any(each.is_estimated for each in some),
    )
