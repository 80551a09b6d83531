"""Wall times that a calendar leaves of a grid, before any clock decides when they happen.

What counts is the date and the time that the schedule names. So a fire that a gap of the clocks
moves past midnight is judged by the date it was scheduled for, for every kind of wall time alike.
"""

from __future__ import annotations

from typing import Protocol

from tickwheel_admin.domain.schedule.wall import WallGrid

MAX_JUMPS = 10_000  # more than 27 years of a daily fire


class WallCalendar(Protocol):
    """Which wall times may fire; local seconds since 1970."""

    def days(self, year: int, month: int) -> int:
        """Bit d (1..31) is set when some second of day d may fire."""
        ...

    def allows(self, wall: int) -> bool:
        """Whether a wall second may fire."""
        ...

    def next_allowed(self, wall: int) -> int | None:
        """The first wall second that may fire and is not earlier."""
        ...

    def last_allowed(self, wall: int) -> int | None:
        """The last wall second that may fire and is not later."""
        ...


class AllowedGrid:
    """The wall times of a grid that a calendar leaves.

    A search gives up, as if there were no more, after MAX_JUMPS excluded wall times with nothing
    allowed in between: when schedule and calendar just never meet, such as 09:00 and afternoons.
    That takes some 30 ms, so its last start is remembered: a transaction that has to be repeated
    because hundreds of them took too long then finds all of them done.
    """

    def __init__(self, grid: WallGrid, calendar: WallCalendar) -> None:
        self._grid = grid
        self._calendar = calendar
        self._gave_up_from: int | None = None  # one int, so that threads may share it

    def at_or_after(self, wall: int) -> int | None:
        if wall == self._gave_up_from:
            return None
        found = self._grid.at_or_after(wall)
        for _ in range(MAX_JUMPS):
            if found is None or self._calendar.allows(found):
                return found
            resume = self._calendar.next_allowed(found)
            if resume is None:
                return None
            found = self._grid.at_or_after(resume)
        self._gave_up_from = wall
        return None

    def at_or_before(self, wall: int) -> int | None:
        found = self._grid.at_or_before(wall)
        for _ in range(MAX_JUMPS):
            if found is None or self._calendar.allows(found):
                return found
            resume = self._calendar.last_allowed(found)
            if resume is None:
                return None
            found = self._grid.at_or_before(resume)
        return None
