"""What a handler takes, as a form can ask for it: read from the JSON Schema of its parameters.

The schema comes from a node, so nothing in it is trusted: what is not understood makes a field for
JSON, and a schema that is none makes no form at all. Whether values are right is checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

import msgspec

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.parameters.lines import TEXT_ONLY

MAX_FIELDS = 100  # a handler that takes more gets them as JSON
MAX_OPTIONS = 200
MAX_DESCRIPTION_CHARS = 500
_LIMITS = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "minItems", "maxItems",
    }
)  # fmt: skip
_MAX_EXACT = 10**15  # floats below are whole numbers where they look like it
_MAX_LIMIT_CHARS = 40  # of a limit in words: a schema may name one of thousands of digits
_MAX_EXAMPLES_SHOWN = 5
_MAX_HOPS = 8  # from one reference to the next
_REFERENCE = "#/$defs/"
_ABSENT = object()
_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})
_ANY_TYPE = _SCALARS | {"array", "object"}
_NOTHING: frozenset[str] = frozenset()


class InputKind(StrEnum):
    """How a form asks for a value."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    SWITCH = "switch"  # yes or no, where one of them is the default
    CHOICE = "choice"
    DATE = "date"
    LINES = "lines"  # a list: an element on each line
    PAIRS = "pairs"  # a dictionary: a name and a value on each line
    TEXTS = "texts"  # a list of texts that have several lines each
    JSON = "json"  # everything deeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a handler."""

    name: str
    kind: InputKind
    required: bool
    nullable: bool
    default: str | None  # JSON; None: the schema names none
    description: str
    format: str  # of a text: "date-time", "uuid", …; "": any text
    limits: Mapping[str, int | float]  # by their JSON Schema keywords
    options: Sequence[str]  # of a choice, as JSON
    examples: Sequence[str] = ()  # of a text; any other is taken as well
    takes: frozenset[str] = _NOTHING  # JSON types of what stands in the lines of LINES and PAIRS


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerParameters:
    """All that a handler takes."""

    parameters: Sequence[Parameter]
    takes_more: bool  # parameters that have no name here
    description: str


def parameters_of(schema: str | None) -> HandlerParameters | None:
    """What a schema says; None when there is none, or none that makes a form."""
    if schema is None:
        return None
    try:
        root = msgspec.json.decode(schema)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(root, dict):
        return None
    parts = root.get("$defs")
    parts = parts if isinstance(parts, dict) else {}
    described = _resolved(root, parts)
    properties = described.get("properties", {})
    if described.get("type") != "object" or not isinstance(properties, dict):
        return None
    if len(properties) > MAX_FIELDS:
        return None
    required = described.get("required")
    needed = {each for each in required if isinstance(each, str)} if _is_list(required) else set()
    return HandlerParameters(
        parameters=[
            _parameter(name, part, parts, required=name in needed)
            for name, part in properties.items()
        ],
        takes_more=described.get("additionalProperties", True) is not False,
        description=_text(described, "description"),
    )


def _parameter(
    name: str, schema: object, parts: Mapping[str, object], *, required: bool
) -> Parameter:
    outer = schema if isinstance(schema, dict) else {}
    part, nullable = _without_null(outer, parts)
    default = outer.get("default", part.get("default", _ABSENT))
    options = _options(part)
    kind = _kind(part, options, default)
    takes = _NOTHING
    if kind is InputKind.JSON:
        kind, takes = _kind_of_many(part, parts)
    return Parameter(
        name=name,
        kind=kind,
        required=required,
        nullable=nullable or "null" in options,
        default=None if default is _ABSENT else json_of(default),
        description=_text(outer, "description") or _text(part, "description"),
        format=part["format"] if isinstance(part.get("format"), str) else "",
        limits={
            key: value
            for key, value in part.items()
            if key in _LIMITS and isinstance(value, int | float) and not isinstance(value, bool)
        },
        options=[each for each in options if each != "null"] if kind is InputKind.CHOICE else (),
        examples=_examples(part) if kind is InputKind.TEXT else (),
        takes=takes,
    )


