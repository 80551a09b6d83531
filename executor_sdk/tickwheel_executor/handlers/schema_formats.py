"""Adds formats to schemas of dates and times without a required zone.

JSON Schema's "date-time" and "time" require an offset from UTC, so msgspec does not use them for a
plain `datetime`. But without a format, a form could not show which text it expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec.inspect as mi

_FORMATS: dict[type, str] = {mi.DateTimeType: "date-time", mi.TimeType: "time"}


def name_formats(
    types: Sequence[Any], schemas: Sequence[dict[str, Any]], parts: Mapping[str, dict[str, Any]]
) -> None:
    """Add "format" to the schemas of these types.

    Args:
        types: the types that the schemas describe.
        schemas: one per type, from `msgspec.json.schema_components`; changed in place.
        parts: the schemas that they refer to, by the last part of the reference.
    """
    open_pairs = list(zip(mi.multi_type_info(types), schemas, strict=True))
    seen: set[str] = set()
    while open_pairs:
        info, schema = open_pairs.pop()
        while isinstance(info, mi.Metadata):
            info = info.type
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in seen:
                continue
            seen.add(name)
            schema = parts[name]
        if isinstance(info, mi.DateTimeType | mi.TimeType) and info.tz is None:
            schema.setdefault("format", _FORMATS[type(info)])
        open_pairs.extend(_inner(info, schema))


def _inner(info: Any, schema: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The parts of a type, each with its schema."""
    if isinstance(info, mi.CollectionType):
        yield from _one(info.item_type, schema.get("items"))
    elif isinstance(info, mi.TupleType):
        yield from zip(info.item_types, schema.get("prefixItems", []), strict=True)
    elif isinstance(info, mi.DictType):
        yield from _one(info.value_type, schema.get("additionalProperties"))
    elif isinstance(info, mi.UnionType):
        yield from _forms(info, schema)
    elif fields := getattr(info, "fields", ()):
        properties = schema.get("properties")
        if properties is None:  # encoded as a list, perhaps after the tag of the type
            yield from zip((each.type for each in fields), _last(schema, len(fields)), strict=True)
            return
        for field in fields:
            yield from _one(field.type, properties.get(field.encode_name))


def _forms(union: mi.UnionType, schema: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """msgspec lists null last, and structs before it, several of them in a list of their own."""
    plain: list[Any] = []
    structs: list[Any] = []
    for each in union.types:
        bare = each
        while isinstance(bare, mi.Metadata):
            bare = bare.type
        if isinstance(bare, mi.StructType) and not bare.array_like:
            structs.append(bare)
        elif not isinstance(bare, mi.NoneType):
            plain.append(bare)
    forms: list[dict[str, Any]] = []
    for form in schema.get("anyOf", []):
        forms += form["anyOf"] if "discriminator" in form else [form]
    yield from zip([*plain, *structs], forms, strict=False)


def _last(schema: dict[str, Any], count: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = schema.get("prefixItems", [])
    return items[-count:]


def _one(info: Any, schema: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    if isinstance(schema, dict):
        yield info, schema
