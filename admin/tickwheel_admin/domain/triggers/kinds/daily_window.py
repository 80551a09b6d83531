"""Every so many seconds between two wall times of the chosen weekdays."""

from __future__ import annotations

from tickwheel_admin.domain.schedule.allowed_grid import AllowedGrid, WallCalendar
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.wall import LAST_WALL, WallGrid, WallSchedule
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, seconds_of_time
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.trigger import TriggerSpec


def daily_window(spec: TriggerSpec, calendar: WallCalendar | None = None) -> WallSchedule:
    """The schedule of a spec of this kind, of what a calendar leaves; raises ScheduleError.

    A window that fires in each of the 24 hours goes on right after a gap by itself, so nothing is
    invented there, as for a cron expression with such an hour field.
    """
    overlap = Overlap.BOTH if spec.overlap is Overlap.AUTO else spec.overlap
    window = _grid(spec)
    gap = Gap.SKIP if window.covers_all_hours else spec.gap
    grid: WallGrid = window if calendar is None else AllowedGrid(window, calendar)
    return WallSchedule(grid, zone_of(spec.timezone), gap=gap, overlap=overlap)


class WindowGrid:
    """from + k * every up to `to`, anew on each of the weekdays; lengths in seconds."""

    def __init__(self, *, every: int, start: int, end: int, weekdays: tuple[int, ...]) -> None:
        self._every = every
        self._start = start  # seconds since midnight
        self._last = start + (end - start) // every * every  # of a day
        self._weekdays = frozenset(weekdays) or frozenset(range(1, 8))
        hours = {second // 3_600 for second in range(start, self._last + 1, every)}
        self.covers_all_hours = len(hours) == 24

    def at_or_after(self, wall: int) -> int | None:
        day, second = divmod(max(wall, 0), DAY_SECONDS)
        if second > self._last or not self._counts(day):
            day, second = day + 1, 0
            while not self._counts(day):
                day += 1
        steps = max(-((self._start - second) // self._every), 0)
        found = day * DAY_SECONDS + self._start + steps * self._every
        return found if found <= LAST_WALL else None

    def at_or_before(self, wall: int) -> int | None:
        if wall < 0:
            return None
        day, second = divmod(min(wall, LAST_WALL), DAY_SECONDS)
        if second < self._start or not self._counts(day):
            day, second = day - 1, DAY_SECONDS
            while not self._counts(day):
                day -= 1
        if day < 0:
            return None
        steps = (min(second, self._last) - self._start) // self._every
        return day * DAY_SECONDS + self._start + steps * self._every

    def _counts(self, day: int) -> bool:
        return (day + 3) % 7 + 1 in self._weekdays  # 1970-01-01 was a Thursday


def _grid(spec: TriggerSpec) -> WindowGrid:
    every_ms = spec.every_ms or 0
    if not 1_000 <= every_ms <= DAY_SECONDS * 1_000 or every_ms % 1_000:
        raise ScheduleError(
            "every_seconds", "A daily window needs an interval from 1 second to a day."
        )
    start = _time(spec.from_time, "from_time")
    end = _time(spec.to_time, "to_time")
    if end <= start:
        raise ScheduleError("to_time", "A daily window ends later than it starts.")
    if not all(1 <= number <= 7 for number in spec.weekdays):
        raise ScheduleError("weekdays", "Weekdays are 1 (Monday) to 7 (Sunday).")
    return WindowGrid(every=every_ms // 1_000, start=start, end=end, weekdays=spec.weekdays)


def _time(text: str | None, field: str) -> int:
    try:
        seconds = seconds_of_time(text or "")
    except ValueError:
        seconds = DAY_SECONDS
    if seconds >= DAY_SECONDS:
        raise ScheduleError(field, "This must be a wall time from 00:00 to 23:59:59.")
    return seconds
