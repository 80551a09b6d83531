"""Fires that a calendar takes away: a schedule without the instants whose wall time is excluded.

Excluded spans are jumped over, however many instants of the schedule they hold. What counts is the
wall time at which a fire really happens; a fire that a gap moved has the time after the gap.
"""

from __future__ import annotations

from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.schedule.calendars import CompiledCalendar
from tickwheel_admin.domain.schedule.zones import Zone

MAX_JUMPS = 10_000  # more than 27 years of a daily fire


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

    A search gives up, as if there were no more, after MAX_JUMPS excluded instants with nothing
    allowed in between: when schedule and calendar just never meet, such as 09:00 and afternoons.
    That takes some 30 ms, so its last start is remembered: a transaction that has to be repeated
    because hundreds of them took too long then finds all of them done.
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
