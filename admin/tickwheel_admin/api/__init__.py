"""The JSON API under /api/v1, for programs; docs/api.md is its reference."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api import calendars, executors, jobs, nodes, runs, runs_bulk, schedule, system


def add_api(app: web.Application) -> None:
    """Make the application answer /api/v1."""
    for module in (executors, nodes, jobs, runs, runs_bulk, calendars, schedule, system):
        module.routes.add_to(app)
