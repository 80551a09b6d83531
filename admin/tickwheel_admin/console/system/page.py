"""The installation as a whole: its admins, and the pause of everything."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.admins import ADMINS
from tickwheel_admin.console.frame.rendering import BLOCK_HEADER, done_or_back, render
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

MAX_OFFSET_MS = 2_000  # beyond this an admin's clock is pointed out

routes = Routes()


@routes.get("/admins", permission=Permission.VIEW)
async def show_admins(request: web.Request) -> web.Response:
    admins = await request.app[SERVICES].system.admins(actor_of(request))
    return await render(
        request, "system/admins.html", {"items": admins, "max_offset_ms": MAX_OFFSET_MS}
    )


@routes.get("/system/pause", permission=Permission.ADMINISTER, on_all=True)
async def ask_pause(request: web.Request) -> web.Response:
    return await render(request, "system/pause.html")


@routes.post("/system/pause", permission=Permission.ADMINISTER, on_all=True)
async def pause_everything(request: web.Request) -> web.Response:
    await request.app[SERVICES].system.pause_all(actor_of(request))
    return done_or_back(request, "/", "system.paused", topics=("jobs", "stats"))


@routes.post("/system/resume", permission=Permission.ADMINISTER, on_all=True)
async def resume_everything(request: web.Request) -> web.Response:
    await request.app[SERVICES].system.resume_all(actor_of(request))
    return done_or_back(request, "/", "system.resumed", topics=("jobs", "stats"))


@routes.get("/system/state", permission=Permission.VIEW)
async def show_state(request: web.Request) -> web.Response:
    """The banner of every page, fetched again when jobs changed; or the admins beside it."""
    if request.headers.get(BLOCK_HEADER) == "admins":
        await request.app[ADMINS].refresh(request)
        return await render(request, "system/admins_side.html")
    paused_at = await request.app[SERVICES].system.paused_at()
    return await render(request, "system/state.html", {"paused_at": paused_at})
