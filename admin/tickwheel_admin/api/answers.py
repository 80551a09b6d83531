"""Answers in JSON, and how instants and stored JSON stand in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from aiohttp import web

from tickwheel_admin.domain.fields import instant_to_iso, is_instant
from tickwheel_admin.domain.input.json_text import MAX_DEPTH, is_within
from tickwheel_admin.services.lists.paging import Page
from tickwheel_shared.portable_json import why_not_portable

T = TypeVar("T")


def answer(
    content: Mapping[str, Any], *, status: int = 200, location: str | None = None
) -> web.Response:
    """JSON; Chinese stays readable, large integers stay exact."""
    return web.json_response(
        content,
        status=status,
        headers={"Location": location} if location else None,
        dumps=lambda value: json.dumps(value, ensure_ascii=False, allow_nan=False),
    )


def page_view(page: Page[T], view: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
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
    if why_not_portable(stored.encode()) is not None:
        return stored
    try:
        value = json.loads(stored)
    except RecursionError:
        return stored
    return value if is_within(value, MAX_DEPTH) else stored
