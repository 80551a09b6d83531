"""What may be done with a step while its workflow runs: to skip it, to pause before it."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.workflows.steps import StepView
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

_BY_HAND = "/runs/{workflow_run_id:[0-9]{1,18}}/steps/{step_key:[a-z0-9_-]{1,64}}/by-hand"

routes = Routes()


# Whoever an approval asks may skip it: the service looks at that.
@routes.get(_BY_HAND, permission=Permission.VIEW)
async def ask_by_hand(request: web.Request) -> web.Response:
    run, view = await _step(request)
    set_locale(request)
    return await render(request, "workflows/by_hand.html", {"run": run, "view": view})


@routes.post(_BY_HAND, permission=Permission.VIEW)
async def do_by_hand(request: web.Request) -> web.Response:
    run_id, key = int(request.match_info["workflow_run_id"]), request.match_info["step_key"]
    form = await read_form(request)
    service, actor = request.app[SERVICES].step_interventions, actor_of(request)
    doing = form.get("do", "skip")
    if doing == "skip":
        await service.skip(actor, run_id, key, reason=form.get("reason", ""))
    else:
        await service.pause(actor, run_id, key, paused=doing == "pause")
    code = {"skip": "step.skipped", "pause": "step.paused"}.get(doing, "step.resumed")
    return done_or_back(request, f"/runs/{run_id}", code, topics=("runs",))


async def _step(request: web.Request) -> tuple[Run, StepView]:
    run_id, key = int(request.match_info["workflow_run_id"]), request.match_info["step_key"]
    view = await request.app[SERVICES].workflow_runs.get(actor_of(request), run_id)
    found = next((each for each in view.steps if each.step.key == key), None)
    if found is None:
        raise NotFound("not_found", "There is nothing here, or you may not see it.")
    return view.run, found
