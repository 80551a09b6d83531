"""Whether jobs of an executor may have scripts at all."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

SCRIPTS = "/executors/{executor_id:[0-9]{1,18}}/scripts"

routes = Routes()


@routes.get(SCRIPTS, permission=Permission.ADMINISTER)
async def ask_scripts(request: web.Request) -> web.Response:
    """Says what the other setting would do."""
    executor_id = int(request.match_info["executor_id"])
    detail = await request.app[SERVICES].executors.get(actor_of(request), executor_id)
    return await render(request, "executors/scripts_switch.html", {"executor": detail.item})


@routes.post(SCRIPTS, permission=Permission.ADMINISTER)
async def set_scripts(request: web.Request) -> web.Response:
    """As the form says, whatever the setting is now: somebody may have changed it meanwhile."""
    executor_id = int(request.match_info["executor_id"])
    form = await read_form(request)
    allowed = form.get("allowed") == "yes"
    await request.app[SERVICES].executors.set_scripts(
        actor_of(request), executor_id, allowed=allowed
    )
    code = "executor.scripts_allowed" if allowed else "executor.scripts_forbidden"
    return done_or_back(request, f"/executors/{executor_id}", code, topics=("nodes", "runs"))
