"""The JSON API under /api/v1, for programs; docs/api.md is its reference."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api import (
    attention,
    calendars,
    declared_jobs,
    executors,
    job_history,
    job_states,
    jobs,
    nodes,
    runs,
    runs_bulk,
    runs_purge,
    schedule,
    system,
)


def add_api(app: web.Application) -> None:
    """Make the application answer /api/v1."""
    operations = (executors, nodes, jobs, job_states, job_history, runs, runs_bulk, runs_purge)
    for module in (*operations, declared_jobs, calendars, schedule, attention, system):
        module.routes.add_to(app)
