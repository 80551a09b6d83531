"""Typed keys for what handlers find on the application; `app.py` puts it there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from tickwheel_admin.config import Config
from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.services.services import Services

CONFIG: web.AppKey[Config] = web.AppKey("config", Config)
SERVICES: web.AppKey[Services] = web.AppKey("services", Services)

OPENAPI: web.AppKey[Callable[[], Awaitable[dict[str, Any]]]] = web.AppKey("openapi")
"""The OpenAPI document, made on its first use. The API registers it, the console shows it."""

ErrorPage = Callable[[web.Request, UserError | web.HTTPException, str], web.Response]
ERROR_PAGE: web.AppKey[ErrorPage] = web.AppKey("error_page")
"""Renders an error for people: request, error, correlation id. The console registers it."""

UNAVAILABLE_WHEN: web.AppKey[tuple[type[Exception], ...]] = web.AppKey("unavailable_when")
"""What the layers below raise when the database is away: answered 503, with no trace in the log."""
