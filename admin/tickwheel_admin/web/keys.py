"""Typed keys for what handlers find on the application; `app.py` puts it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

from tickwheel_admin.config import Config
from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.services.events.events import Events

if TYPE_CHECKING:
    from tickwheel_admin.services.calendars.service import Calendars
    from tickwheel_admin.services.events.relay import Elsewhere
    from tickwheel_admin.services.executors.nodes import Nodes
    from tickwheel_admin.services.executors.service import Executors
    from tickwheel_admin.services.jobs.bulk import JobBulk
    from tickwheel_admin.services.jobs.creation import JobCreation
    from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
    from tickwheel_admin.services.jobs.history import JobHistory
    from tickwheel_admin.services.jobs.kept_state import JobStates
    from tickwheel_admin.services.jobs.parents import JobParents
    from tickwheel_admin.services.jobs.service import Jobs
    from tickwheel_admin.services.lists.saved_views import SavedViews
    from tickwheel_admin.services.lists.suggestions import Suggestions
    from tickwheel_admin.services.overview.attention.service import Attention
    from tickwheel_admin.services.overview.list_counts import ListCounts
    from tickwheel_admin.services.overview.service import Overview
    from tickwheel_admin.services.runs.purge import Purge
    from tickwheel_admin.services.runs.service import Runs
    from tickwheel_admin.services.system.audit import AuditLog
    from tickwheel_admin.services.system.service import System
    from tickwheel_admin.services.system.settings import Settings
    from tickwheel_admin.services.triggers.service import Schedules
    from tickwheel_admin.services.users.oidc.login import OidcLogin
    from tickwheel_admin.services.users.service import People

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
