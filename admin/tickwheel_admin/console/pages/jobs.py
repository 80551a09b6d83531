"""The list of jobs."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.rendering import render
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.jobs import JobQuery, JobView
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import EXECUTORS, JOBS
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get("/jobs", permission=Permission.VIEW)
async def list_jobs(request: web.Request) -> web.Response:
    actor = actor_of(request)
    executors = await request.app[EXECUTORS].names(actor)
    view = request.query.get("view", "all")
    chosen = request.query.get("executor", "")
    query = JobQuery(
        text=request.query.get("q", "").strip()[:200],
        # Values that mean nothing are left aside: a bookmark may be older than what it filters by.
        executor_id=next((e.id for e in executors if str(e.id) == chosen), None),
        view=view if view in frozenset(JobView) else JobView.ALL,
    )
    page = await request.app[JOBS].page(actor, query, cursor=request.query.get("cursor"))
    return await render(
        request,
        "jobs.html",
        {
            "jobs": page.items,
            "next_cursor": page.next,
            "query_values": query,
            "executors": executors,
            "is_filtered": query != JobQuery(),
        },
    )
