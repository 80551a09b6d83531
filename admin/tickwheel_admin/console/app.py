"""Adding the console to the application."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tickwheel_admin.console.calendars import edit as calendar_edit
from tickwheel_admin.console.calendars import list as calendars
from tickwheel_admin.console.calendars import month as calendar
from tickwheel_admin.console.errors import show_error
from tickwheel_admin.console.executors import nodes, tokens
from tickwheel_admin.console.executors import page as executors
from tickwheel_admin.console.frame import live
from tickwheel_admin.console.frame.admins import ADMINS, AdminList
from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.frame.locale import NOW, wall_clock
from tickwheel_admin.console.frame.rendering import RENDERER
from tickwheel_admin.console.frame.streams import (
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    OPEN_STREAMS,
    STOPPING,
    OpenStreams,
    stop_streams,
    stop_watching,
)
from tickwheel_admin.console.help import palette
from tickwheel_admin.console.job_form import page as job_edit
from tickwheel_admin.console.jobs import actions as job_actions
from tickwheel_admin.console.jobs import bulk as job_bulk
from tickwheel_admin.console.jobs import dates as job_dates
from tickwheel_admin.console.jobs import declared as declared_jobs
from tickwheel_admin.console.jobs import history as job_history
from tickwheel_admin.console.jobs import kept_state as job_state
from tickwheel_admin.console.jobs import list as jobs
from tickwheel_admin.console.jobs import page as job
from tickwheel_admin.console.jobs import run_now
from tickwheel_admin.console.lists import filter_values, saved_views
from tickwheel_admin.console.overview import page as overview
from tickwheel_admin.console.runs import bulk as run_bulk
from tickwheel_admin.console.runs import list as run_list
from tickwheel_admin.console.runs import log as run_log
from tickwheel_admin.console.runs import page as runs
from tickwheel_admin.console.runs import purge as run_purge
from tickwheel_admin.console.system import about, audit, audit_export, settings
from tickwheel_admin.console.system import page as system
from tickwheel_admin.console.templating import new_renderer
from tickwheel_admin.console.triggers import preview as schedule_preview
from tickwheel_admin.console.triggers.form import rules_by_kind
from tickwheel_admin.console.users import account, api_tokens, oidc, session
from tickwheel_admin.console.users import edits as user_edits
from tickwheel_admin.console.users import list as users
from tickwheel_admin.web.identity import EARLY_CHECKS
from tickwheel_admin.web.keys import ERROR_PAGE, SERVICES
from tickwheel_admin.web.routes import Routes

_TABLES = (
    session.routes,
    oidc.routes,
    overview.routes,
    schedule_preview.routes,
    job_edit.routes,
    jobs.routes,
    job_bulk.routes,
    filter_values.routes,
    saved_views.routes,
    job.routes,
    job_history.routes,
    job_actions.routes,
    run_now.routes,
    job_dates.routes,
    job_state.routes,
    run_bulk.routes,
    run_list.routes,
    run_purge.routes,
    runs.routes,
    run_log.routes,
    executors.routes,
    declared_jobs.routes,
    tokens.routes,
    calendar.routes,
    calendar_edit.routes,
    calendars.routes,
    nodes.routes,
    system.routes,
    users.routes,
    user_edits.routes,
    api_tokens.routes,
    account.routes,
    audit.routes,
    audit_export.routes,
    settings.routes,
    about.routes,
    palette.routes,
    live.routes,
)


def add_console(app: web.Application) -> None:
    """Add pages, static files and the page that shows errors."""
    assets = Assets(more_styles=rules_by_kind())
    app.setdefault(NOW, wall_clock)
    app[RENDERER] = new_renderer(assets)
    app[ADMINS] = AdminList()
    app[ERROR_PAGE] = show_error
    app[STOPPING] = asyncio.Event()
    app[HEARTBEAT] = HEARTBEAT_SECONDS
    app[OPEN_STREAMS] = OpenStreams()
    app[EARLY_CHECKS].append(app[OPEN_STREAMS].opening)
    app[live.BROADCAST] = live.Broadcast(app[SERVICES].events)
    app.on_shutdown.append(stop_streams)
    app.on_cleanup.append(stop_watching)
    static = Routes()
    assets.add_to(static)
    for table in (static, *_TABLES):
        table.add_to(app)
