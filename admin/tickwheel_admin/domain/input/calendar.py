"""Calendars as people and programs write them: field names, limits, defaults, and back.

`parse_calendar` notes every problem before it refuses; `calendar_to_raw` is its exact inverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tickwheel_admin.domain.calendars.calendar import (
    CalendarSense,
    CalendarSpec,
    CronExclusion,
    TimeWindow,
)
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS
from tickwheel_admin.domain.schedule.wall_clock_fields import (
    read_dates,
    read_list,
    read_time,
    read_weekdays,
    read_yearly,
    weekdays_to_raw,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.schedule import parse

CALENDAR_FIELDS = (
    "name",
    "description",
    "sense",
    "dates",
    "yearly",
    "month_days",
    "weekdays",
    "windows",
    "cron",
    "base",
)
_WINDOW_FIELDS = ("from_time", "to_time")
_EXCLUSION_FIELDS = ("expression", "dialect")

MAX_CALENDAR_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 4_000
MAX_DATES = 10_000
MAX_WINDOWS = 20
MAX_EXCLUSIONS = 20
MAX_EXPRESSION_CHARS = 500

_MONTH_DAY_RULE = "A day of the month is a whole number from 1 to 31."


def parse_calendar(raw: object) -> tuple[str, str, CalendarSpec]:
    """Name, description and content of one calendar from a request.

    That the base exists, and that no calendar is based on itself, is checked where it is saved.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    fields = Fields(raw, "", problems)
    fields.only(CALENDAR_FIELDS)
    name = fields.text(
        "name", max_chars=MAX_CALENDAR_NAME_CHARS, required=fields.is_object, is_name=True
    )
    description = fields.text("description", max_chars=MAX_DESCRIPTION_CHARS, lines=True)
    spec = CalendarSpec(
        sense=fields.member("sense", CalendarSense, default=CalendarSense.EXCLUDE),
        dates=read_dates(fields, "dates", limit=MAX_DATES),
        yearly=read_yearly(fields, "yearly"),
        month_days=_read_month_days(fields),
        weekdays=read_weekdays(fields, "weekdays"),
        windows=_read_windows(fields),
        cron=_read_exclusions(fields),
        base=fields.text("base", max_chars=MAX_CALENDAR_NAME_CHARS) or None,
    )
    if not problems:
        _check_sense(fields, spec)
        if spec.base == name:
            fields.refuse("base", "calendar.circle", "A calendar cannot be based on itself.")
    raise_if_any(problems)
    return name, description, spec


def calendar_to_raw(name: str, description: str, spec: CalendarSpec) -> dict[str, Any]:
    """What `parse_calendar` reads as this calendar; every field is named."""
    return {
        "name": name,
        "description": description,
        "sense": spec.sense.value,
        "dates": list(spec.dates),
        "yearly": list(spec.yearly),
        "month_days": list(spec.month_days),
        "weekdays": weekdays_to_raw(spec.weekdays),
        "windows": [{"from_time": w.from_time, "to_time": w.to_time} for w in spec.windows],
        "cron": [{"expression": c.expression, "dialect": c.dialect.value} for c in spec.cron],
        "base": spec.base,
    }


def _check_sense(fields: Fields, spec: CalendarSpec) -> None:
    if spec.sense is CalendarSense.EXCLUDE:
        if len(spec.weekdays) == 7 or len(spec.month_days) == 31:
            fields.refuse(
                "weekdays" if len(spec.weekdays) == 7 else "month_days",
                "calendar.nothing_left",
                "This takes every day away, so nothing would fire.",
            )
        return
    if spec.cron:
        fields.refuse(
            "cron",
            "does_not_apply",
            "Cron expressions are for excluding calendars; an including one has days and windows.",
        )
    elif not (spec.dates or spec.yearly or spec.month_days or spec.weekdays or spec.windows):
        fields.refuse(
            "sense",
            "calendar.nothing_left",
            "An including calendar needs days or windows: only what it names may fire.",
        )


def _read_month_days(fields: Fields) -> tuple[int, ...]:
    def number(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 31:
            raise ValueError(value)
        return value

    found = read_list(fields, "month_days", number, limit=100, template=_MONTH_DAY_RULE)
    return tuple(sorted(set(found)))


def _read_windows(fields: Fields) -> tuple[TimeWindow, ...]:
    found: list[TimeWindow] = []
    for each in _objects(fields, "windows", limit=MAX_WINDOWS, known=_WINDOW_FIELDS):
        before = len(fields.problems)
        for name in _WINDOW_FIELDS:
            if not each.has(name):
                each.refuse(name, "required", "This is required.")
        window = TimeWindow(
            from_time=read_time(each, "from_time", default=""),
            to_time=read_time(each, "to_time", default="", latest=DAY_SECONDS),
        )
        if len(fields.problems) > before:
            continue
        if window.to_time <= window.from_time:
            each.refuse(
                "to_time",
                "out_of_range",
                "This must be later than from_time; a window over midnight is two windows.",
            )
        elif window not in found:
            found.append(window)
    return tuple(sorted(found, key=lambda window: (window.from_time, window.to_time)))


def _read_exclusions(fields: Fields) -> tuple[CronExclusion, ...]:
    found: list[CronExclusion] = []
    for each in _objects(fields, "cron", limit=MAX_EXCLUSIONS, known=_EXCLUSION_FIELDS):
        before = len(fields.problems)
        exclusion = CronExclusion(
            expression=each.text("expression", max_chars=MAX_EXPRESSION_CHARS, required=True),
            dialect=each.member("dialect", Dialect, default=Dialect.QUARTZ),
        )
        if len(fields.problems) > before:
            continue
        try:
            parse(
                CronSpec(
                    expression=exclusion.expression,
                    dialect=exclusion.dialect.value,
                ),
                saved_at=0,
            )
        except ScheduleError as error:
            each.refuse(error.field, "cron.invalid", error.template, **error.params)
            continue
        if exclusion not in found:
            found.append(exclusion)
    return tuple(found)


def _objects(fields: Fields, name: str, *, limit: int, known: Sequence[str]) -> Iterator[Fields]:
    """The objects of a list."""
    if not fields.has(name):
        return
    value = fields.raw[name]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse(name, "wrong_type", "This must be a list.")
        return
    if len(value) > limit:
        fields.refuse(name, "too_many", "At most %(limit)d, please.", limit=limit)
        return
    for index, entry in enumerate(value):
        each = Fields(entry, fields.where(f"{name}[{index}]"), fields.problems)
        if each.is_object:
            each.only(known)
            yield each
