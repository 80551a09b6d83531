"""Every n days, weeks, months or years at a wall time, counted by calendar from a first day."""

from __future__ import annotations

from calendar import monthrange

from tickwheel_admin.domain.schedule.allowed_grid import AllowedGrid, WallCalendar
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Overlap
from tickwheel_admin.domain.schedule.wall import LAST_WALL, WallGrid, WallSchedule
from tickwheel_admin.domain.schedule.wall_clock import (
    DAY_SECONDS,
    MAX_YEAR,
    date_of_day,
    day_number,
    day_of_date,
    seconds_of_time,
)
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.trigger import IntervalUnit, TriggerSpec

_DAYS = {IntervalUnit.DAY: 1, IntervalUnit.WEEK: 7}
_MONTHS = {IntervalUnit.MONTH: 1, IntervalUnit.YEAR: 12}


def calendar_interval(spec: TriggerSpec, calendar: WallCalendar | None = None) -> WallSchedule:
    """The schedule of a spec of this kind, of what a calendar leaves; raises ScheduleError."""
    overlap = Overlap.FIRST if spec.overlap is Overlap.AUTO else spec.overlap
    grid: WallGrid = _grid(spec)
    if calendar is not None:
        grid = AllowedGrid(grid, calendar)
    return WallSchedule(grid, zone_of(spec.timezone), gap=spec.gap, overlap=overlap)


class DayGrid:
    """A wall time every so many days."""

    def __init__(self, *, first: int, days: int) -> None:
        self._first = first  # local seconds
        self._step = days * DAY_SECONDS

    def at_or_after(self, wall: int) -> int | None:
        found = self._first - min((self._first - wall) // self._step, 0) * self._step
        return found if found <= LAST_WALL else None

    def at_or_before(self, wall: int) -> int | None:
        if wall < self._first:
            return None
        return self._first + (min(wall, LAST_WALL) - self._first) // self._step * self._step


class MonthGrid:
    """A wall time every so many months, each counted from the first day and not from the last fire.

    So 31 January is followed by 28 February and 31 March: a month that is too short has its last
    day instead.
    """

    def __init__(self, *, first_day: int, time: int, months: int) -> None:
        first = date_of_day(first_day)
        self._month = first.year * 12 + first.month - 1  # months since the year 0
        self._day = first.day
        self._time = time  # seconds since midnight
        self._step = months
        self._last = (MAX_YEAR * 12 + 11 - self._month) // months

    def at_or_after(self, wall: int) -> int | None:
        index = self._index(wall)
        if index < 0:
            return self._wall(0)
        if self._wall(index) < wall:
            index += 1
        return self._wall(index) if index <= self._last else None

    def at_or_before(self, wall: int) -> int | None:
        index = min(self._index(wall), self._last)
        if index >= 0 and self._wall(index) > wall:
            index -= 1
        return self._wall(index) if index >= 0 else None

    def _index(self, wall: int) -> int:
        """Of the last wall time that is in the same month or an earlier one; may be negative."""
        day = date_of_day(min(wall, LAST_WALL) // DAY_SECONDS)
        return (day.year * 12 + day.month - 1 - self._month) // self._step

    def _wall(self, index: int) -> int:
        year, month = divmod(self._month + index * self._step, 12)
        day = min(self._day, monthrange(year, month + 1)[1])
        return day_number(year, month + 1, day) * DAY_SECONDS + self._time


def _grid(spec: TriggerSpec) -> DayGrid | MonthGrid:
    if spec.every is None or spec.every < 1:
        raise ScheduleError("every", "A calendar interval is counted in 1 or more units.")
    if spec.unit is None:
        raise ScheduleError("unit", "A calendar interval is counted in days, weeks, months, years.")
    try:
        first_day = day_of_date(spec.start_date or "")
    except ValueError:
        raise ScheduleError(
            "start_date",
            "A calendar interval needs its first day, from 1970 to 2199, such as 2026-03-29.",
        ) from None
    try:
        time = seconds_of_time(spec.at_time or "")
    except ValueError:
        time = DAY_SECONDS
    if time >= DAY_SECONDS:
        raise ScheduleError("at_time", "A calendar interval needs its wall time, such as 09:30.")
    if spec.unit in _DAYS:
        return DayGrid(first=first_day * DAY_SECONDS + time, days=spec.every * _DAYS[spec.unit])
    return MonthGrid(first_day=first_day, time=time, months=spec.every * _MONTHS[spec.unit])
