"""What the fields of a trigger card mean as a raw trigger, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tickwheel_admin.console.frame.locale import time_zones
from tickwheel_admin.console.frame.units import FormFields, in_units, pretty
from tickwheel_admin.domain.fields import instant_from_iso
from tickwheel_admin.domain.input.trigger import TRIGGER_FIELDS, trigger_to_raw
from tickwheel_admin.domain.schedule.wall_clock import WEEKDAYS, seconds_of_time, short_time
from tickwheel_admin.domain.triggers.kinds import KINDS
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.spec import MisfirePolicy, TriggerSpec

_OWN: Mapping[str, Sequence[OwnField]] = {
    name: kind.own_fields(str) for name, kind in KINDS.items()
}
_EVERY_OWN = [field for fields in _OWN.values() for field in fields]
# Of fields that several kinds have; a kind says it of its own.
_SHARED_PLACES = {
    "jitter_seconds": "jitter",
    "misfire_threshold_seconds": "misfire_threshold",
}
_SHARED_INPUTS = {
    "start_at": Input.INSTANT,
    "end_at": Input.INSTANT,
    "jitter_seconds": Input.LENGTH,
    "repeat_count": Input.WHOLE,
    "priority": Input.WHOLE,
    "catch_up_limit": Input.WHOLE,
}
INSTANTS = (
    *(field.form_name for field in _EVERY_OWN if field.input is Input.INSTANT),
    "start_at",
    "end_at",
)
WEEKDAY_FIELDS = frozenset(field.form_name for field in _EVERY_OWN if field.input is Input.WEEKDAYS)
SELDOM = tuple(field.form_name for field in _EVERY_OWN if field.is_seldom)


def place_of(name: str, kind: str) -> str:
    """What the form calls a field of a raw trigger."""
    own = _own_field(name, kind)
    return own.form_name if own else _SHARED_PLACES.get(name, name)


def _own_field(name: str, kind: str) -> OwnField | None:
    return next((field for field in _OWN.get(kind, ()) if field.name == name), None)


def _input_of(name: str, kind: str) -> Input | None:
    own = _own_field(name, kind)
    return own.input if own else _SHARED_INPUTS.get(name)


def _own_defaults(field: OwnField) -> dict[str, str]:
    match field.input:
        case Input.LENGTH:
            return {field.form_name: field.default, f"{field.form_name}_unit": field.unit}
        case Input.COUNT:
            return {field.form_name: field.default, field.unit: field.unit_default}
    return {field.form_name: field.default}


DEFAULTS: Mapping[str, str] = {
    **{place_of(name, kind): "" for kind, names in TRIGGER_FIELDS.items() for name in names},
    **{name: value for field in _EVERY_OWN for name, value in _own_defaults(field).items()},
    "kind": CronSpec.kind,
    "gap": "fire",
    "overlap": "auto",
    "jitter_unit": "s",
    "misfire": MisfirePolicy.FIRE_ONCE.value,
    "misfire_threshold": "5",
    "catch_up_limit": "1000",
    # Instants as they are stored: a local time alone would lose the pass of a repeated hour.
    **{f"{name}_kept": "" for name in INSTANTS},
}


def values_of_trigger(spec: TriggerSpec) -> dict[str, str]:
    """The fields of a stored trigger."""
    values = dict(DEFAULTS)
    for name, value in trigger_to_raw(spec).items():
        if value is not None and (name, value) != ("jitter_seconds", 0):
            values |= _shown(spec, name, value)
    return values


def _shown(spec: TriggerSpec, name: str, value: Any) -> dict[str, str]:
    """The fields that show one of a raw trigger; `_read` reads them."""
    place = place_of(name, spec.kind)
    match _input_of(name, spec.kind):
        case Input.INSTANT:
            at = instant_from_iso(value)
            return {place: _local(at, spec.timezone or "UTC"), f"{place}_kept": value}
        case Input.TIME:
            return {place: short_time(seconds_of_time(value))}
        case Input.LENGTH:
            number, unit = in_units(round(value * 1000))
            return {place: number, f"{place}_unit": unit}
        case Input.WEEKDAYS:
            return {place: "" if len(value) == len(WEEKDAYS) else ",".join(value)}
    return {place: pretty(spec.parameters or "") if name == "parameters" else str(value)}


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
    place = place_of(name, kind)
    match _input_of(name, kind):
        case Input.INSTANT:
            return _read_instant(typed, place)
        case Input.LENGTH:
            return typed.length(place, typed.text(f"{place}_unit"))
        case Input.COUNT | Input.WHOLE:
            return typed.whole(place)
        case Input.WEEKDAYS:
            return [day for day in typed.text(place).split(",") if day] or None
    match name:
        case "misfire_threshold_seconds":
            return typed.length(place)
        case "parameters":
            return typed.parameters(place) if typed.text(place) else None
    return typed.text(place)


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
