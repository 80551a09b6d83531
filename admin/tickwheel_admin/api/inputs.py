"""What endpoints read: path ids, query parameters and bodies, each name known or refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from aiohttp import web
from msgspec import Meta

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.json_text import BadJson, text_of_object
from tickwheel_admin.domain.runs.trace import caller_trace
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.input_fields import MAX_ID as MAX_ID
from tickwheel_admin.web.input_fields import InputField, given, integer, names_of
from tickwheel_admin.web.routes import route_of
from tickwheel_shared.protocol import MAX_PARAMETERS_BYTES

MAX_PAGE = 500
MAX_CURSOR_CHARS = 2_000  # as services.paging: the cursor of a job holds its name
MAX_TEXT_CHARS = 200  # of what lists are searched for
MAX_KEY_CHARS = 80

ID = "[0-9]{1,15}"  # in paths; more digits name nothing

_CURSOR = given(
    "cursor",
    "Where to go on: `next` or `previous` of an answer to the same request.",
    Annotated[str, Meta(max_length=MAX_CURSOR_CHARS)],
)
_LIMIT = integer("limit", "Items of a page.", low=1, high=MAX_PAGE, default=50)
PAGING = (_CURSOR, _LIMIT)
"""What every list with pages takes."""

PARAMETERS = given(
    "parameters",
    "JSON object over the parameters that hold without it, one top-level key at a time; at most"
    f" {MAX_PARAMETERS_BYTES // 1024} KiB together.",
    dict[str, Any],
)
IDEMPOTENCY_KEY = given(
    "Idempotency-Key",
    "The same request with the same key is done once, however often it is sent.",
    Annotated[str, Meta(pattern=f"^[\x21-\x7e]{{1,{MAX_KEY_CHARS}}}$")],
)
REQUIRED_KEY = given("Idempotency-Key", IDEMPOTENCY_KEY.about, IDEMPOTENCY_KEY.type, required=True)
TRACE = (
    given("traceparent", "The W3C trace that what is started belongs to.", str),
    given("tracestate", "States of that trace.", str),
)

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_VISIBLE = re.compile(rf"[\x21-\x7e]{{1,{MAX_KEY_CHARS}}}")


def path_id(request: web.Request, name: str) -> int:
    """An id from the path, whose pattern must be `ID`."""
    return int(request.match_info[name])


def query_fields(request: web.Request, known: Collection[str] | None = None) -> Fields:
    """Query parameters as fields; problems are in `.problems`, so end with `raise_if_any`.

    Args:
        known: their names, unless the route declares them.
    """
    inputs = declared_query(request)
    texts = {each.name for each in inputs if not each.is_number}
    problems: list[Problem] = []
    raw: dict[str, Any] = {}
    for name, value in request.query.items():
        if name in raw:
            problems.append(
                Problem(field=name, code="repeated", template="Give this parameter only once.")
            )
        is_number = name not in texts and _WHOLE_NUMBER.fullmatch(value)
        raw[name] = int(value) if is_number else value
    fields = Fields(raw, "", problems)
    fields.only(names_of(inputs) if known is None else known)
    return fields


def declared_query(request: web.Request) -> tuple[InputField[Any], ...]:
    """The query parameters that the route declares."""
    route = route_of(request)
    return () if route is None else route.query


def page_of(fields: Fields) -> tuple[str | None, int]:
    """Cursor and size of the page asked for."""
    # A cursor is opaque text, also where it happens to be all digits.
    cursor = _CURSOR.of(fields)
    if cursor is not None and len(str(cursor)) > MAX_CURSOR_CHARS:
        fields.refuse("cursor", "cursor.invalid", "This is not a cursor of this list.")
    return (None if cursor is None else str(cursor)), _LIMIT.of(fields)


def optional_id(fields: Fields, name: str) -> int | None:
    """An id to filter by."""
    if not fields.has(name):
        return None
    return fields.integer(name, low=1, high=MAX_ID, default=1)


def tags(*, in_body: bool) -> InputField[tuple[str, ...]]:
    """Tags that a job must all have."""
    return InputField(
        "tag",
        "Jobs with this tag; with all of several, in a list."
        if in_body
        else "Jobs with this tag; with all of several, between commas.",
        str | list[str] if in_body else str,
        lambda fields, _name: tags_in(fields),
    )


def tags_in(fields: Fields) -> tuple[str, ...]:
    """One tag, or several: in an address with commas between them, in a body as a list."""
    value: Any = fields.raw.get("tag")
    if isinstance(value, Sequence) and not isinstance(value, str):
        if all(isinstance(each, str) for each in value):
            return tuple(dict.fromkeys(each for each in value if each))
        fields.refuse("tag", "wrong_type", "This must be a list of texts.")
        return ()
    return tuple(dict.fromkeys(tag for tag in text_in(fields, "tag").split(",") if tag))


def text_in(fields: Fields, name: str) -> str:
    """A text, also one that is all digits in an address."""
    if type(fields.raw.get(name)) is int:
        return str(fields.raw[name])  # a text that is all digits, in an address
    return fields.text(name, max_chars=1_000)


async def body_fields(request: web.Request, known: Collection[str] | None = None) -> Fields:
    """The body's fields, each one known.

    Args:
        known: their names, unless the route declares them.
    """
    fields = Fields(await read_json(request), "", [])
    if known is None:
        route = route_of(request)
        known = names_of(route.body) if route is not None and route.body is not None else ()
    fields.only(known)
    return fields


async def no_fields(request: web.Request) -> None:
    """Refuse a body with any field; for endpoints that declare `body=()`."""
    raise_if_any((await body_fields(request, ())).problems)


def take_id(body: dict[str, Any], name: str, noted: list[Problem]) -> int:
    """The same; what is wrong with it is noted, to be told with all else that is wrong."""
    try:
        return taken_id(body, name)
    except InvalidInput as error:
        noted += error.problems
        return 0


def taken_id(body: dict[str, Any], name: str) -> int:
    """Take a required whole number out of a body; what remains is what is to be stored."""
    fields = Fields({name: body.pop(name, None)}, "", [])
    if not fields.has(name):
        fields.refuse(name, "required", "This is required.")
    value = fields.integer(name, low=1, high=MAX_ID, default=1)
    raise_if_any(fields.problems)
    return value


def parameters_of(body: Mapping[str, Any]) -> str | None:
    """The run parameters in a body as JSON text; None when the job's own are meant."""
    value = body.get("parameters")
    if value is None:
        return None
    try:
        return text_of_object(value)
    except BadJson as error:
        raise InvalidInput.one("parameters", error.code, error.template, **error.params) from None


def request_key_of(request: web.Request) -> str | None:
    """From `Idempotency-Key`: a call repeated with the same one is the same run."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _VISIBLE.fullmatch(key):
        raise InvalidInput.one(
            "Idempotency-Key",
            "idempotency_key.invalid",
            "Use 1 to %(limit)d visible ASCII characters.",
            limit=MAX_KEY_CHARS,
        )
    return f"api:{key}"


def caller_trace_of(request: web.Request) -> str | None:
    """The trace that the caller's W3C headers name, as it is stored; a wrong one is ignored."""
    states = ",".join(request.headers.getall("tracestate", ()))
    return caller_trace(request.headers.get("traceparent"), states)
