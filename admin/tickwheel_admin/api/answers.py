"""Answers in JSON, and how instants and stored JSON stand in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Generic, NotRequired, TypedDict, TypeVar

from aiohttp import web
from msgspec import Meta

from tickwheel_admin.domain.fields import instant_to_iso, is_instant
from tickwheel_admin.services.lists import paging
from tickwheel_admin.web.input_fields import Instant as Instant
from tickwheel_shared.portable_json import why_not_portable

T = TypeVar("T")
V = TypeVar("V")

Json = Annotated[Any, Meta(description="Any JSON.")]


def doc(text: str) -> Meta:
    """What a field means, in the OpenAPI document."""
    return Meta(description=text)


class PageJson(TypedDict, Generic[V]):
    """A page of a list."""

    items: list[V]
    next: Annotated[str | None, doc("The cursor of the next page; null: the last.")]
    previous: Annotated[str | None, doc("The cursor of the page before; null: none, or not known.")]


class ItemsJson(TypedDict, Generic[V]):
    """A list that comes as a whole."""

    items: list[V]


class ProblemJson(TypedDict):
    """A broken rule."""

    field: Annotated[str, doc("Its path in the request: `triggers[0].expression`.")]
    code: Annotated[str, doc("Stable, for programs.")]
    message: Annotated[str, doc("For people, in their language.")]
    line: NotRequired[Annotated[int, doc("Of a YAML text.")]]


class ErrorJson(TypedDict):
    """What was wrong with one of many."""

    code: Annotated[str, doc("Stable, for programs.")]
    message: Annotated[str, doc("For people, in their language.")]
    problems: list[ProblemJson]


class AnsweredErrorJson(ErrorJson):
    """What was wrong with the request."""

    correlation_id: Annotated[str, doc("The log has details under it.")]


class ErrorAnswerJson(TypedDict):
    """Why a request was refused; nothing was changed."""

    error: AnsweredErrorJson


class NewIdJson(TypedDict):
    """What was made."""

    id: int


class NewVersionJson(TypedDict):
    """What was made or changed, and the version that the next change is based on."""

    id: int
    version: int


def answer(
    content: Mapping[str, object], *, status: int = 200, location: str | None = None
) -> web.Response:
    """JSON; Chinese stays readable, large integers stay exact."""
    return web.json_response(
        content,
        status=status,
        headers={"Location": location} if location else None,
        dumps=lambda value: json.dumps(value, ensure_ascii=False, allow_nan=False),
    )


def page_view(page: paging.Page[T], view: Callable[[T], V]) -> PageJson[V]:
    """A page of a list; `next` and `previous` are the cursors of those after and before it."""
    items = [view(item) for item in page.items]
    return {"items": items, "next": page.next, "previous": page.previous}


def instant(at: int | None) -> str | None:
    """ISO 8601 in UTC; None also for a stored number that lies in no year from 1 to 9999."""
    return instant_to_iso(at) if at is not None and is_instant(at) else None


def instants(ats: Iterable[int]) -> list[str]:
    return [instant_to_iso(at) for at in ats if is_instant(at)]


def json_or_text(stored: str) -> Any:
    """What cannot be part of an answer is told as its text: it is no JSON, is nested too deeply, or
    holds a number that nobody can hold. Nothing such is taken any more, but old runs may have it.
    """
    return stored if why_not_portable(stored.encode()) is not None else json.loads(stored)
