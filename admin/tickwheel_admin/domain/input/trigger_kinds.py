"""The fields of each kind of trigger as people and programs write them."""

from __future__ import annotations

from typing import Any

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS
from tickwheel_admin.domain.schedule.wall_clock_fields import read_date, read_time, read_weekdays
from tickwheel_admin.domain.triggers.trigger import (
    MAX_EVERY_MS,
    MIN_EVERY_MS,
    IntervalUnit,
    TriggerKind,
)

MAX_EXPRESSION_CHARS = 500
MAX_EVERY_UNITS = 1_000
ALL_WEEKDAYS = (1, 2, 3, 4, 5, 6, 7)


def read_own_fields(fields: Fields, kind: TriggerKind) -> dict[str, Any]:
    """What a trigger of this kind says, by the names of its specification."""
    return _READERS[kind](fields)


def _read_cron(fields: Fields) -> dict[str, Any]:
    expression = fields.text("expression", max_chars=MAX_EXPRESSION_CHARS, required=True)
    dialect = fields.member("dialect", Dialect, default=Dialect.UNIX)
    if not fields.has("dialect") and len(expression.split()) in (6, 7):
        fields.refuse(
            "dialect",
            "required",
            "An expression with seconds is read differently by quartz (1 is Sunday) and by spring"
            " (0 and 7 are Sunday); say which it is.",
        )
    return {"expression": expression, "dialect": dialect.value}


def _read_fixed_rate(fields: Fields) -> dict[str, Any]:
    return {"every_ms": _read_every(fields), "anchor_at": fields.instant("anchor_at")}


def _read_once(fields: Fields) -> dict[str, Any]:
    _required(fields, "at")
    return {"at": fields.instant("at")}


def _read_fixed_delay(fields: Fields) -> dict[str, Any]:
    return {
        "every_ms": _read_every(fields),
        "initial_delay_ms": fields.seconds_as_ms(
            "initial_delay_seconds", low_ms=0, high_ms=MAX_EVERY_MS
        ),
    }


def _read_calendar_interval(fields: Fields) -> dict[str, Any]:
    _required(fields, "unit")
    _required(fields, "start_date")
    return {
        "every": fields.integer("every", low=1, high=MAX_EVERY_UNITS, default=1),
        "unit": fields.member("unit", IntervalUnit, default=IntervalUnit.DAY),
        "start_date": read_date(fields, "start_date"),
        "at_time": read_time(fields, "at_time", default="00:00:00"),
    }


def _read_daily_window(fields: Fields) -> dict[str, Any]:
    every_ms = _read_every(fields, low_ms=1_000, high_ms=DAY_SECONDS * 1_000)
    if every_ms is not None and every_ms % 1_000:
        fields.refuse("every_seconds", "too_fine", "Whole seconds, please.")
    from_time = read_time(fields, "from_time", default="00:00:00")
    to_time = read_time(fields, "to_time", default="23:59:59")
    if to_time <= from_time:
        fields.refuse(
            "to_time",
            "out_of_range",
            "This must be later than from_time; a window over midnight is two triggers.",
        )
    weekdays = read_weekdays(fields, "weekdays")
    if fields.raw.get("weekdays") in ([], ()):
        fields.refuse(
            "weekdays", "required", "Name at least one weekday, or leave this out for every day."
        )
    return {
        "every_ms": every_ms,
        "from_time": from_time,
        "to_time": to_time,
        "weekdays": () if weekdays == ALL_WEEKDAYS else weekdays,
    }


def _read_every(
    fields: Fields, *, low_ms: int = MIN_EVERY_MS, high_ms: int = MAX_EVERY_MS
) -> int | None:
    _required(fields, "every_seconds")
    return fields.seconds_as_ms("every_seconds", low_ms=low_ms, high_ms=high_ms)


def _required(fields: Fields, name: str) -> None:
    if not fields.has(name):
        fields.refuse(name, "required", "This is required.")


_READERS = {
    TriggerKind.CRON: _read_cron,
    TriggerKind.FIXED_RATE: _read_fixed_rate,
    TriggerKind.ONCE: _read_once,
    TriggerKind.FIXED_DELAY: _read_fixed_delay,
    TriggerKind.CALENDAR_INTERVAL: _read_calendar_interval,
    TriggerKind.DAILY_WINDOW: _read_daily_window,
}
