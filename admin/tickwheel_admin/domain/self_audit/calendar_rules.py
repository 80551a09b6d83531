"""What a calendar with those it is based on leaves, decided for one wall time after the other."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from tickwheel_admin.domain.calendars.calendar import CalendarSense, CalendarSpec
from tickwheel_admin.domain.self_audit.cron_reading import read_cron
from tickwheel_admin.domain.self_audit.wall_times import DAY, has_day, has_second, seconds_of

_EPOCH = date(1970, 1, 1)


def allows(chain: Sequence[CalendarSpec], wall: int) -> bool:
    """Whether all calendars of a chain leave a wall second, counted from 1970."""
    return all(_allows(spec, wall) for spec in chain)


def _allows(spec: CalendarSpec, wall: int) -> bool:
    day, second = divmod(wall, DAY)
    in_window = any(
        seconds_of(each.from_time) <= second < seconds_of(each.to_time) for each in spec.windows
    )
    if spec.sense is CalendarSense.INCLUDE:
        names_days = bool(spec.dates or spec.yearly or spec.month_days or spec.weekdays)
        return (not names_days or _names(spec, day)) and (not spec.windows or in_window)
    if in_window or _names(spec, day):
        return False
    for each in spec.cron:
        reading = read_cron(each.expression, each.dialect.value)
        if has_day(reading, day) and has_second(reading, second):
            return False
    return True


def _names(spec: CalendarSpec, day: int) -> bool:
    found = _EPOCH + timedelta(days=day)
    return (
        found.isoformat() in spec.dates
        or f"{found:%m-%d}" in spec.yearly
        or found.day in spec.month_days
        or found.isoweekday() in spec.weekdays
    )
