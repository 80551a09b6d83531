"""Finds the matching local seconds next to a given one; knows nothing of zones."""

from __future__ import annotations

from bisect import bisect_right

from tickwheel_admin.domain.schedule.allowed_grid import AllowedGrid, WallCalendar
from tickwheel_admin.domain.schedule.cron.expression import CronExpression
from tickwheel_admin.domain.schedule.cron.fields import FIRST_YEAR
from tickwheel_admin.domain.schedule.cron.months import (
    END_DAY,
    MONTH_STARTS,
    MONTHS,
    SHAPE_OF_MONTH,
)

DAY = 86_400  # seconds
NEVER = 1 << 62  # later than FOREVER in any zone; as an answer: there is none

# In a mask, the place of the lowest bit is (mask & -mask).bit_length() - 1 and that of the highest
# one mask.bit_length() - 1.


class LocalSearch:
    """Matching local seconds of 1970 to 2199, in both directions.

    It remembers the month it last looked at, as one tuple, so that threads may share it.
    """

    __slots__ = (
        "_calendar",
        "_expression",
        "_first_in_hour",
        "_first_second",
        "_first_time",
        "_hours",
        "_last_in_hour",
        "_last_second",
        "_last_time",
        "_minutes",
        "_month",
        "_months",
        "_seconds",
        "_years",
    )

    def __init__(self, expression: CronExpression, calendar: WallCalendar | None = None) -> None:
        second, minute, hour, _, month, _, year = expression.fields
        self._expression = expression
        self._calendar = calendar  # its days only; its times are for `AllowedSearch`
        self._seconds = seconds = second.mask
        self._minutes = minutes = minute.mask
        self._hours = hours = hour.mask
        self._months = month.mask >> 1  # January is bit 0 here
        self._years = year.mask
        # Seconds of the minute, of the hour and of the day.
        self._first_second = first = (seconds & -seconds).bit_length() - 1
        self._first_in_hour = first = ((minutes & -minutes).bit_length() - 1) * 60 + first
        self._first_time = ((hours & -hours).bit_length() - 1) * 3_600 + first
        self._last_second = last = seconds.bit_length() - 1
        self._last_in_hour = last = (minutes.bit_length() - 1) * 60 + last
        self._last_time = (hours.bit_length() - 1) * 3_600 + last
        # First day, the day after the last one (days since 1970-01-01), and the matching days.
        self._month = (0, 0, 0)

    def first_from(self, local: int) -> int:
        """The first matching local second that is not before `local`; NEVER without one."""
        day, second = divmod(local, DAY)
        start, end, days = self._month
        if not start <= day < end:
            if local < 0:
                return self.first_from(0)
            if day >= END_DAY:
                return NEVER
            start, end, days = self._enter(bisect_right(MONTH_STARTS, day) - 1)
        rest = days >> (day - start)
        if rest & 1:
            if second <= self._last_time:
                return day * DAY + self._time_from(second)
            rest ^= 1
        if not rest:
            number = bisect_right(MONTH_STARTS, day) - 1
            while not rest:
                number = self._month_after(number)
                if number >= MONTHS:
                    return NEVER
                day, _, rest = self._enter(number)
        return (day + (rest & -rest).bit_length() - 1) * DAY + self._first_time

    def last_until(self, local: int) -> int:
        """The last matching local second that is not after `local`; -NEVER without one."""
        day, second = divmod(local, DAY)
        start, end, days = self._month
        if not start <= day < end:
            if local < 0:
                return -NEVER
            if day >= END_DAY:
                return self.last_until(END_DAY * DAY - 1)
            start, end, days = self._enter(bisect_right(MONTH_STARTS, day) - 1)
        rest = days & (2 << (day - start)) - 1
        if rest >> (day - start):
            if second >= self._first_time:
                return day * DAY + self._time_until(second)
            rest ^= 1 << (day - start)
        if not rest:
            number = bisect_right(MONTH_STARTS, day) - 1
            while not rest:
                number = self._month_before(number)
                if number < 0:
                    return -NEVER
                start, _, rest = self._enter(number)
        return (start + rest.bit_length() - 1) * DAY + self._last_time

    def at_or_after(self, wall: int) -> int | None:
        """`first_from` as a grid of wall times."""
        found = self.first_from(wall)
        return None if found == NEVER else found

    def at_or_before(self, wall: int) -> int | None:
        """`last_until` as a grid of wall times."""
        found = self.last_until(wall)
        return None if found == -NEVER else found

    def _time_from(self, second: int) -> int:
        """The first matching time of day from one on that is not after the last one, in seconds."""
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        if self._hours >> hour & 1:
            rest = self._minutes >> minute
            if rest & 1:
                later = self._seconds >> second
                if later:
                    second += (later & -later).bit_length() - 1
                    return hour * 3_600 + minute * 60 + second
                rest ^= 1
            if rest:
                minute += (rest & -rest).bit_length() - 1
                return hour * 3_600 + minute * 60 + self._first_second
        rest = self._hours >> (hour + 1)
        return (hour + (rest & -rest).bit_length()) * 3_600 + self._first_in_hour

    def _time_until(self, second: int) -> int:
        """The last matching time of day up to one that is not before the first one, in seconds."""
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        if self._hours >> hour & 1:
            if self._minutes >> minute & 1:
                earlier = self._seconds & (2 << second) - 1
                if earlier:
                    return hour * 3_600 + minute * 60 + earlier.bit_length() - 1
            earlier = self._minutes & (1 << minute) - 1
            if earlier:
                return hour * 3_600 + (earlier.bit_length() - 1) * 60 + self._last_second
        earlier = self._hours & (1 << hour) - 1
        return (earlier.bit_length() - 1) * 3_600 + self._last_in_hour

    def _enter(self, number: int) -> tuple[int, int, int]:
        """Looks at a month, by its number in MONTH_STARTS."""
        year, month = divmod(number, 12)
        days = 0
        if self._months >> month & 1 and self._years >> year & 1:
            days = self._expression.days(SHAPE_OF_MONTH[number])
            if self._calendar is not None and days:
                days &= self._calendar.days(FIRST_YEAR + year, month + 1) >> 1
        self._month = found = (MONTH_STARTS[number], MONTH_STARTS[number + 1], days)
        return found

    def _month_after(self, number: int) -> int:
        """The next month whose month and year match; MONTHS or more when there is none."""
        year, month = divmod(number, 12)
        months = self._months >> (month + 1)
        if months and self._years >> year & 1:
            return number + (months & -months).bit_length()
        years = self._years >> (year + 1)
        if not years:
            return MONTHS
        year += (years & -years).bit_length()
        return year * 12 + (self._months & -self._months).bit_length() - 1

    def _month_before(self, number: int) -> int:
        """The last month before whose month and year match; negative when there is none."""
        year, month = divmod(number, 12)
        months = self._months & (1 << month) - 1
        if months and self._years >> year & 1:
            return year * 12 + months.bit_length() - 1
        years = self._years & (1 << year) - 1
        if not years:
            return -1
        return (years.bit_length() - 1) * 12 + self._months.bit_length() - 1


class AllowedSearch:
    """The same for the matching local seconds that a calendar leaves."""

    __slots__ = ("_grid",)

    def __init__(self, expression: CronExpression, calendar: WallCalendar) -> None:
        self._grid = AllowedGrid(LocalSearch(expression, calendar), calendar)

    def first_from(self, local: int) -> int:
        found = self._grid.at_or_after(local)
        return NEVER if found is None else found

    def last_until(self, local: int) -> int:
        found = self._grid.at_or_before(local)
        return -NEVER if found is None else found
