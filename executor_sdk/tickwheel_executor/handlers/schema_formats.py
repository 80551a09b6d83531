"""Instants and times of day, which msgspec describes as any text where a zone is not demanded.

JSON Schema's "date-time" and "time" demand an offset from UTC, so msgspec does not name them for a
plain `datetime`. Without any format, though, a form has nothing to say of the text that it wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec.inspect as mi

_FORMATS: dict[type, str] = {mi.DateTimeType: "date-time", mi.TimeType: "time"}


def name_formats(
    types: Sequence[Any], schemas: Sequence[dict[str, Any]], parts: Mapping[str, dict[str, Any]]
) -> None:
    """Add "format" where one of these types is.

    Args:
        types: what msgspec made the schemas from.
        schemas: of each type, as `msgspec.json.schema_components` gives them; they are changed.
        parts: what they refer to, by the last part of a reference.
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
    """What a type is made of, each with its schema."""
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
        if properties is None:  # told as a list, perhaps after the tag of its type
            yield from zip((each.type for each in fields), _last(schema, len(fields)), strict=True)
            return
        for field in fields:
            yield from _one(field.type, properties.get(field.encode_name))


def _forms(union: mi.UnionType, schema: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """msgspec tells null last, and before that what it takes for structs, in a list of their own
    when they are several."""
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
