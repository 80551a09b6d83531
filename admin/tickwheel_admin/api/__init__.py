"""The JSON API under /api/v1, for programs; docs/api.md is its reference."""

from __future__ import annotations

import sys

from aiohttp import web

from tickwheel_admin.web.routes import tables_of


def add_api(app: web.Application) -> None:
    """Make the application answer /api/v1 with the routes of all modules of this package."""
    for table in tables_of(sys.modules[__name__]):
        table.add_to(app)
