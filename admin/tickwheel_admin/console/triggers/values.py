"""What the fields of a trigger card mean as a raw trigger, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tickwheel_admin.console.frame.locale import time_zones
from tickwheel_admin.console.frame.units import FormFields, in_units, pretty
from tickwheel_admin.domain.fields import instant_from_iso
from tickwheel_admin.domain.input.trigger import TRIGGER_FIELDS, trigger_to_raw
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.wall_clock import WEEKDAYS, seconds_of_time, short_time
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.spec import MisfirePolicy, TriggerSpec

_INSTANTS = ("at", "anchor_at", "start_at", "end_at")
_TIMES = ("at_time", "from_time", "to_time")
# How a raw length is called in the form, which keeps what was typed for each kind apart.
_LENGTH_OF_KIND: Mapping[str, str] = {
    "fixed_rate": "rate",
    "fixed_delay": "pause",
    "daily_window": "step",
}
_PLACES = {
    "every": "count",
    "initial_delay_seconds": "initial_delay",
    "jitter_seconds": "jitter",
    "misfire_threshold_seconds": "misfire_threshold",
}


def place_of(name: str, kind: str) -> str:
    """What the form calls a field of a raw trigger."""
    if name == "every_seconds":
        return _LENGTH_OF_KIND.get(kind, name)
    return _PLACES.get(name, name)


DEFAULTS: Mapping[str, str] = {
    **{place_of(name, kind): "" for kind, names in TRIGGER_FIELDS.items() for name in names},
    "kind": CronSpec.kind,
    "dialect": Dialect.UNIX.value,
    "gap": "fire",
    "overlap": "auto",
    "rate": "5",
    "rate_unit": "m",
    "pause": "5",
    "pause_unit": "m",
    "initial_delay_unit": "m",
    "count": "1",
    "unit": "week",
    "at_time": "09:00",
    "step": "15",
    "step_unit": "m",
    "from_time": "09:00",
    "to_time": "18:00",
    "jitter_unit": "s",
    "misfire": MisfirePolicy.FIRE_ONCE.value,
    "misfire_threshold": "5",
    "catch_up_limit": "1000",
    # Instants as they are stored: a local time alone would lose the pass of a repeated hour.
    **{f"{name}_kept": "" for name in _INSTANTS},
}


def values_of_trigger(spec: TriggerSpec) -> dict[str, str]:
    """The fields of a stored trigger."""
    values = dict(DEFAULTS)
    for name, value in trigger_to_raw(spec).items():
        if value is not None:
            values |= _shown(spec, name, value)
    return values


def _shown(spec: TriggerSpec, name: str, value: Any) -> dict[str, str]:
    """The fields that show one of a raw trigger; `_read` reads them."""
    place = place_of(name, spec.kind)
    if name in _INSTANTS:
        at = instant_from_iso(value)
        return {name: _local(at, spec.timezone or "UTC"), f"{name}_kept": value}
    if name in _TIMES:
        return {name: short_time(seconds_of_time(value))}
    match name:
        case "every_seconds" | "initial_delay_seconds":
            number, unit = in_units(round(value * 1000))
            return {place: number, f"{place}_unit": unit}
        case "jitter_seconds":
            number, unit = in_units(spec.jitter_ms)
            return {place: number, f"{place}_unit": unit} if value else {}
        case "weekdays":
            return {name: "" if len(value) == len(WEEKDAYS) else ",".join(value)}
        case "parameters":
            return {name: pretty(spec.parameters or "")}
    return {place: str(value)}


def read_card(typed: FormFields) -> dict[str, Any]:
    """The raw trigger that the fields of one card say."""
    kind = typed.text("kind")
    if kind not in TRIGGER_FIELDS:
        return {"kind": kind}
    known = TRIGGER_FIELDS[kind]
    raw = {"kind": kind} | {name: _read(typed, name, kind) for name in known[1:]}
    if raw.get("misfire") != MisfirePolicy.FIRE_ALL:
        raw.pop("catch_up_limit", None)
    return {name: value for name, value in raw.items() if value not in (None, "")}


def _read(typed: FormFields, name: str, kind: str) -> Any:
    if name in _INSTANTS:
        return _read_instant(typed, name)
    place = place_of(name, kind)
    match name:
        case "every_seconds" | "initial_delay_seconds" | "jitter_seconds":
            return typed.length(place, typed.text(f"{place}_unit"))
        case "misfire_threshold_seconds":
            return typed.length(place)
        case "every" | "repeat_count" | "priority" | "catch_up_limit":
            return typed.whole(place)
        case "weekdays":
            return [day for day in typed.text(name).split(",") if day] or None
        case "parameters":
            return typed.parameters(name) if typed.text(name) else None
    return typed.text(name)


def _read_instant(typed: FormFields, name: str) -> str | None:
    zone = typed.text("timezone") or "UTC"
    kept = typed.text(f"{name}_kept")
    try:
        if kept and _local(instant_from_iso(kept), zone) == typed.text(name):
            return kept
    except (ValueError, OverflowError):
        pass  # no instant of ours: what is typed counts
    return typed.local_instant(name, zone=zone)


def _local(at: int, zone: str) -> str:
    """For the value of a `datetime-local` field, to the millisecond."""
    moment = datetime.fromtimestamp(at // 1000, ZoneInfo(zone) if zone in time_zones() else UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S" if at % 60_000 else "%Y-%m-%dT%H:%M")
    return f"{text}.{at % 1000:03}" if at % 1000 else text
