"""Calendars made ready for schedules: which days, and which seconds of them, may fire.

A day's seconds are one integer of 86,400 bits while windows and cron exclusions are joined, and
then as many bytes, in which the next allowed second is found at the speed of memory. Such patterns
are few: one for each combination of cron exclusions that meet on a day.
"""

from __future__ import annotations

from calendar import monthrange
from functools import lru_cache

from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSense, CalendarSpec
from tickwheel_admin.domain.calendars.exclusions import Exclusion
from tickwheel_admin.domain.schedule.wall_clock import (
    DAY_SECONDS,
    MAX_YEAR,
    MIN_YEAR,
    date_of_day,
    day_number,
    day_of_date,
    month_and_day,
    seconds_of_time,
)

LAST_DAY = day_number(MAX_YEAR, 12, 31)
ALL_DAY = (1 << DAY_SECONDS) - 1
MAX_BASES = 20  # links of a chain; where calendars are saved, circles are refused
_ALLOWED = b"1"
_NOTHING = b"0" * DAY_SECONDS
_CACHED_PATTERNS = 32  # of 86 KB each


@lru_cache(maxsize=256)
def compiled(calendar: Calendar) -> CompiledCalendar:
    """The calendar with those it is based on; shared by all schedules that name it.

    Raises:
        ScheduleError: a cron exclusion cannot be understood.
    """
    return CompiledCalendar(calendar)


class CompiledCalendar:
    """Wall times that a calendar leaves to the triggers that name it."""

    def __init__(self, calendar: Calendar) -> None:
        self.name = calendar.name
        self._rules: list[_Rules] = []
        link: Calendar | None = calendar
        while link is not None and len(self._rules) <= MAX_BASES:
            self._rules.append(_Rules(link.name, link.spec))
            link = link.base
        self._months: dict[tuple[int, int], int] = {}
        self._patterns: dict[tuple[int, ...], bytes] = {}
        self._latest_day = (-1, _NOTHING)  # replaced as a whole, so that threads need no lock

    def days(self, year: int, month: int) -> int:
        """Bit d (1..31) is set when some second of day d may fire."""
        mask = self._months.get((year, month))
        if mask is None:
            mask = ~0
            for rules in self._rules:
                mask &= rules.days(year, month)
            for day in range(1, monthrange(year, month)[1] + 1):
                if mask >> day & 1 and self._pattern(year, month, day) is _NOTHING:
                    mask &= ~(1 << day)
            self._months[year, month] = mask
        return mask

    def allows(self, wall: int) -> bool:
        """Whether a wall second (local seconds since 1970) may fire."""
        day, second = divmod(wall, DAY_SECONDS)
        return self._seconds(day)[second] == _ALLOWED[0]

    def next_allowed(self, wall: int) -> int | None:
        """The first wall second that may fire and is not earlier; None up to the end of 2199."""
        day, second = divmod(max(wall, 0), DAY_SECONDS)
        later = self._seconds(day).find(_ALLOWED, second)
        if later >= 0:
            return day * DAY_SECONDS + later
        if day >= LAST_DAY:
            return None
        date = date_of_day(day)
        year, month, after = date.year, date.month, date.day
        while year <= MAX_YEAR:
            mask = self.days(year, month) >> (after + 1) << (after + 1)
            if mask:
                found = day_number(year, month, (mask & -mask).bit_length() - 1)
                return found * DAY_SECONDS + self._seconds(found).index(_ALLOWED)
            year, month, after = (year, month + 1, 0) if month < 12 else (year + 1, 1, 0)
        return None

    def last_allowed(self, wall: int) -> int | None:
        """The last wall second that may fire and is not later; None down to the start of 1970."""
        day, second = divmod(min(wall, (LAST_DAY + 1) * DAY_SECONDS - 1), DAY_SECONDS)
        if day < 0:
            return None
        earlier = self._seconds(day).rfind(_ALLOWED, 0, second + 1)
        if earlier >= 0:
            return day * DAY_SECONDS + earlier
        date = date_of_day(day)
        year, month, before = date.year, date.month, date.day
        while year >= MIN_YEAR:
            mask = self.days(year, month) & ((1 << before) - 1)
            if mask:
                found = day_number(year, month, mask.bit_length() - 1)
                return found * DAY_SECONDS + self._seconds(found).rindex(_ALLOWED)
            year, month, before = (year, month - 1, 32) if month > 1 else (year - 1, 12, 32)
        return None

    def who_refuses(self, wall: int) -> str | None:
        """Name of the first calendar of the chain that takes a wall second away."""
        day, second = divmod(wall, DAY_SECONDS)
        date = date_of_day(day)
        for rules in self._rules:
            if not rules.days(date.year, date.month) >> date.day & 1:
                return rules.name
            if not rules.pattern(rules.key(date.year, date.month, date.day)) >> second & 1:
                return rules.name
        return None

    def _seconds(self, day: int) -> bytes:
        """The seconds of a day, one byte each."""
        latest, pattern = self._latest_day
        if latest == day:
            return pattern
        if not 0 <= day <= LAST_DAY:
            return _NOTHING
        date = date_of_day(day)
        pattern = _NOTHING
        if self.days(date.year, date.month) >> date.day & 1:
            pattern = self._pattern(date.year, date.month, date.day)
        self._latest_day = (day, pattern)
        return pattern

    def _pattern(self, year: int, month: int, day: int) -> bytes:
        """The seconds of a day that its kind does not take away as a whole."""
        key = tuple([rules.key(year, month, day) for rules in self._rules])
        pattern = self._patterns.get(key)
        if pattern is None:
            bits = ALL_DAY
            for rules, met in zip(self._rules, key, strict=True):
                bits &= rules.pattern(met)
            pattern = f"{bits:0{DAY_SECONDS}b}"[::-1].encode() if bits else _NOTHING
            if len(self._patterns) >= _CACHED_PATTERNS:
                self._patterns.clear()
            self._patterns[key] = pattern
        return pattern


