"""A cron expression in a time zone, and what becomes of it when the clocks change.

The wall times that match are turned into instants segment by segment of the zone. Two things are
decided at a transition:

- Overlap: a wall time that happens twice fires in the passes that `overlap` names.
- Gap: the wall times that the clocks skip are one fire at the first instant after the gap, unless
  the hour field covers all 24 hours, where nothing is invented, or `gap` is `skip`.
"""

from __future__ import annotations

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron.days import DayMasks
from tickwheel_admin.domain.schedule.cron.expression import CronExpression
from tickwheel_admin.domain.schedule.cron.months import END_DAY
from tickwheel_admin.domain.schedule.cron.search import DAY, NEVER, LocalSearch
from tickwheel_admin.domain.schedule.zones import FOREVER, Segment, Zone
from tickwheel_admin.domain.trigger import Gap, Overlap

_EARLIEST = -2 * DAY  # UTC seconds: before 1970-01-01 00:00 in every zone
_LATEST = (END_DAY + 2) * DAY


class Cron:
    """The instants of an expression from 1970 to 2199, wall time of its zone.

    Args:
        days: the days on which wall times count; None: all.

    Raises:
        ScheduleError: the years of the expression hold no instant in this zone.
    """

    __slots__ = (
        "_both_passes",
        "_fires_after_gap",
        "_part",
        "_search",
        "_second_pass_only",
        "expression",
        "zone",
    )

    def __init__(
        self,
        expression: CronExpression,
        zone: Zone,
        *,
        gap: Gap = Gap.FIRE,
        overlap: Overlap = Overlap.AUTO,
        days: DayMasks | None = None,
    ) -> None:
        self.expression = expression
        self.zone = zone
        self._search = LocalSearch(expression, days)
        self._fires_after_gap = gap is Gap.FIRE and not expression.covers_all_hours
        if overlap is Overlap.AUTO:
            overlap = Overlap.BOTH if expression.is_interval else Overlap.FIRST
        self._both_passes = overlap is Overlap.BOTH
        self._second_pass_only = overlap is Overlap.SECOND
        # The part of the last segment looked at that no transition touches: start, end, offset.
        self._part = (0, 0, 0)
        if days is None and not expression.covers_all_years:
            self._check_years()

    def next_after(self, instant: int) -> int | None:
        """The first fire strictly after an instant, UTC epoch ms."""
        second = instant // 1_000 + 1
        start, end, offset = self._part
        if start <= second < end:
            local = self._search.first_from(second + offset)
            if local - offset < end:
                return (local - offset) * 1_000
        return self._next_from(max(second, _EARLIEST))

    def last_before(self, instant: int) -> int | None:
        """The last fire strictly before an instant, UTC epoch ms."""
        second = -(-instant // 1_000) - 1
        start, end, offset = self._part
        if start <= second < end:
            local = self._search.last_until(second + offset)
            if local - offset >= start:
                return (local - offset) * 1_000
        return self._last_until(min(second, _LATEST))

    def _check_years(self) -> None:
        """A few years may hold nothing but wall times that this zone skips."""
        if self._next_from(_EARLIEST) is None:
            raise ScheduleError(
                "expression",
                "“%(expression)s” never fires in %(timezone)s: the clocks skip its only times.",
                expression=self.expression.text,
                timezone=self.zone.name,
            )

    def _next_from(self, second: int) -> int | None:
        """The first fire from a UTC second on, in ms, segment by segment."""
        segment = self.zone.segment_at(second)
        asked = second + segment.offset
        if second == segment.start and segment.before < segment.offset:
            asked = second + segment.before  # the wall times of the gap that ends here
        found = self._search.first_from(asked)  # no match lies between `asked` and this one
        while True:
            start, end, offset, before, after, _ = segment
            if start + before <= found < start + offset and self._fires_after_gap:
                return start * 1_000
            first_pass_only = not (self._both_passes or self._second_pass_only)
            low = start + (max(before, offset) if first_pass_only else offset)
            low = max(low, second + offset)
            if found < low or low < asked:
                asked = low
                found = self._search.first_from(low)
            if found < end + (min(offset, after) if self._second_pass_only else offset):
                self._remember(segment)
                return (found - offset) * 1_000
            if end == FOREVER or (found == NEVER and asked <= end + after):
                return None
            segment = self.zone.segment(segment.number + 1)

    def _last_until(self, second: int) -> int | None:
        """The last fire up to a UTC second, in ms, segment by segment."""
        segment = self.zone.segment_at(second)
        asked = second + segment.offset
        found = self._search.last_until(asked)  # no match lies between this one and `asked`
        while True:
            start, end, offset, before, after, _ = segment
            high = end + (min(offset, after) if self._second_pass_only else offset) - 1
            high = min(high, second + offset)
            if found > high or high > asked:
                asked = high
                found = self._search.last_until(high)
            first_pass_only = not (self._both_passes or self._second_pass_only)
            if found >= start + (max(before, offset) if first_pass_only else offset):
                self._remember(segment)
                return (found - offset) * 1_000
            if start + before <= found < start + offset and self._fires_after_gap:
                return start * 1_000
            if start == -FOREVER or (found == -NEVER and asked >= start + before - 1):
                return None
            segment = self.zone.segment(segment.number - 1)

    def _remember(self, segment: Segment) -> None:
        start, end, offset, before, after, _ = segment
        self._part = (start + max(0, before - offset), end - max(0, offset - after), offset)
