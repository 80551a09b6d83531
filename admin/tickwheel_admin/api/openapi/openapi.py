"""/api/v1/openapi.json: this API, for programs that make clients, tests or pages of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from aiohttp import web

from tickwheel_admin import __version__
from tickwheel_admin.api import api_routes
from tickwheel_admin.api.openapi.document import document_of
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.routes import Routes

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

Made = TypeVar("Made")

routes = Routes()


@routes.get(
    "/api/v1/openapi.json", permission=Permission.LOGGED_IN, api=True, answers=dict[str, Any]
)
async def get_openapi(request: web.Request) -> web.Response:
    """This document: OpenAPI 3.1."""
    return web.Response(
        body=await _made(_encoded), content_type="application/json", charset="utf-8"
    )


async def openapi_in_thread() -> dict[str, Any]:
    """The document of this version; making it takes a tenth of a second, not of the event loop."""
    return await _made(_document)


def openapi() -> dict[str, Any]:
    """The document of this version."""
    with _MAKING:
        return _document()


@cache
def _document() -> dict[str, Any]:
    return document_of(api_routes(), version=__version__)


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(_document())


_MAKING = Lock()


async def _made(make: _lru_cache_wrapper[Made]) -> Made:
    if make.cache_info().currsize:
        return make()
    return await asyncio.to_thread(_make, make)


def _make(make: Callable[[], Made]) -> Made:
    with _MAKING:  # whoever comes meanwhile waits for the same one
        return make()
