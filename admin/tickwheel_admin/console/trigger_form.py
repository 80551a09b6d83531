"""The part of the job form that says when it fires."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tickwheel_admin.console.reader import local_input
from tickwheel_admin.console.typed import Typed, in_units
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import as_seconds
from tickwheel_admin.domain.trigger import MisfirePolicy, TriggerKind, TriggerSpec
from tickwheel_admin.domain.trigger_input import trigger_to_raw

TRIGGER_DEFAULTS: dict[str, str] = {
    "when": "none",
    "expression": "",
    "timezone": "UTC",
    "every": "5",
    "every_unit": "m",
    "anchor_at": "",
    "pause": "5",
    "pause_unit": "m",
    "at": "",
    "at_timezone": "UTC",
    "misfire": "fire_once",
    "misfire_threshold": "5",
    "catch_up_limit": "1000",
    "further_triggers": "",
}

# Where the form shows what the rules call by another name.
TRIGGER_PLACES = {
    "triggers[0].expression": "expression",
    "triggers[0].dialect": "expression",
    "triggers[0].timezone": "timezone",
    "triggers[0].every_seconds": "every",
    "triggers[0].at": "at",
    "triggers[0].misfire": "misfire",
    "triggers[0].misfire_threshold_seconds": "misfire_threshold",
    "triggers[0].catch_up_limit": "catch_up_limit",
    "triggers[0].kind": "when",
}


def values_of_trigger(spec: TriggerSpec, *, timezone: str) -> dict[str, str]:
    """The fields of a stored trigger."""
    values = {"when": spec.kind.value}
    match spec.kind:
        case TriggerKind.CRON:
            values |= {"expression": spec.expression or "", "timezone": spec.timezone or "UTC"}
        case TriggerKind.FIXED_RATE:
            every, unit = in_units(spec.every_ms)
            anchor = trigger_to_raw(spec)["anchor_at"]
            values |= {"every": every, "every_unit": unit, "anchor_at": anchor or ""}
        case TriggerKind.ONCE:
            values["at"] = local_input(spec.at or 0, timezone)
        case TriggerKind.FIXED_DELAY:
            pause, unit = in_units(spec.every_ms)
            return values | {"pause": pause, "pause_unit": unit}
    values |= {
        "misfire": spec.misfire.value,
        "misfire_threshold": str(as_seconds(spec.misfire_threshold_ms)),
    }
    if spec.misfire is MisfirePolicy.FIRE_ALL:
        values["catch_up_limit"] = str(spec.catch_up_limit)
    return values


def read_trigger(typed: Typed) -> dict[str, Any]:
    """The raw trigger that the fields say."""
    kind = typed.text("when")
    raw: dict[str, Any] = {"kind": kind}
    match kind:
        case "cron":
            raw["expression"] = typed.text("expression")
            raw["timezone"] = typed.text("timezone") or "UTC"
        case "fixed_rate":
            raw["every_seconds"] = typed.length("every", typed.text("every_unit"))
            raw["anchor_at"] = typed.text("anchor_at") or None
        case "once":
            raw["at"] = typed.local_instant("at", zone=typed.text("at_timezone"))
        case "fixed_delay":
            raw["every_seconds"] = typed.length("pause", typed.text("pause_unit"))
            return raw
    raw["misfire"] = typed.text("misfire")
    raw["misfire_threshold_seconds"] = typed.length("misfire_threshold")
    if raw["misfire"] == MisfirePolicy.FIRE_ALL:
        raw["catch_up_limit"] = typed.whole("catch_up_limit")
    return raw


def read_further_triggers(typed: Typed) -> list[dict[str, Any]]:
    """Triggers that the form keeps but does not show."""
    text = typed.text("further_triggers")
    if not text:
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list):
        return found
    typed.problems.append(
        Problem(field="triggers", code="wrong_type", template="This must be a list of triggers.")
    )
    return []


def place_of_trigger_problem(field: str, values: Mapping[str, str]) -> str | None:
    """The field of the form that a problem belongs to; None: to no field of a trigger."""
    place = TRIGGER_PLACES.get(field)
    if place == "every" and values.get("when") == "fixed_delay":
        return "pause"
    return place
