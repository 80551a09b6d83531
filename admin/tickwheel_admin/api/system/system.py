"""/api/v1/system and /api/v1/admins: the installation as a whole."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import ItemsJson, answer, instant
from tickwheel_admin.api.inputs import no_fields
from tickwheel_admin.api.system.shapes import AdminJson, SystemJson
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.system.service import AdminItem
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_SYSTEM = "/api/v1/system"


@routes.get("/api/v1/admins", permission=Permission.VIEW, api=True, answers=ItemsJson[AdminJson])
async def list_admins(request: web.Request) -> web.Response:
    """Every admin: load, clock, loops."""
    items = await request.app[SERVICES].system.admins(actor_of(request))
    return answer({"items": [_admin_view(item) for item in items]})


@routes.get(_SYSTEM, permission=Permission.VIEW, api=True, answers=SystemJson)
async def get_system(request: web.Request) -> web.Response:
    """Since when everything is paused."""
    return answer({"paused_at": instant(await request.app[SERVICES].system.paused_at())})


@routes.post(
    f"{_SYSTEM}/pause",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=(),
    answers=NoContent,
)
async def pause_everything(request: web.Request) -> web.Response:
    """No trigger fires until it is resumed; runs by hand, by the API and of children start."""
    await no_fields(request)
    await request.app[SERVICES].system.pause_all(actor_of(request))
    return web.Response(status=204)


@routes.post(
    f"{_SYSTEM}/resume",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=(),
    answers=NoContent,
)
async def resume_everything(request: web.Request) -> web.Response:
    """Triggers fire again, from now on."""
    await no_fields(request)
    await request.app[SERVICES].system.resume_all(actor_of(request))
    return web.Response(status=204)


def _admin_view(item: AdminItem) -> AdminJson:
    status = item.status
    return {
        "id": item.id,
        "name": item.name,
        "version": item.version,
        "live": item.live,
        "started_at": instant(item.started_at),
        "uptime_seconds": item.uptime_ms // 1000,
        "lease_expires_at": instant(item.lease_expires_at),
        "clock_offset_ms": status.clock_offset_ms,
        "database_ms": status.database_ms,
        "sessions": status.sessions,
        "waiting": status.waiting,
        "loops": {
            name: {"last_pass_ms_ago": loop.last_pass_ms_ago, "failing": loop.failing}
            for name, loop in sorted(status.loops.items())
        },
    }
