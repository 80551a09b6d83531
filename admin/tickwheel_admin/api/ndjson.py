"""Whole lists as lines of JSON: every page of a list, one after the other, in one answer.

Whoever asks for a list with `Accept: application/x-ndjson` gets its items, one in a line, and no
cursors. Pages are read as they are written, so that neither side holds the list.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast, get_origin

from aiohttp import hdrs, web

from tickwheel_admin.api.answers import PageJson
from tickwheel_admin.domain.errors import TooMany, Unavailable, UserError
from tickwheel_admin.services.lists.paging import MAX_LIMIT
from tickwheel_admin.web.errors import error_view, unavailable
from tickwheel_admin.web.i18n import language_of
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import UNAVAILABLE_WHEN
from tickwheel_admin.web.pace import PACE
from tickwheel_admin.web.routes import Handler, Route, route_of

NDJSON: Final = "application/x-ndjson"
MOST_STREAMS = 8  # of one admin at a time: each reads page after page
MOST_OF_USER = 3  # of these, so that nobody takes all of them
MAX_SECONDS = 900.0  # a token that was revoked meanwhile reads no longer than that
_WRITE_SECONDS = 30.0  # a reader that takes nothing for so long has gone


def is_list(route: Route) -> bool:
    """Whether the route answers with pages, and so also as lines."""
    return route.method == hdrs.METH_GET and get_origin(route.answers) is PageJson


class ListStreams:
    """The lists that are being written now; a middleware."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._open: Counter[int] = Counter()  # by user

    def middleware(self) -> Any:
        """For the application."""

        @web.middleware
        async def stream_lists(request: web.Request, handler: Handler) -> web.StreamResponse:
            route = route_of(request)
            if route is None or not is_list(route) or not _is_wanted(request):
                return await handler(request)
            user_id = actor_of(request).user_id
            if self._open.total() >= MOST_STREAMS or self._open[user_id] >= MOST_OF_USER:
                raise TooMany(
                    "list.too_many_streams",
                    "Too many lists are being read as lines at once; try again in"
                    " %(retry_after_seconds)d seconds.",
                    retry_after_seconds=5,
                )
            self._open[user_id] += 1
            try:
                return await self._write(request, handler)
            finally:
                self._open -= Counter({user_id: 1})  # without those that have none any more

        return stream_lists

    async def _write(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        until = self._now() + MAX_SECONDS
        refusals: tuple[type[Exception], ...] = (UserError, *request.app[UNAVAILABLE_WHEN])
        # What is wrong with the request is told as ever: nothing has been written yet.
        page = await _page(request, handler, request.query.get("cursor"))
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: NDJSON})
        await response.prepare(request)
        while True:
            lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in page["items"]]
            if lines:
                try:
                    async with asyncio.timeout(_WRITE_SECONDS):
                        await response.write("".join(lines).encode())
                except TimeoutError:
                    _break_off(request)
            cursor = page["next"]
            if cursor is None:
                break
            try:
                # Each page is a request like any other, and may not push itself before them.
                await request.app[PACE].turn()
                if self._now() > until:
                    raise Unavailable(
                        "list.too_long",
                        "The list was not read to its end in %(minutes)d minutes. Go on with the"
                        " cursor.",
                        minutes=int(MAX_SECONDS // 60),
                    )
                page = await _page(request, handler, cursor)
            except refusals as problem:
                # The status is sent already, so that the last line has to say it.
                error = problem if isinstance(problem, UserError) else unavailable()
                told = {"error": error_view(error, language_of(request)), "next": cursor}
                await response.write((json.dumps(told, ensure_ascii=False) + "\n").encode())
                break
        await response.write_eof()
        return response


def _break_off(request: web.Request) -> NoReturn:
    """End the connection, so that the reader cannot take what it has for the whole list."""
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("the reader of a list takes nothing any more")


def _is_wanted(request: web.Request) -> bool:
    accepted = request.headers.get(hdrs.ACCEPT, "").lower().split(",")
    return any(each.partition(";")[0].strip() == NDJSON for each in accepted)


async def _page(request: web.Request, handler: Handler, cursor: str | None) -> Any:
    query = {"limit": str(MAX_LIMIT)} | ({} if cursor is None else {"cursor": cursor})
    asked = request.clone(rel_url=request.rel_url.update_query(query))
    answered = cast("web.Response", await handler(asked))  # as every list answers
    return json.loads(answered.text or "")
