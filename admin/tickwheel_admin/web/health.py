"""/healthz: whether this admin does its work, for load balancers and for people in a hurry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.keys import UNAVAILABLE_WHEN
from tickwheel_admin.web.routes import Routes

CHECK_SECONDS = 3

Check = Callable[[], Awaitable[str]]
"""Returns "ok", or in a few words what is wrong; "database.unavailable" errors may pass through."""

CHECKS: web.AppKey[dict[str, Check]] = web.AppKey("health_checks")

routes = Routes()


@routes.get("/healthz", permission=Permission.PUBLIC, api=True)
async def health(request: web.Request) -> web.Response:
    """200 when every check says "ok", else 503; the body tells each check's answer."""
    checks = request.app[CHECKS]
    answers = await asyncio.gather(
        *(_answer(check, request.app[UNAVAILABLE_WHEN]) for check in checks.values())
    )
    healthy = all(answer == "ok" for answer in answers)
    return web.json_response(
        {
            "status": "ok" if healthy else "failing",
            "checks": dict(zip(checks, answers, strict=True)),
        },
        status=200 if healthy else 503,
    )


async def _answer(check: Check, unavailable: tuple[type[Exception], ...]) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return "does not answer in time"
    except unavailable:
        return "does not answer"