class _Rules:
    """One calendar of a chain."""

    def __init__(self, name: str, spec: CalendarSpec) -> None:
        self.name = name
        self._includes = spec.sense is CalendarSense.INCLUDE
        self._dates: dict[tuple[int, int], int] = {}
        for text in spec.dates:
            date = date_of_day(day_of_date(text))
            self._dates[date.year, date.month] = (
                self._dates.get((date.year, date.month), 0) | 1 << date.day
            )
        self._yearly = [0] * 13
        for text in spec.yearly:
            month, day = month_and_day(text)
            self._yearly[month] |= 1 << day
        self._month_days = sum(1 << day for day in set(spec.month_days))
        self._weekdays = spec.weekdays
        self._names_days = bool(spec.dates or spec.yearly or spec.month_days or spec.weekdays)
        self._windows = 0
        for window in spec.windows:
            start, end = seconds_of_time(window.from_time), seconds_of_time(window.to_time)
            self._windows |= (1 << end) - (1 << start)
        self._exclusions: list[Exclusion] = (
            [] if self._includes else [Exclusion(each) for each in spec.cron]
        )

    def days(self, year: int, month: int) -> int:
        """Bit d is set when day d is not taken away as a whole by what it is."""
        first_weekday, length = monthrange(year, month)  # 0 is Monday
        every_day = (2 << length) - 2
        if self._includes and not self._names_days:
            return every_day
        named = self._dates.get((year, month), 0) | self._yearly[month] | self._month_days
        for weekday in self._weekdays:
            first = (weekday - 1 - first_weekday) % 7 + 1
            named |= _WEEKLY << first
        return every_day & (named if self._includes else ~named)

    def key(self, year: int, month: int, day: int) -> int:
        """Which of the exclusions meet on a day, bit by bit."""
        met = 0
        for index, exclusion in enumerate(self._exclusions):
            if exclusion.days(year, month) >> day & 1:
                met |= 1 << index
        return met

    def pattern(self, met: int) -> int:
        """The seconds of a day that windows and exclusions leave."""
        if self._includes:
            return self._windows or ALL_DAY
        taken = self._windows
        for index, exclusion in enumerate(self._exclusions):
            if met >> index & 1:
                taken |= exclusion.seconds
        return ALL_DAY & ~taken


_WEEKLY = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
