"""The JSON API under /api/v1, for programs; docs/api.md is its reference."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api import (
    attention,
    audit,
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
    sessions,
    system,
    tokens,
    users,
)


def add_api(app: web.Application) -> None:
    """Make the application answer /api/v1."""
    operations = (executors, nodes, jobs, job_states, job_history, runs, runs_bulk, runs_purge)
    planning = (declared_jobs, calendars, schedule, attention, system)
    people = (users, sessions, tokens, audit)
    for module in (*operations, *planning, *people):
        module.routes.add_to(app)
