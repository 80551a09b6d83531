"""What the fields of a trigger card mean as a raw trigger, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import structs

from tickwheel_admin.console.frame.locale import time_zones
from tickwheel_admin.console.frame.units import FormFields, in_units, pretty
from tickwheel_admin.domain.fields import as_seconds, instant_from_iso, instant_to_iso
from tickwheel_admin.domain.input.trigger import TRIGGER_FIELDS
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.wall_clock import WEEKDAYS, seconds_of_time, short_time
from tickwheel_admin.domain.triggers.spec import MisfirePolicy, TriggerSpec

_INSTANTS = ("at", "anchor_at", "start_at", "end_at")
# How a raw length is called in the form, which keeps what was typed for each kind apart.
LENGTH_OF_KIND: Mapping[str, str] = {
    "fixed_rate": "rate",
    "fixed_delay": "pause",
    "daily_window": "step",
}
# What is shown as it is stored, by its name in the form.
_AS_TEXT = {
    "expression": "expression",
    "dialect": "dialect",
    "gap": "gap",
    "overlap": "overlap",
    "count": "every",
    "unit": "unit",
    "start_date": "start_date",
}
_TIMES = ("at_time", "from_time", "to_time")
DEFAULTS: Mapping[str, str] = {
    "kind": "cron",
    "expression": "",
    "dialect": Dialect.UNIX.value,
    "timezone": "",
    "gap": "fire",
    "overlap": "auto",
    "rate": "5",
    "rate_unit": "m",
    "anchor_at": "",
    "pause": "5",
    "pause_unit": "m",
    "initial_delay": "",
    "initial_delay_unit": "m",
    "at": "",
    "count": "1",
    "unit": "week",
    "start_date": "",
    "at_time": "09:00",
    "step": "15",
    "step_unit": "m",
    "from_time": "09:00",
    "to_time": "18:00",
    "weekdays": "",
    "start_at": "",
    "end_at": "",
    "repeat_count": "",
    "calendar": "",
    "jitter": "",
    "jitter_unit": "s",
    "priority": "",
    "parameters": "",
    "misfire": MisfirePolicy.FIRE_ONCE.value,
    "misfire_threshold": "5",
    "catch_up_limit": "1000",
    # Instants as they are stored: a local time alone would lose the pass of a repeated hour.
    **{f"{name}_kept": "" for name in _INSTANTS},
}


def values_of_trigger(spec: TriggerSpec) -> dict[str, str]:
    """The fields of a stored trigger."""
    zone = spec.timezone or "UTC"
    values = {
        **DEFAULTS,
        "kind": spec.kind,
        "timezone": spec.timezone or "",
        "repeat_count": _text(spec.repeat_count),
        "calendar": spec.calendar or "",
        "priority": _text(spec.priority),
        "parameters": pretty(spec.parameters) if spec.parameters else "",
        "misfire": spec.misfire.value,
        "misfire_threshold": str(as_seconds(spec.misfire_threshold_ms)),
        "catch_up_limit": str(spec.catch_up_limit),
    }
    said = structs.asdict(spec)
    values["weekdays"] = ",".join(WEEKDAYS[day - 1] for day in said.get("weekdays", ()))
    values |= {
        name: str(value)
        for name, field in _AS_TEXT.items()
        if (value := said.get(field)) is not None
    }
    values |= {name: short_time(seconds_of_time(said[name])) for name in _TIMES if said.get(name)}
    lengths = {"initial_delay": said.get("initial_delay_ms"), "jitter": spec.jitter_ms or None}
    if spec.kind in LENGTH_OF_KIND:
        lengths[LENGTH_OF_KIND[spec.kind]] = said["every_ms"]
    for name, ms in lengths.items():
        if ms is not None:
            values[name], values[f"{name}_unit"] = in_units(ms)
    for name in _INSTANTS:
        if (at := said.get(name)) is not None:
            values |= {name: _local(at, zone), f"{name}_kept": instant_to_iso(at)}
    return values


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
    match name:
        case "every_seconds":
            field = LENGTH_OF_KIND[kind]
            return typed.length(field, typed.text(f"{field}_unit"))
        case "initial_delay_seconds":
            return typed.length("initial_delay", typed.text("initial_delay_unit"))
        case "jitter_seconds":
            return typed.length("jitter", typed.text("jitter_unit"))
        case "misfire_threshold_seconds":
            return typed.length("misfire_threshold")
        case "every":
            return typed.whole("count")
        case "repeat_count" | "priority" | "catch_up_limit":
            return typed.whole(name)
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


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
