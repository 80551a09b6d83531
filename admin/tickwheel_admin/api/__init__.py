"""The JSON API under /api/v1, for programs; docs/api.md is its reference."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.calendars import calendars, schedule
from tickwheel_admin.api.executors import executors, nodes
from tickwheel_admin.api.jobs import bulk as jobs_bulk
from tickwheel_admin.api.jobs import declared as declared_jobs
from tickwheel_admin.api.jobs import history as job_history
from tickwheel_admin.api.jobs import jobs
from tickwheel_admin.api.jobs import kept_state as job_states
from tickwheel_admin.api.overview import attention
from tickwheel_admin.api.runs import bulk as runs_bulk
from tickwheel_admin.api.runs import purge as runs_purge
from tickwheel_admin.api.runs import runs
from tickwheel_admin.api.system import audit, system
from tickwheel_admin.api.users import saved_views, tokens, users


def add_api(app: web.Application) -> None:
    """Make the application answer /api/v1."""
    operations = (executors, nodes, jobs, jobs_bulk, job_states, job_history)
    ledger = (runs, runs_bulk, runs_purge, saved_views)
    planning = (declared_jobs, calendars, schedule, attention, system)
    accounts = (users, tokens, audit)
    for module in (*operations, *ledger, *planning, *accounts):
        module.routes.add_to(app)
