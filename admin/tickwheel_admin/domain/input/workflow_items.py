"""The items of a step with `for_each`, and the references in values, as people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.input.json_text import BadJson, text_of_object
from tickwheel_admin.domain.workflows.graph import MAX_ITEMS, ForEach, Spawn, Tolerance
from tickwheel_shared.workflows.values import BadReference, references_in

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?) ?%", re.ASCII)
_ITEMS_RULE = (
    "Give a list, or the path to one: ${steps.extract.result.files}. To say more, give an object"
    " with “items”, “max_parallel” and “tolerate”."
)
_TOLERATE_RULE = "This must be a number of items, a percentage such as “5%”, or “all”."


def read_for_each(fields: Fields) -> ForEach | None:
    """The `for_each` of a step; None if it has none, or a wrong one, which is noted."""
    if not fields.has("for_each"):
        return None
    value = fields.raw["for_each"]
    if not isinstance(value, Mapping):
        items = _read_items(fields, "for_each", value)
        return None if items is None else ForEach(items=items)
    own = Fields(value, fields.where("for_each"), fields.problems)
    own.only(("items", "max_parallel", "tolerate"))
    items = _read_items(own, "items", value.get("items"))
    most = own.integer("max_parallel", low=1, high=MAX_ITEMS, default=1)
    tolerance = _read_tolerance(own)
    if items is None:
        return None
    return ForEach(
        items=items, max_parallel=most if own.has("max_parallel") else None, tolerance=tolerance
    )


def read_spawn(fields: Fields) -> Spawn | None:
    """The `spawn` of a step; None if it has none, or a wrong one, which is noted."""
    if not fields.has("spawn"):
        return None
    own = Fields(fields.raw["spawn"], fields.where("spawn"), fields.problems)
    if not own.is_object:
        return None
    own.only(("max_parallel", "tolerate"))
    most = own.integer("max_parallel", low=1, high=MAX_ITEMS, default=1)
    return Spawn(
        max_parallel=most if own.has("max_parallel") else None, tolerance=_read_tolerance(own)
    )


def spawn_to_raw(spawn: Spawn | None) -> dict[str, Any] | None:
    """What `read_spawn` reads as this."""
    if spawn is None:
        return None
    raw = {"max_parallel": spawn.max_parallel, "tolerate": _tolerance_to_raw(spawn.tolerance)}
    return {name: value for name, value in raw.items() if value}


def _read_items(fields: Fields, name: str, value: object) -> str | None:
    """The list as JSON text, or the text of the one reference to it."""
    if isinstance(value, str):
        if value.startswith("${") and value.endswith("}") and value.count("${") == 1:
            return checked_references(fields, name, json.dumps(value, ensure_ascii=False))
        fields.refuse(name, "workflow.items", _ITEMS_RULE)
        return None
    if not isinstance(value, list):
        fields.refuse(name, "workflow.items", _ITEMS_RULE)
        return None
    if len(value) > MAX_ITEMS:
        limit = f"{MAX_ITEMS:,}"
        fields.refuse(name, "too_many", "At most %(limit)s items, please.", limit=limit)
        return None
    try:
        text = text_of_object({"items": value})[len('{"items":') : -1]
    except BadJson as error:
        fields.refuse(name, error.code, error.template, **error.params)
        return None
    return checked_references(fields, name, text)


def _read_tolerance(fields: Fields) -> Tolerance:
    if not fields.has("tolerate"):
        return Tolerance()
    value = fields.raw["tolerate"]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ITEMS:
        return Tolerance(count=value)
    if value == "all":
        return Tolerance(percent=100.0)
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if found is not None and float(found.group(1)) <= 100:
        return Tolerance(percent=float(found.group(1)))
    fields.refuse("tolerate", "workflow.tolerance", _TOLERATE_RULE)
    return Tolerance()


def checked_references(fields: Fields, name: str, text: str) -> str | None:
    """The text, when every reference in it is one; else None, and it is noted."""
    try:
        references_in(text)
    except BadReference as error:
        fields.refuse(
            name,
            "workflow.reference",
            "“%(text)s” is no reference. One begins with parameters, steps, run, item or"
            " item_index, such as ${steps.extract.result.files}; $${ is the text itself.",
            text=error.text,
        )
        return None
    return text


def for_each_to_raw(for_each: ForEach | None) -> Any:
    """What `read_for_each` reads as this."""
    if for_each is None:
        return None
    items, tolerance = json.loads(for_each.items), _tolerance_to_raw(for_each.tolerance)
    if for_each.max_parallel is None and not tolerance:
        return items if items else {"items": items}
    raw = {"items": items, "max_parallel": for_each.max_parallel, "tolerate": tolerance}
    return {name: value for name, value in raw.items() if value or name == "items"}


def _tolerance_to_raw(tolerance: Tolerance) -> int | str:
    if tolerance.percent is None:
        return tolerance.count
    return (
        "all"
        if tolerance.percent == 100
        else f"{tolerance.percent:.4f}".rstrip("0").rstrip(".") + "%"
    )
