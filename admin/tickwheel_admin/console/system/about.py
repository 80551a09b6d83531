"""What this installation is: versions, database, admins, and what it is made of."""

from __future__ import annotations

import platform

from aiohttp import web

from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.system.licences import libraries, vendored
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get("/about", permission=Permission.LOGGED_IN)
async def show_about(request: web.Request) -> web.Response:
    actor = actor_of(request)
    return await render(
        request,
        "system/about.html",
        {
            "database": await request.app[SERVICES].system.database(actor),
            "python": platform.python_version(),
            "admin_name": request.app[CONFIG].name,
            "admin_url": request.app[CONFIG].console_url,
            "may_see_admins": actor.may_anywhere(Permission.VIEW),
            "libraries": libraries(),
            "vendored": vendored(),
        },
    )
