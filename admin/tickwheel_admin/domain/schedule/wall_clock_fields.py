"""Wall times, dates and weekdays in requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.schedule.wall_clock import (
    DAY_SECONDS,
    WEEKDAYS,
    date_of_day,
    day_of_date,
    month_and_day,
    seconds_of_time,
    time_of_seconds,
)

MAX_LISTED = 5  # so many wrong entries of one list are told
_CHOICES = ", ".join(WEEKDAYS)
_WEEKDAY_RULE = "This must be one of %(choices)s."
_DATE_RULE = "This must be a date from 1970-01-01 to 2199-12-31, such as 2026-10-01."
_YEARLY_RULE = "This must be a month and a day, such as 12-25."


def read_time(fields: Fields, name: str, *, default: str, latest: int = DAY_SECONDS - 1) -> str:
    """A wall time from 00:00 to `latest` (seconds since midnight), in its stored form."""
    if not fields.has(name):
        return default
    value = fields.raw[name]
    if not isinstance(value, str):
        fields.refuse(name, "wrong_type", "This must be a wall time, such as 09:30.")
        return default
    try:
        seconds = seconds_of_time(value.strip())
    except ValueError:
        seconds = DAY_SECONDS + 1
    if seconds > latest:
        fields.refuse(
            name,
            "time.invalid",
            "This must be a wall time from 00:00 to %(latest)s, such as 09:30 or 09:30:15.",
            latest=time_of_seconds(latest),
        )
        return default
    return time_of_seconds(seconds)


def read_date(fields: Fields, name: str) -> str | None:
    """A date of the years 1970 to 2199; None when none was given."""
    if not fields.has(name):
        return None
    value = fields.raw[name]
    try:
        return str(date_of_day(day_of_date(value.strip() if isinstance(value, str) else "")))
    except ValueError:
        fields.refuse(
            name,
            "date.invalid",
            _DATE_RULE,
        )
        return None


def read_weekdays(fields: Fields, name: str) -> tuple[int, ...]:
    """Numbers of weekdays, 1 for Monday, ascending and each once."""

    def number(value: object) -> int:
        if not isinstance(value, str):
            raise ValueError(value)
        return WEEKDAYS.index(value) + 1

    found = read_list(fields, name, number, limit=100, template=_WEEKDAY_RULE, choices=_CHOICES)
    return tuple(sorted(set(found)))


def weekdays_to_raw(weekdays: Sequence[int]) -> list[str]:
    """What `read_weekdays` reads as these numbers."""
    return [WEEKDAYS[number - 1] for number in weekdays]


def read_dates(fields: Fields, name: str, *, limit: int) -> tuple[str, ...]:
    """Dates, ascending and each once."""

    def day(value: object) -> str:
        return str(date_of_day(day_of_date(value.strip() if isinstance(value, str) else "")))

    return tuple(sorted(set(read_list(fields, name, day, limit=limit, template=_DATE_RULE))))


def read_yearly(fields: Fields, name: str) -> tuple[str, ...]:
    """Months and days without a year, ascending and each once."""

    def day(value: object) -> str:
        month, number = month_and_day(value.strip() if isinstance(value, str) else "")
        return f"{month:02}-{number:02}"

    return tuple(sorted(set(read_list(fields, name, day, limit=1_000, template=_YEARLY_RULE))))


def read_list(
    fields: Fields,
    name: str,
    read: Callable[[object], Any],
    *,
    limit: int,
    template: str,
    **params: Any,
) -> list[Any]:
    """The entries of a list, each through `read`, whose ValueError is told with the template."""
    if not fields.has(name):
        return []
    value = fields.raw[name]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse(name, "wrong_type", "This must be a list.")
        return []
    if len(value) > limit:
        fields.refuse(name, "too_many", "At most %(limit)d, please.", limit=limit)
        return []
    found = []
    wrong = 0
    for index, entry in enumerate(value):
        try:
            found.append(read(entry))
        except ValueError:
            wrong += 1
            if wrong <= MAX_LISTED:
                fields.refuse(f"{name}[{index}]", "entry.invalid", template, **params)
    return found
