"""Every n days, weeks, months or years at a wall time, counted by calendar from a first day."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, ClassVar

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.schedule.allowed_grid import AllowedGrid, WallCalendar
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Overlap
from tickwheel_admin.domain.schedule.describe.words import Translate
from tickwheel_admin.domain.schedule.wall import LAST_WALL, WallGrid, WallSchedule
from tickwheel_admin.domain.schedule.wall_clock import (
    DAY_SECONDS,
    MAX_YEAR,
    date_of_day,
    day_number,
    day_of_date,
    seconds_of_time,
    short_time,
)
from tickwheel_admin.domain.schedule.wall_clock_fields import read_date, read_time
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.spec import WallTimeSpec

MAX_EVERY_UNITS = 1_000


class IntervalUnit(StrEnum):
    """What a calendar interval is counted in."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"  # a day that the month does not have becomes its last one
    YEAR = "year"


_DAYS = {IntervalUnit.DAY: 1, IntervalUnit.WEEK: 7}
_MONTHS = {IntervalUnit.MONTH: 1, IntervalUnit.YEAR: 12}


class CalendarIntervalSpec(WallTimeSpec, frozen=True, kw_only=True, tag="calendar_interval"):
    """Fires every `every` units, by calendar and not by length."""

    kind: ClassVar[str] = "calendar_interval"
    field_of_times: ClassVar[str] = "start_date"

    every: int | None = None  # 1..1,000 units
    unit: IntervalUnit | None = None
    start_date: str | None = None  # its first day, "2026-03-29"
    at_time: str | None = None  # wall time, "09:00:00"

    def schedule(self, *, saved_at: int, calendar: WallCalendar | None) -> WallSchedule:
        overlap = Overlap.FIRST if self.overlap is Overlap.AUTO else self.overlap
        grid: WallGrid = self._grid()
        if calendar is not None:
            grid = AllowedGrid(grid, calendar)
        return WallSchedule(grid, zone_of(self.timezone), gap=self.gap, overlap=overlap)

    @staticmethod
    def own_fields(_: Translate) -> Sequence[OwnField]:
        return (
            OwnField(
                name="every",
                place="count",
                input=Input.COUNT,
                label=_("Every"),
                is_required=True,
                default="1",
                unit="unit",
                unit_default=IntervalUnit.WEEK.value,
                choices=(
                    (IntervalUnit.DAY.value, _("days")),
                    (IntervalUnit.WEEK.value, _("weeks")),
                    (IntervalUnit.MONTH.value, _("months")),
                    (IntervalUnit.YEAR.value, _("years")),
                ),
                hint=_(
                    "By the calendar, not by length: the 31st becomes the last day of a shorter"
                    " month."
                ),
            ),
            OwnField(name="start_date", input=Input.DATE, label=_("First day"), is_required=True),
            OwnField(
                name="at_time",
                input=Input.TIME,
                label=_("At"),
                default="09:00",
                placeholder="09:00",
            ),
        )

    @staticmethod
    def read_own(fields: Fields) -> dict[str, Any]:
        fields.require("unit")
        fields.require("start_date")
        return {
            "every": fields.integer("every", low=1, high=MAX_EVERY_UNITS, default=1),
            "unit": fields.member("unit", IntervalUnit, default=IntervalUnit.DAY),
            "start_date": read_date(fields, "start_date"),
            "at_time": read_time(fields, "at_time", default="00:00:00"),
        }

    def own_to_raw(self) -> dict[str, Any]:
        return {
            "every": self.every,
            "unit": self.unit and self.unit.value,
            "start_date": self.start_date,
            "at_time": self.at_time,
        }

    @staticmethod
    def name_and_hint(_: Translate) -> tuple[str, str]:
        return (
            _("Calendar interval"),
            _("Every few days, weeks, months or years at a time of day."),
        )

    def describe(self, _: Translate) -> str:
        one, many = {
            IntervalUnit.DAY: (
                _("Every day at %(time)s, from %(date)s on"),
                _("Every %(n)s days at %(time)s, counted from %(date)s"),
            ),
            IntervalUnit.WEEK: (
                _("Every week at %(time)s, counted from %(date)s"),
                _("Every %(n)s weeks at %(time)s, counted from %(date)s"),
            ),
            IntervalUnit.MONTH: (
                _("Every month at %(time)s, counted from %(date)s"),
                _("Every %(n)s months at %(time)s, counted from %(date)s"),
            ),
            IntervalUnit.YEAR: (
                _("Every year at %(time)s, counted from %(date)s"),
                _("Every %(n)s years at %(time)s, counted from %(date)s"),
            ),
        }[self.unit or IntervalUnit.DAY]
        time = short_time(seconds_of_time(self.at_time or "00:00"))
        params = {"n": self.every, "time": time, "date": self.start_date}
        return (one if self.every == 1 else many) % params

    def _grid(self) -> DayGrid | MonthGrid:
        if self.every is None or self.every < 1:
            raise ScheduleError("every", "A calendar interval is counted in 1 or more units.")
        if self.unit is None:
            raise ScheduleError(
                "unit", "A calendar interval is counted in days, weeks, months, years."
            )
        try:
            first_day = day_of_date(self.start_date or "")
        except ValueError:
            raise ScheduleError(
                "start_date",
                "A calendar interval needs its first day, from 1970 to 2199, such as 2026-03-29.",
            ) from None
        try:
            time = seconds_of_time(self.at_time or "")
        except ValueError:
            time = DAY_SECONDS
        if time >= DAY_SECONDS:
            raise ScheduleError(
                "at_time", "A calendar interval needs its wall time, such as 09:30."
            )
        if self.unit in _DAYS:
            return DayGrid(first=first_day * DAY_SECONDS + time, days=self.every * _DAYS[self.unit])
        return MonthGrid(first_day=first_day, time=time, months=self.every * _MONTHS[self.unit])


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
