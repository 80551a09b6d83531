"""Adding the console to the application."""

from __future__ import annotations

import asyncio
import functools

from aiohttp import web

from tickwheel_admin import console
from tickwheel_admin.console.errors import show_error
from tickwheel_admin.console.frame import live
from tickwheel_admin.console.frame.admins import ADMINS, AdminList
from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.frame.locale import NOW, wall_clock
from tickwheel_admin.console.frame.rendering import RENDERER, Renderer
from tickwheel_admin.console.frame.streams import (
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    OPEN_STREAMS,
    STOPPING,
    OpenStreams,
    stop_streams,
    stop_watching,
)
from tickwheel_admin.console.templating import new_renderer
from tickwheel_admin.console.triggers.form import rules_by_kind
from tickwheel_admin.web.identity import EARLY_CHECKS
from tickwheel_admin.web.keys import ERROR_PAGE, SERVICES
from tickwheel_admin.web.routes import Routes, tables_of


def add_console(app: web.Application) -> None:
    """Add static files, the page that shows errors, and the pages of all modules of the console."""
    assets, renderer = _files_and_templates()
    app.setdefault(NOW, wall_clock)
    app[RENDERER] = renderer
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
    for table in (static, *tables_of(console)):
        table.add_to(app)


@functools.cache
def _files_and_templates() -> tuple[Assets, Renderer]:
    """The same for every application of a process: they come from the package and never change."""
    assets = Assets(more_styles=rules_by_kind())
    return assets, new_renderer(assets)
