"""Typed keys for what handlers find on the application; `app.py` puts it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

from tickwheel_admin.config import Config
from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.services.events import Events

if TYPE_CHECKING:
    from tickwheel_admin.services.attention import Attention
    from tickwheel_admin.services.audit_log import AuditLog
    from tickwheel_admin.services.calendars import Calendars
    from tickwheel_admin.services.declared_jobs import DeclaredJobs
    from tickwheel_admin.services.elsewhere import Elsewhere
    from tickwheel_admin.services.executors import Executors
    from tickwheel_admin.services.job_bulk import JobBulk
    from tickwheel_admin.services.job_creation import JobCreation
    from tickwheel_admin.services.job_history import JobHistory
    from tickwheel_admin.services.job_parents import JobParents
    from tickwheel_admin.services.job_states import JobStates
    from tickwheel_admin.services.jobs import Jobs
    from tickwheel_admin.services.list_counts import ListCounts
    from tickwheel_admin.services.nodes import Nodes
    from tickwheel_admin.services.oidc_login import OidcLogin
    from tickwheel_admin.services.overview import Overview
    from tickwheel_admin.services.people import People
    from tickwheel_admin.services.purge import Purge
    from tickwheel_admin.services.runs import Runs
    from tickwheel_admin.services.saved_views import SavedViews
    from tickwheel_admin.services.schedules import Schedules
    from tickwheel_admin.services.settings import Settings
    from tickwheel_admin.services.suggestions import Suggestions
    from tickwheel_admin.services.system import System

ATTENTION: web.AppKey[Attention] = web.AppKey("attention")
AUDIT: web.AppKey[AuditLog] = web.AppKey("audit")
CALENDARS: web.AppKey[Calendars] = web.AppKey("calendars")
CONFIG: web.AppKey[Config] = web.AppKey("config")
DECLARED_JOBS: web.AppKey[DeclaredJobs] = web.AppKey("declared_jobs")
ELSEWHERE: web.AppKey[Elsewhere] = web.AppKey("elsewhere")
EVENTS: web.AppKey[Events] = web.AppKey("events")
EXECUTORS: web.AppKey[Executors] = web.AppKey("executors")
JOBS: web.AppKey[Jobs] = web.AppKey("jobs")
JOB_CREATION: web.AppKey[JobCreation] = web.AppKey("job_creation")
JOB_BULK: web.AppKey[JobBulk] = web.AppKey("job_bulk")
JOB_HISTORY: web.AppKey[JobHistory] = web.AppKey("job_history")
JOB_PARENTS: web.AppKey[JobParents] = web.AppKey("job_parents")
JOB_STATES: web.AppKey[JobStates] = web.AppKey("job_states")
LIST_COUNTS: web.AppKey[ListCounts] = web.AppKey("list_counts")
NODES: web.AppKey[Nodes] = web.AppKey("nodes")
OIDC: web.AppKey[OidcLogin | None] = web.AppKey("oidc")
"""None: nobody logs in at a provider."""

OVERVIEW: web.AppKey[Overview] = web.AppKey("overview")
PEOPLE: web.AppKey[People] = web.AppKey("people")
PURGE: web.AppKey[Purge] = web.AppKey("purge")
RUNS: web.AppKey[Runs] = web.AppKey("runs")
SAVED_VIEWS: web.AppKey[SavedViews] = web.AppKey("saved_views")
SCHEDULES: web.AppKey[Schedules] = web.AppKey("schedules")
SETTINGS: web.AppKey[Settings] = web.AppKey("settings")
SUGGESTIONS: web.AppKey[Suggestions] = web.AppKey("suggestions")
SYSTEM: web.AppKey[System] = web.AppKey("system")

ErrorPage = Callable[[web.Request, UserError | web.HTTPException, str], web.Response]
ERROR_PAGE: web.AppKey[ErrorPage] = web.AppKey("error_page")
"""Renders an error for people: request, error, correlation id. The console registers it."""

UNAVAILABLE_WHEN: web.AppKey[tuple[type[Exception], ...]] = web.AppKey("unavailable_when")
"""What the layers below raise when the database is away: answered 503, with no trace in the log."""
