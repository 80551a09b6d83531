"""What a request for many things at once is about: ids, or a filter with a place to go on from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from tickwheel_admin.api.inputs import MAX_CURSOR_CHARS, MAX_ID
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.web.input_fields import InputField, given, names_of, object_type

Q = TypeVar("Q")


def chosen(
    name: str, *, most: int, filter_fields: tuple[InputField[Any], ...]
) -> tuple[InputField[Any], ...]:
    """What a body names that `ids_or_filter` reads.

    Args:
        name: of the field with the ids.
        most: ids at once.
        filter_fields: what the filter may consist of.
    """
    ids = Annotated[
        list[Annotated[int, Meta(ge=1, le=MAX_ID)]], Meta(min_length=1, max_length=most)
    ]
    filtered = object_type(f"FilterOf{name.title()}", filter_fields)
    cursor = given(
        "cursor",
        "`next` of the answer before, for the next step; with a `filter` only.",
        Annotated[str, Meta(max_length=MAX_CURSOR_CHARS)],
    )
    return (
        given(name, "Ids; give either these or a `filter`.", ids),
        given("filter", "What the list would be filtered by.", filtered),
        cursor,
    )


def ids_or_filter(
    fields: Fields,
    name: str,
    *,
    most: int,
    filter_fields: tuple[InputField[Any], ...],
    query_of: Callable[[Fields], Q],
) -> list[int] | Q:
    """The things that are named by id, or the filter they match; exactly one of the two.

    Args:
        name: of the field with the ids.
        most: ids at once.
        filter_fields: what the filter may consist of.
    """
    if fields.has(name) == fields.has("filter"):
        fields.refuse(
            name,
            "required",
            "Give either “%(name)s”, a list of ids, or a “filter”.",
            name=name,
        )
        return []
    if fields.has(name):
        if fields.has("cursor"):
            fields.refuse("cursor", "does_not_apply", "A list of ids is done in one step.")
        return _ids(fields, name, most=most)
    narrowed = Fields(fields.raw["filter"], "filter", fields.problems)
    narrowed.only(names_of(filter_fields))
    return query_of(narrowed)


def cursor_of(fields: Fields) -> str | None:
    """Where to go on; None: from the start."""
    if not fields.has("cursor"):
        return None
    cursor = str(fields.raw["cursor"])
    if len(cursor) > MAX_CURSOR_CHARS:
        raise InvalidInput.one("cursor", "cursor.invalid", "This is not a cursor of this list.")
    return cursor


def _ids(fields: Fields, name: str, *, most: int) -> list[int]:
    value = fields.raw[name]
    if not isinstance(value, Sequence) or isinstance(value, str):
        fields.refuse(name, "wrong_type", "This must be a list of ids.")
        return []
    if not 1 <= len(value) <= most:
        fields.refuse(name, "out_of_range", "Give 1 to %(limit)s ids at once.", limit=f"{most:,}")
        return []
    ids = [each for each in value if type(each) is int and 1 <= each <= MAX_ID]
    if len(ids) < len(value):
        fields.refuse(name, "wrong_type", "This must be a list of ids.")
    return ids
