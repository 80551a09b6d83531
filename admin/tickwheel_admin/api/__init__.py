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
    jobs_bulk,
    nodes,
    runs,
    runs_bulk,
    runs_purge,
    saved_views,
    schedule,
    sessions,
    system,
    tokens,
    users,
)


def add_api(app: web.Application) -> None:
    """Make the application answer /api/v1."""
    operations = (executors, nodes, jobs, jobs_bulk, job_states, job_history)
    ledger = (runs, runs_bulk, runs_purge, saved_views)
    planning = (declared_jobs, calendars, schedule, attention, system)
    people = (users, sessions, tokens, audit)
    for module in (*operations, *ledger, *planning, *people):
        module.routes.add_to(app)
