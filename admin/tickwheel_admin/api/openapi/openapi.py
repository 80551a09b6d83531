"""/api/v1/openapi.json: this API, for programs that make clients, tests or pages of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from aiohttp import web

from tickwheel_admin import __version__
from tickwheel_admin.api import api_routes
from tickwheel_admin.api.openapi.document import document_of
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get(
    "/api/v1/openapi.json", permission=Permission.LOGGED_IN, api=True, answers=dict[str, Any]
)
async def get_openapi(request: web.Request) -> web.Response:
    """This document: OpenAPI 3.1."""
    return web.Response(body=_encoded(), content_type="application/json", charset="utf-8")


@cache
def openapi() -> dict[str, Any]:
    """The document of this version."""
    return document_of(api_routes(), version=__version__)


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(openapi())