def _kind(part: Mapping[str, Any], options: Sequence[str], default: object) -> InputKind:
    if options:
        return InputKind.CHOICE
    match part.get("type"):
        case "string":
            return InputKind.DATE if part.get("format") == "date" else InputKind.TEXT
        case "integer":
            return InputKind.INTEGER
        case "number":
            return InputKind.NUMBER
        case "boolean":
            return InputKind.SWITCH if isinstance(default, bool) else InputKind.CHOICE
        case _:
            return InputKind.JSON


def _examples(part: Mapping[str, Any]) -> list[str]:
    values = part.get("examples")
    texts = [each for each in values if isinstance(each, str)] if _is_list(values) else []
    return [each for each in texts if 0 < len(each) <= MAX_DESCRIPTION_CHARS][:MAX_OPTIONS]


def _kind_of_many(
    part: Mapping[str, Any], parts: Mapping[str, object]
) -> tuple[InputKind, frozenset[str]]:
    """How lists and dictionaries are asked for, and the types of what they hold."""
    if part.get("type") == "array" and "prefixItems" not in part:
        items = _resolved(_schema_in(part, "items", absent=False), parts)
        takes = _types(items, parts)
        if takes == TEXT_ONLY and items.get("format") == "multiline":
            return InputKind.TEXTS, takes
        if takes and takes <= _SCALARS:
            return InputKind.LINES, takes
    elif part.get("type") == "object" and not part.get("properties"):
        if "patternProperties" in part:
            return InputKind.JSON, _NOTHING
        values = _schema_in(part, "additionalProperties", absent=True)
        takes = _ANY_TYPE if values == {} else _types(values, parts)
        if takes == _ANY_TYPE or (takes and takes <= _SCALARS | {"array"}):
            return InputKind.PAIRS, takes
    return InputKind.JSON, _NOTHING


def _schema_in(part: Mapping[str, Any], key: str, *, absent: bool) -> Mapping[str, Any]:
    """A schema within another one; {} takes anything, and one of no type nothing."""
    found = part.get(key, absent)
    if found is True:
        return {}
    return found if isinstance(found, dict) and found else {"enum": []}


def _types(schema: object, parts: Mapping[str, object], *, hops: int = _MAX_HOPS) -> frozenset[str]:
    """JSON types that a schema takes; none: it does not say, or they are too deep for a line."""
    if not isinstance(schema, dict) or not hops:
        return _NOTHING
    part = _resolved(schema, parts)
    for word in ("anyOf", "oneOf"):
        if _is_list(part.get(word)):
            found = [_types(each, parts, hops=hops - 1) for each in part[word]]
            return frozenset().union(*found) if found and all(found) else _NOTHING
    kinds = part.get("type")
    if kinds == "array":
        of_items = _types(part.get("items"), parts, hops=hops - 1)
        return frozenset({"array"}) if of_items and of_items <= _SCALARS else _NOTHING
    if "enum" in part or "const" in part:
        options = part["enum"] if _is_list(part.get("enum")) else [part.get("const")]
        return TEXT_ONLY if all(isinstance(each, str) for each in options) and options else _NOTHING
    named = frozenset(kinds if _is_list(kinds) else [kinds])
    return named if named <= _SCALARS else _NOTHING


def _options(part: Mapping[str, Any]) -> list[str]:
    """Values of which one is to be chosen; none: any."""
    values = [part["const"]] if "const" in part else part.get("enum")
    if part.get("type") == "boolean" and values is None:
        # Without a default, neither of them is what nobody has chosen.
        return [] if isinstance(part.get("default"), bool) else ["true", "false"]
    if not _is_list(values) or not 0 < len(values) <= MAX_OPTIONS:
        return []
    if any(isinstance(each, dict | list) for each in values):
        return []
    return [json_of(each) for each in values]


