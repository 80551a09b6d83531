"""What the command palette finds: jobs by name."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.jobs import JobQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import JOBS
from tickwheel_admin.web.routes import Routes

FOUND_AT_MOST = 20

routes = Routes()


@routes.get("/palette.json", permission=Permission.VIEW)
async def find_jobs(request: web.Request) -> web.Response:
    """Jobs whose name, handler, owner or a tag has the words of `q`."""
    text = request.query.get("q", "").strip()[:200]
    page = await request.app[JOBS].page(actor_of(request), JobQuery(text=text), limit=FOUND_AT_MOST)
    return web.json_response(
        [
            {
                "name": item.job.config.name,
                "executor": item.executor_name,
                "href": f"/jobs/{item.job.id}",
            }
            for item in page.items
        ]
    )
