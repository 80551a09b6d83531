"""The JSON API under /api/v1, for programs; docs/api.md is its reference."""

from __future__ import annotations

import sys
from typing import Any

from aiohttp import web

from tickwheel_admin.api.ndjson import ListStreams
from tickwheel_admin.api.runs.event_stream import (
    OPEN_EVENT_STREAMS,
    OpenEventStreams,
    close_feed,
    end_streams,
)
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.web.keys import OPENAPI
from tickwheel_admin.web.routes import Handler, Route, route_of, tables_of


def add_api(app: web.Application) -> None:
    """Make the application answer /api/v1 with the routes of all modules of this package."""
    for table in tables_of(sys.modules[__name__]):
        table.add_to(app)
    app[OPENAPI] = _document
    app[OPEN_EVENT_STREAMS] = OpenEventStreams()
    app.on_shutdown.append(end_streams)
    app.on_cleanup.append(close_feed)
    app.middlewares.append(_refuse_query)
    app.middlewares.append(ListStreams().middleware())


def api_routes() -> list[Route]:
    """All of them."""
    return [route for table in tables_of(sys.modules[__name__]) for route in table]


async def _document() -> dict[str, Any]:
    # It is made of the modules of this package, which import from here.
    from tickwheel_admin.api.openapi.openapi import openapi_in_thread

    return await openapi_in_thread()


@web.middleware
async def _refuse_query(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A misspelt parameter is noticed also where there are none."""
    if request.query_string:
        route = route_of(request)
        if route is not None and route.api and route.is_typed and not route.query:
            fields = Fields(request.query, "", [])
            fields.only(())
            raise_if_any(fields.problems)
    return await handler(request)
