"""Adding the console to the application."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tickwheel_admin.console import live
from tickwheel_admin.console.admins import ADMINS, Admins
from tickwheel_admin.console.assets import Assets
from tickwheel_admin.console.errors import show_error
from tickwheel_admin.console.pages import (
    about,
    account,
    api_tokens,
    audit,
    audit_export,
    calendar,
    calendar_edit,
    calendars,
    declared_jobs,
    executors,
    filter_values,
    job,
    job_actions,
    job_bulk,
    job_dates,
    job_edit,
    job_history,
    job_state,
    jobs,
    nodes,
    oidc,
    overview,
    palette,
    run_bulk,
    run_list,
    run_log,
    run_now,
    run_purge,
    runs,
    saved_views,
    schedule_preview,
    session,
    settings,
    system,
    tokens,
    user_edits,
    users,
)
from tickwheel_admin.console.reader import NOW, wall_clock
from tickwheel_admin.console.rendering import RENDERER, Renderer
from tickwheel_admin.console.streams import (
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    OPEN_STREAMS,
    STOPPING,
    OpenStreams,
    stop_streams,
    stop_watching,
)
from tickwheel_admin.web.identity import EARLY_CHECKS
from tickwheel_admin.web.keys import ERROR_PAGE, EVENTS
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
    assets = Assets()
    app.setdefault(NOW, wall_clock)
    app[RENDERER] = Renderer(assets)
    app[ADMINS] = Admins()
    app[ERROR_PAGE] = show_error
    app[STOPPING] = asyncio.Event()
    app[HEARTBEAT] = HEARTBEAT_SECONDS
    app[OPEN_STREAMS] = OpenStreams()
    app[EARLY_CHECKS].append(app[OPEN_STREAMS].opening)
    app[live.BROADCAST] = live.Broadcast(app[EVENTS])
    app.on_shutdown.append(stop_streams)
    app.on_cleanup.append(stop_watching)
    static = Routes()
    assets.add_to(static)
    for table in (static, *_TABLES):
        table.add_to(app)
