"""A cron expression in a time zone, and what becomes of it when the clocks change.

The wall times that match are turned into instants segment by segment of the zone. Two things are
decided at a transition:

- Overlap: a wall time that happens twice fires in the passes that `overlap` names.
- Gap: the wall times that the clocks skip are one fire at the first instant after the gap, unless
  the hour field covers all 24 hours, where nothing is invented, or `gap` is `skip`.
"""

from __future__ import annotations

from tickwheel_admin.domain.schedule.allowed_grid import WallCalendar
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron.expression import CronExpression
from tickwheel_admin.domain.schedule.cron.months import END_DAY
from tickwheel_admin.domain.schedule.cron.search import DAY, NEVER, AllowedSearch, LocalSearch
from tickwheel_admin.domain.schedule.zones import FOREVER, Segment, Zone

_EARLIEST = -2 * DAY  # UTC seconds: before 1970-01-01 00:00 in every zone
_LATEST = (END_DAY + 2) * DAY


class Cron:
    """The instants of an expression from 1970 to 2199, wall time of its zone.

    Args:
        calendar: the wall times that count, whenever the clocks let them happen; None: all.

    Raises:
        ScheduleError: the years of the expression hold no instant in this zone.
    """

    __slots__ = (
        "_fires_after_gap",
        "_first_pass_only",
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
        calendar: WallCalendar | None = None,
    ) -> None:
        self.expression = expression
        self.zone = zone
        self._search: LocalSearch | AllowedSearch = LocalSearch(expression)
        if calendar is not None:
            self._search = AllowedSearch(expression, calendar)
        self._fires_after_gap = gap is Gap.FIRE and not expression.covers_all_hours
        if overlap is Overlap.AUTO:
            overlap = Overlap.BOTH if expression.is_interval else Overlap.FIRST
        self._first_pass_only = overlap is Overlap.FIRST
        self._second_pass_only = overlap is Overlap.SECOND
        # The part of the last segment looked at that no transition touches: start, end, offset.
        self._part = (0, 0, 0)
        if calendar is None and not expression.covers_all_years:
            self._check_years()

    def next_after(self, instant: int) -> int | None:
        """The first fire strictly after an instant, UTC epoch ms."""
        second = instant // 1_000 + 1
        start, end, offset = self._part
        if start <= second < end:
            found = self._search.first_from(second + offset)
            if found - offset < end:
                return (found - offset) * 1_000
            segment = self.zone.segment_at(second)
            return self._next_from(second, segment, second + offset, found)
        return self._first_from(max(second, _EARLIEST))

    def last_before(self, instant: int) -> int | None:
        """The last fire strictly before an instant, UTC epoch ms."""
        second = -(-instant // 1_000) - 1
        start, end, offset = self._part
        if start <= second < end:
            found = self._search.last_until(second + offset)
            if found - offset >= start:
                return (found - offset) * 1_000
        second = min(second, _LATEST)
        segment = self.zone.segment_at(second)
        asked = second + segment.offset
        return self._last_until(second, segment, asked, self._search.last_until(asked))

    def _check_years(self) -> None:
        """A few years may hold nothing but wall times that this zone skips."""
        if self._first_from(_EARLIEST) is None:
            raise ScheduleError(
                "expression",
                "“%(expression)s” never fires in %(timezone)s: the clocks skip its only times.",
                expression=self.expression.text,
                timezone=self.zone.name,
            )

    def _first_from(self, second: int) -> int | None:
        """The first fire from a UTC second on, in ms."""
        segment = self.zone.segment_at(second)
        asked = second + segment.offset
        if second == segment.start and segment.before < segment.offset:
            asked = second + segment.before  # the wall times of the gap that ends here
        return self._next_from(second, segment, asked, self._search.first_from(asked))

    def _next_from(self, second: int, segment: Segment, asked: int, found: int) -> int | None:
        """The same, segment by segment.

        Args:
            segment: the one that `second` is in.
            asked: the local second that was searched from.
            found: the first match from there on; no match lies between the two.
        """
        while True:
            start, end, offset, before, after, _ = segment
            if start + before <= found < start + offset and self._fires_after_gap:
                return start * 1_000
            low = start + (max(before, offset) if self._first_pass_only else offset)
            low = max(low, second + offset)
            if found < low or low < asked:
                asked = low
                found = self._search.first_from(low)
            if found < end + (min(offset, after) if self._second_pass_only else offset):
                self._remember(segment)
                return (found - offset) * 1_000
            # Wall times before `asked` that the clocks show again.
            comes_again = asked > end + after
            if end == FOREVER or (found == NEVER and not comes_again):
                return None
            # No transition but those next to the match can change anything.
            segment = self.zone.segment_at(end if comes_again else max(end, found - DAY))

    def _last_until(self, second: int, segment: Segment, asked: int, found: int) -> int | None:
        """The last fire up to a UTC second, in ms; no match lies from `found` to `asked`."""
        while True:
            start, end, offset, before, after, _ = segment
            high = end + (min(offset, after) if self._second_pass_only else offset) - 1
            high = min(high, second + offset)
            if found > high or high > asked:
                asked = high
                found = self._search.last_until(high)
            if found >= start + (max(before, offset) if self._first_pass_only else offset):
                self._remember(segment)
                return (found - offset) * 1_000
            if start + before <= found < start + offset and self._fires_after_gap:
                return start * 1_000
            # Wall times after `asked` that the clocks have already shown once.
            passed_over = asked < start + before - 1
            if start == -FOREVER or (found == -NEVER and not passed_over):
                return None
            last = start - 1
            segment = self.zone.segment_at(last if passed_over else min(last, found + DAY))

    def _remember(self, segment: Segment) -> None:
        start, end, offset, before, after, _ = segment
        # Its first second may also stand for the wall times of a gap.
        self._part = (start + max(1, before - offset), end - max(0, offset - after), offset)
