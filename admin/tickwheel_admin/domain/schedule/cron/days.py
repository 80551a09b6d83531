"""Which days of a month match the day-of-month and day-of-week fields of an expression."""

from __future__ import annotations

from tickwheel_admin.domain.schedule.cron.months import Shape
from tickwheel_admin.domain.schedule.cron.tokens import (
    Field,
    LastDay,
    LastWeekday,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
    Special,
)

_ONE_A_WEEK = 0b1_0000001_0000001_0000001_0000001
_SATURDAY, _SUNDAY = 6, 0


def days_of_month(field: Field, shape: Shape) -> int:
    """Bit 0 is the first day of the month."""
    days = field.mask >> 1 & (1 << shape.length) - 1
    for special in field.specials:
        days |= _special(special, shape)
    return days


def days_of_week(field: Field, shape: Shape) -> int:
    """Bit 0 is the first day of the month."""
    # The week as it begins on the first of the month, then once for each week.
    week = (field.mask | field.mask << 7) >> shape.first & 0b1111111
    days = week * _ONE_A_WEEK & (1 << shape.length) - 1
    for special in field.specials:
        days |= _special(special, shape)
    return days


def _special(special: Special, shape: Shape) -> int:
    match special:
        case LastDay(before):
            return _bit(shape.length - before)
        case LastWorkday(before):
            return _bit(_nearest_workday(shape.length - before, shape))
        case NearestWorkday(day):
            return _bit(_nearest_workday(day, shape))
        case LastWeekday(weekday):
            first = 1 + (weekday - shape.first) % 7
            return _bit(first + (shape.length - first) // 7 * 7)
        case NthWeekday(weekday, nth):
            day = 1 + (weekday - shape.first) % 7 + 7 * (nth - 1)
            return _bit(day) if day <= shape.length else 0


def _bit(day: int) -> int:
    return 1 << day - 1 if day >= 1 else 0


def _nearest_workday(day: int, shape: Shape) -> int:
    """Monday to Friday nearest to a day of the month, within the month; 0 without such a day.

    Quartz's rule: Saturday becomes Friday and Sunday Monday, except at the ends of the month.
    """
    if not 1 <= day <= shape.length:
        return 0
    weekday = (shape.first + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < shape.length else day - 2
    return day
