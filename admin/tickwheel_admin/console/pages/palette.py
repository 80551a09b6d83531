"""What the command palette finds: jobs by name."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.domain.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SUGGESTIONS
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get("/palette.json", permission=Permission.VIEW)
async def find_jobs(request: web.Request) -> web.Response:
    """Up to 20 jobs with `q` in name, handler, owner or a tag, those that are called so first."""
    found = await request.app[SUGGESTIONS].jobs(actor_of(request), request.query.get("q", ""))
    return web.json_response(
        [
            {
                "name": item.job.config.name,
                "executor": item.executor_name,
                "href": f"/jobs/{item.job.id}",
            }
            for item in found
        ]
    )
