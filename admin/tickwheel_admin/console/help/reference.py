"""The API reference: the OpenAPI document as pages, with a form to try each endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.help.reference_parts import (
    answers_of,
    example_of,
    fields_of,
    grouped,
    resolved,
)
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.keys import OPENAPI
from tickwheel_admin.web.routes import Routes

routes = Routes()

_NAME = "[A-Za-z0-9_]{1,100}"


@routes.get("/api-reference", permission=Permission.LOGGED_IN)
async def show_reference(request: web.Request) -> web.Response:
    document = await request.app[OPENAPI]()
    return await render(request, "help/reference.html", {"groups": grouped(document)})


@routes.get(f"/api-reference/types/{{type_name:{_NAME}}}", permission=Permission.LOGGED_IN)
async def show_type(request: web.Request) -> web.Response:
    document, name = await request.app[OPENAPI](), request.match_info["type_name"]
    schema = document["components"]["schemas"].get(name)
    if schema is None:
        raise web.HTTPNotFound
    context = {"name": name, "schema": schema, "fields": fields_of(schema)}
    return await render(request, "help/reference_type.html", context)


@routes.get(f"/api-reference/{{operation:{_NAME}}}", permission=Permission.LOGGED_IN)
async def show_operation(request: web.Request) -> web.Response:
    document, name = await request.app[OPENAPI](), request.match_info["operation"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation["operationId"] == name:
                context = _operation_context(document, path, method, operation)
                return await render(request, "help/operation.html", context)
    raise web.HTTPNotFound


def _operation_context(
    document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> dict[str, Any]:
    body: Sequence[Any] = ()
    example = media_type = None
    if "requestBody" in operation:
        ((media_type, content),) = operation["requestBody"]["content"].items()
        schema = resolved(document, content["schema"])
        body = fields_of(schema)
        example = ""
        if media_type == "application/json":
            example = json.dumps(example_of(document, schema), ensure_ascii=False, indent=2)
    return {
        "operation": operation,
        "path": path,
        "method": method.upper(),
        "parameters": operation.get("parameters", ()),
        "body": body,
        "example": example,
        "media_type": media_type,
        "answers": answers_of(document, operation),
    }
