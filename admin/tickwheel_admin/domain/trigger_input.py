"""Triggers as people and programs write them: field names, limits, defaults, and back.

`parse_trigger` notes every problem before it refuses; `trigger_to_raw` is its exact inverse.
"""

from __future__ import annotations

from typing import Any

from tickwheel_admin.domain import schedule
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, as_seconds, instant_to_iso, raise_if_any
from tickwheel_admin.domain.schedule import ScheduleError
from tickwheel_admin.domain.trigger import (
    MAX_CATCH_UP,
    MAX_EVERY_MS,
    MIN_EVERY_MS,
    MISFIRE_THRESHOLD_MS,
    MisfirePolicy,
    TriggerKind,
    TriggerSpec,
)

_MISSED = ("misfire", "misfire_threshold_seconds", "catch_up_limit")
TRIGGER_FIELDS: dict[TriggerKind, tuple[str, ...]] = {
    TriggerKind.CRON: ("kind", "expression", "dialect", "timezone", *_MISSED),
    TriggerKind.FIXED_RATE: ("kind", "every_seconds", "anchor_at", *_MISSED),
    TriggerKind.ONCE: ("kind", "at", *_MISSED),
    # The next fire follows from the end of the run before, so none can be missed.
    TriggerKind.FIXED_DELAY: ("kind", "every_seconds"),
    TriggerKind.CALENDAR_INTERVAL: ("kind",),
    TriggerKind.DAILY_WINDOW: ("kind",),
}

MAX_EXPRESSION_CHARS = 500
MIN_MISFIRE_THRESHOLD_MS = 1_000
MAX_MISFIRE_THRESHOLD_MS = 86_400_000


def parse_trigger(raw: object, path: str = "") -> TriggerSpec:
    """One trigger from a request, its schedule proven to be computable.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    spec = read_trigger(Fields(raw, path, problems))
    raise_if_any(problems)
    assert spec is not None  # noqa: S101 - nothing is refused without a problem
    return spec


def trigger_to_raw(spec: TriggerSpec) -> dict[str, Any]:
    """What `parse_trigger` reads as this specification; every field of its kind is named."""
    raw: dict[str, Any] = {"kind": spec.kind.value}
    match spec.kind:
        case TriggerKind.CRON:
            raw["expression"] = spec.expression
            raw["dialect"] = spec.dialect
            raw["timezone"] = spec.timezone
        case TriggerKind.FIXED_RATE:
            raw["every_seconds"] = as_seconds(spec.every_ms or 0)
            raw["anchor_at"] = None if spec.anchor_at is None else instant_to_iso(spec.anchor_at)
        case TriggerKind.ONCE:
            raw["at"] = instant_to_iso(spec.at or 0)
        case TriggerKind.FIXED_DELAY:
            raw["every_seconds"] = as_seconds(spec.every_ms or 0)
            return raw
    raw["misfire"] = spec.misfire.value
    raw["misfire_threshold_seconds"] = as_seconds(spec.misfire_threshold_ms)
    all_of_them = spec.misfire is MisfirePolicy.FIRE_ALL
    raw["catch_up_limit"] = spec.catch_up_limit if all_of_them else None
    return raw


def read_trigger(fields: Fields) -> TriggerSpec | None:
    """The trigger, or None when a problem was noted."""
    before = len(fields.problems)
    if not fields.has("kind"):
        if not fields.is_object:
            return None
        fields.refuse("kind", "required", "This is required.")
        return None
    kind = fields.member("kind", TriggerKind, default=TriggerKind.CRON)
    if len(fields.problems) > before:
        return None  # which fields there may be is not known
    fields.only(TRIGGER_FIELDS[kind])
    match kind:
        case TriggerKind.CRON:
            spec = TriggerSpec(
                kind=kind,
                expression=fields.text("expression", max_chars=MAX_EXPRESSION_CHARS, required=True),
                dialect=fields.choice("dialect", ("unix",), default="unix"),
                timezone=fields.text("timezone", max_chars=100, default="UTC"),
                **_read_missed(fields),
            )
        case TriggerKind.FIXED_RATE:
            spec = TriggerSpec(
                kind=kind,
                every_ms=_read_every(fields),
                anchor_at=fields.instant("anchor_at"),
                **_read_missed(fields),
            )
        case TriggerKind.ONCE:
            at = _required(fields, "at", fields.instant("at"))
            spec = TriggerSpec(kind=kind, at=at, **_read_missed(fields))
        case TriggerKind.FIXED_DELAY:
            spec = TriggerSpec(kind=kind, every_ms=_read_every(fields))
        case TriggerKind.CALENDAR_INTERVAL | TriggerKind.DAILY_WINDOW:
            spec = TriggerSpec(kind=kind)
    if len(fields.problems) > before:
        return None
    return spec if _is_computable(spec, fields) else None


def _read_every(fields: Fields) -> int | None:
    every_ms = fields.seconds_as_ms("every_seconds", low_ms=MIN_EVERY_MS, high_ms=MAX_EVERY_MS)
    return _required(fields, "every_seconds", every_ms)


def _read_missed(fields: Fields) -> dict[str, Any]:
    """What becomes of fires that were missed."""
    misfire = fields.member("misfire", MisfirePolicy, default=MisfirePolicy.FIRE_ONCE)
    threshold_ms = fields.seconds_as_ms(
        "misfire_threshold_seconds",
        low_ms=MIN_MISFIRE_THRESHOLD_MS,
        high_ms=MAX_MISFIRE_THRESHOLD_MS,
    )
    limit = fields.integer("catch_up_limit", low=1, high=MAX_CATCH_UP, default=MAX_CATCH_UP)
    if misfire is not MisfirePolicy.FIRE_ALL and fields.has("catch_up_limit"):
        fields.refuse(
            "catch_up_limit",
            "does_not_apply",
            "This limits how many missed fires run, so it needs misfire “fire_all”.",
        )
    return {
        "misfire": misfire,
        "misfire_threshold_ms": MISFIRE_THRESHOLD_MS if threshold_ms is None else threshold_ms,
        "catch_up_limit": limit,
    }


def _required(fields: Fields, name: str, value: int | None) -> int | None:
    if not fields.has(name):
        fields.refuse(name, "required", "This is required.")
    return value


def _is_computable(spec: TriggerSpec, fields: Fields) -> bool:
    try:
        schedule.parse(spec, saved_at=0)
    except ScheduleError as error:
        fields.refuse(error.field, f"{spec.kind.value}.invalid", error.template, **error.params)
        return False
    return True
