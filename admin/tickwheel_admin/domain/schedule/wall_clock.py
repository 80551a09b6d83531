"""Wall times, dates and weekdays as texts, and the numbers that schedules count with."""

from __future__ import annotations

import re
from datetime import date

DAY_SECONDS = 86_400
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")  # the n-th is weekday n of ISO 8601
MIN_YEAR = 1970
MAX_YEAR = 2199  # schedules are computed up to its end

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_YEARLY = re.compile(r"[0-9]{2}-[0-9]{2}")


def seconds_of_time(text: str) -> int:
    """Seconds since midnight of “9:30”, “09:30” or “09:30:15”; “24:00” is the day's end.

    Raises:
        ValueError: it is not a wall time.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"not a wall time: {text[:50]!r}")
    hour, minute, second = (int(part or 0) for part in found.groups())
    seconds = hour * 3600 + minute * 60 + second
    if minute > 59 or second > 59 or seconds > DAY_SECONDS:
        raise ValueError(f"not a wall time: {text[:50]!r}")
    return seconds


def time_of_seconds(seconds: int) -> str:
    """The wall time as it is stored: “09:30:00”."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def short_time(seconds: int) -> str:
    """The wall time as people read it: “09:30”, or with seconds when there are any."""
    text = time_of_seconds(seconds)
    return text[:5] if seconds % 60 == 0 else text


def day_of_date(text: str) -> int:
    """Days since 1970-01-01 of “2026-10-01”, from 1970 to 2199.

    Raises:
        ValueError: it is not a date, or lies outside these years.
    """
    if not _DATE.fullmatch(text):
        raise ValueError(f"not a date: {text[:50]!r}")
    day = date.fromisoformat(text)
    if not MIN_YEAR <= day.year <= MAX_YEAR:
        raise ValueError(f"outside {MIN_YEAR}-{MAX_YEAR}: {text}")
    return day.toordinal() - _EPOCH_ORDINAL


def date_of_day(day: int) -> date:
    """The date so many days after 1970-01-01."""
    return date.fromordinal(day + _EPOCH_ORDINAL)


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    return date(year, month, day).toordinal() - _EPOCH_ORDINAL


def month_and_day(text: str) -> tuple[int, int]:
    """The month and day of “12-25”; “02-29” is one, too.

    Raises:
        ValueError: no year has such a date.
    """
    if not _YEARLY.fullmatch(text):
        raise ValueError(f"not a month and day: {text[:50]!r}")
    day = date(2000, int(text[:2]), int(text[3:]))  # a leap year
    return day.month, day.day