def _without_null(
    schema: Mapping[str, Any], parts: Mapping[str, object]
) -> tuple[dict[str, Any], bool]:
    """The schema of what is not null, and whether null is taken as well."""
    part = _resolved(schema, parts)
    kinds = part.get("type")
    if _is_list(kinds):
        others = [each for each in kinds if each != "null"]
        if len(others) == 1:
            return {**part, "type": others[0]}, len(others) < len(kinds)
    for word in ("anyOf", "oneOf"):
        ways = part.get(word)
        if not _is_list(ways):
            continue
        others = [each for each in ways if not _is_null(each)]
        if len(others) == 1 and isinstance(others[0], dict):
            inner = _resolved(others[0], parts)
            outer = {key: value for key, value in part.items() if key != word}
            return {**outer, **inner}, len(others) < len(ways)
    return part, False


def _resolved(schema: Mapping[str, Any], parts: Mapping[str, object]) -> dict[str, Any]:
    """The schema with its own reference followed."""
    found = dict(schema)
    for _hop in range(_MAX_HOPS):
        reference = found.pop("$ref", None)
        if reference is None:
            return found
        name = reference.removeprefix(_REFERENCE) if isinstance(reference, str) else ""
        target = parts.get(name)
        if not isinstance(target, dict):
            return {}
        found = {**target, **found}
    return {}


def _is_null(schema: object) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _text(schema: Mapping[str, Any], key: str) -> str:
    value = schema.get(key)
    return value[:MAX_DESCRIPTION_CHARS].strip() if isinstance(value, str) else ""


def json_of(value: object) -> str:
    """Compact JSON."""
    return msgspec.json.encode(value).decode()


def rules_in_words(parameter: Parameter) -> list[str]:
    """What a value must be like, one sentence each."""
    limits = parameter.limits
    found = []
    if text := _formats().get(parameter.format):
        found.append(text)
    if limits.get("minLength") == 1:
        found.append(_("Not empty."))
        limits = {key: value for key, value in limits.items() if key != "minLength"}
    if "minimum" in limits and "maximum" in limits:
        found.append(_("From %(low)s to %(high)s.") % _range(limits, "minimum", "maximum"))
    else:
        found += [text % {"n": _short(limits[key])} for key, text in _ends() if key in limits]
    found += _ways_to_write(parameter)
    if parameter.examples:
        shown = [*parameter.examples[:_MAX_EXAMPLES_SHOWN]]
        more = ["…"] if len(parameter.examples) > len(shown) else []
        found.append(_("For example %(values)s.") % {"values": ", ".join(shown + more)})
    return found


def _ways_to_write(parameter: Parameter) -> list[str]:
    is_plain = parameter.takes == TEXT_ONLY
    match parameter.kind:
        case InputKind.JSON:
            return [_("As JSON.")]
        case InputKind.LINES:
            found = [_("One per line; empty lines do not count.")]
        case InputKind.PAIRS:
            found = [_("One per line: name=value.")]
            if not is_plain:
                found.append(_('5, true or [1, 2] are read as JSON, "5" is a text.'))
        case _:
            return []
    return found


def _ends() -> list[tuple[str, str]]:
    return [
        ("minimum", _("At least %(n)s.")),
        ("maximum", _("At most %(n)s.")),
        ("exclusiveMinimum", _("More than %(n)s.")),
        ("exclusiveMaximum", _("Less than %(n)s.")),
        ("multipleOf", _("A multiple of %(n)s.")),
        ("minLength", _("At least %(n)s characters.")),
        ("maxLength", _("At most %(n)s characters.")),
        ("minItems", _("At least %(n)s of them.")),
        ("maxItems", _("At most %(n)s of them.")),
    ]


def _formats() -> dict[str, str]:
    return {
        "date-time": _("A date and a time, such as 2026-11-22T09:30:00+01:00."),
        "time": _("A time of day, such as 09:30:00."),
        "duration": _("A length of time as ISO 8601 writes it, such as PT90S."),
        "uuid": _("A UUID."),
        "decimal": _("A decimal number."),
    }


def _range(limits: Mapping[str, int | float], low: str, high: str) -> dict[str, str]:
    return {"low": _short(limits[low]), "high": _short(limits[high])}


def _short(value: int | float) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT:
        value = int(value)
    text = str(value)
    return text if len(text) <= _MAX_LIMIT_CHARS else f"{text[:_MAX_LIMIT_CHARS]}…"
