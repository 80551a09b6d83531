"""Checks every answer of the API against the OpenAPI document: nothing missing, nothing unnamed.

An application that `watched` serves notes what breaks its contract; `served` fails the test for it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from aiohttp import web

from tickwheel_admin.api.openapi.openapi import openapi
from tickwheel_admin.api.openapi.paths import path_and_parameters
from tickwheel_admin.web.routes import Route, route_of

try:
    import jsonschema_rs
except ImportError:  # an environment of before; tests/admin/api/test_openapi.py needs it
    jsonschema_rs = None  # type: ignore[assignment]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def watched(app: web.Application, broken: list[str]) -> None:
    """Let the application note in `broken` what its answers break."""

    @web.middleware
    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        route = route_of(request)
        if route is not None and route.api and route.is_typed and request.method == route.method:
            broken.extend(breaches(route, response))
        return response

    app.middlewares.insert(0, watch)


def breaches(route: Route, response: web.StreamResponse) -> list[str]:
    """What an answer breaks of what its route declares."""
    operation = operation_of(route)
    if operation is None:  # a route of a test
        return []
    told = f"{route.method} {route.path}: {response.status}"
    answer = operation["responses"].get(str(response.status))
    if answer is None:
        return [f"{told} is not declared"]
    if not isinstance(response, web.Response) or response.content_type != "application/json":
        return []
    body = response.body
    content = json.loads(body) if isinstance(body, bytes) else None
    if response.status == 409 and content is not None:
        code = content["error"]["code"]
        return [] if code in route.conflicts else [f"{told} {code} is not among its conflicts"]
    if jsonschema_rs is None:
        return []
    return [
        f"{told}: {'.'.join(map(str, error.instance_path))}: {error.message[:300]}"
        for error in _validator(route.path, route.method, response.status).iter_errors(content)
    ]


def operation_of(route: Route) -> Any:
    """The route in the document."""
    path, _ = path_and_parameters(route.path)
    return openapi()["paths"].get(path, {}).get(route.method.lower())


@cache
def _validator(path: str, method: str, status: int) -> Any:
    document = openapi()
    answer = document["paths"][path_and_parameters(path)[0]][method.lower()]["responses"]
    found = answer[str(status)]
    if "$ref" in found:
        found = document["components"]["responses"][found["$ref"].rpartition("/")[2]]
    return _validator_of(json.dumps(found["content"]["application/json"]["schema"]))


@cache
def _validator_of(schema: str) -> Any:
    """Made once for all operations that answer alike: most errors are of one type."""
    return jsonschema_rs.validator_for(
        _closed(json.loads(schema)) | {"components": {"schemas": _closed_types()}}
    )


@cache
def _closed_types() -> Any:
    return _closed(openapi()["components"]["schemas"])


def _closed(schema: Any) -> Any:
    """The same, with objects that have the named properties only: readers may be told of more,
    but not of what nobody has named."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if closed.get("type") == "object" and isinstance(closed.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed
