"""What a calendar takes away of schedules that name no wall times: rates, delays, single instants.

Excluded spans are jumped over, however many instants of the schedule they hold. What counts is the
wall time that clocks show at the instant; kinds that name wall times go by those (`AllowedGrid`).
"""

from __future__ import annotations

from tickwheel_admin.domain.calendars.compiled import CompiledCalendar
from tickwheel_admin.domain.schedule.allowed_grid import MAX_JUMPS
from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.schedule.zones import Zone


class AllowedTimes:
    """The instants that a calendar leaves, by the clocks of a zone."""

    def __init__(self, calendar: CompiledCalendar, zone: Zone) -> None:
        self._calendar = calendar
        self._zone = zone

    def allows(self, instant: int) -> bool:
        """Whether an instant may fire."""
        return self._calendar.allows(self._zone.to_local(instant // 1000)[0])

    def skip_forward(self, instant: int) -> int | None:
        """An instant later than an excluded one, with nothing allowed between; None: no more."""
        second = instant // 1000
        segment = self._zone.segment_at(second)
        wall = self._calendar.next_allowed(second + segment.offset)
        # Behind a transition clocks may show an earlier time again, so that is looked at anew.
        if wall is None:
            return segment.end * 1000 if segment.after < segment.offset else None
        return min(wall - segment.offset, segment.end) * 1000

    def skip_back(self, instant: int) -> int | None:
        """An instant earlier than an excluded one, with nothing allowed between; None: no more."""
        second = instant // 1000
        segment = self._zone.segment_at(second)
        wall = self._calendar.last_allowed(second + segment.offset)
        if wall is None:
            return segment.start * 1000 - 1 if segment.before > segment.offset else None
        return max(wall - segment.offset + 1, segment.start) * 1000 - 1

    def first_from(self, instant: int) -> int | None:
        """The first allowed instant that is not earlier; None when there is none."""
        at: int | None = instant
        while at is not None and not self.allows(at):
            at = self.skip_forward(at)
        return at


class Filtered:
    """The instants of a schedule that a calendar leaves.

    A search gives up after MAX_JUMPS excluded instants, as that of `AllowedGrid` does.
    """

    def __init__(self, inner: Schedule, allowed: AllowedTimes) -> None:
        self._inner = inner
        self._allowed = allowed
        self._gave_up_after: int | None = None  # one int, so that threads may share it

    def next_after(self, instant: int) -> int | None:
        if instant == self._gave_up_after:
            return None
        found = self._inner.next_after(instant)
        for _ in range(MAX_JUMPS):
            if found is None or self._allowed.allows(found):
                return found
            resume = self._allowed.skip_forward(found)
            if resume is None:
                return None
            found = self._inner.next_after(resume - 1)
        self._gave_up_after = instant
        return None

    def last_before(self, instant: int) -> int | None:
        found = self._inner.last_before(instant)
        for _ in range(MAX_JUMPS):
            if found is None or self._allowed.allows(found):
                return found
            resume = self._allowed.skip_back(found)
            if resume is None:
                return None
            found = self._inner.last_before(resume + 1)
        return None
