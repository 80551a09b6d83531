"""JSON Schema of a handler's parameters, self-contained, for the admin and its console."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from .schema_formats import name_formats

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = "#/$defs/"


def schema_of(
    struct: type[msgspec.Struct],
    *,
    defaults: Mapping[str, object],
    extra: Any = None,
    description: str = "",
) -> bytes:
    """JSON text of the schema (2020-12) of an object with this struct's fields.

    Args:
        defaults: of optional fields, by name; those that are not JSON are left out.
        extra: type of further fields; None: not allowed.
    """
    types = [struct] if extra is None else [struct, extra]
    schemas, parts = msgspec.json.schema_components(types, ref_template=_REFERENCE + "{name}")
    name_formats(types, schemas, parts)
    name = schemas[0]["$ref"].removeprefix(_REFERENCE)
    own = parts.pop(name)
    choices = {
        key: {word: value for word, value in part.items() if word != "title"}
        for key, part in parts.items()
        if "enum" in part
    }
    properties = {
        key: _inlined(part, choices) | _default(defaults, key)
        for key, part in own.get("properties", {}).items()
    }
    deeper = {
        key: _inlined(part, choices) for key, part in sorted(parts.items()) if key not in choices
    }
    schema = {
        "$schema": _DIALECT,
        "description": description,
        "type": "object",
        "properties": properties,
        "required": own.get("required", []),
        "additionalProperties": False if extra is None else _inlined(schemas[1], choices),
        "$defs": deeper,
    }
    return msgspec.json.encode(
        {key: value for key, value in schema.items() if value or key in _ALWAYS}
    )


_ALWAYS = ("properties", "additionalProperties")


def _inlined(part: Any, choices: Mapping[str, Any]) -> Any:
    """The same with enums inlined where they are used, so that a form finds their values."""
    if isinstance(part, list):
        return [_inlined(each, choices) for each in part]
    if not isinstance(part, dict):
        return part
    name = str(part.get("$ref", "")).removeprefix(_REFERENCE)
    if name in choices:
        return {**choices[name], **{key: value for key, value in part.items() if key != "$ref"}}
    return {key: _inlined(value, choices) for key, value in part.items()}


def _default(defaults: Mapping[str, object], name: str) -> dict[str, Any]:
    if name not in defaults:
        return {}
    value = defaults[name]
    if isinstance(value, float) and not math.isfinite(value):
        return {}  # not a JSON number
    try:
        return {"default": msgspec.Raw(msgspec.json.encode(value))}
    except (TypeError, ValueError, RecursionError):  # an object without a JSON form
        return {}
