"""/api/v1/schedule: what a schedule means, before a job has it."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.inputs import body_fields
from tickwheel_admin.api.views import answer, instants
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.web.keys import JOBS
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.post("/api/v1/schedule/preview", permission=Permission.LOGGED_IN, api=True)
async def preview(request: web.Request) -> web.Response:
    """The trigger in words and its next fires. Changes nothing."""
    fields = await body_fields(request, ("trigger", "count"))
    count = fields.integer("count", low=1, high=100, default=5)
    if not fields.has("trigger"):
        fields.refuse("trigger", "required", "This is required.")
    raise_if_any(fields.problems)
    found = await request.app[JOBS].preview(fields.raw["trigger"], n=count)
    return answer({"description": found.description, "fires": instants(found.fires)})
