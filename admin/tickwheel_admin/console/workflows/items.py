"""The items of a step with `for_each`, by page and state."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.workflows.graph import look_of
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

STATES = (
    RunState.QUEUED, RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT,
    RunState.CANCELLED, RunState.LOST, RunState.SKIPPED,
)  # fmt: skip

routes = Routes()


@routes.get(
    "/runs/{workflow_run_id:[0-9]{1,18}}/steps/{step_key:[a-z0-9_-]{1,64}}",
    permission=Permission.VIEW,
)
async def list_items(request: web.Request) -> web.Response:
    actor, run_id = actor_of(request), int(request.match_info["workflow_run_id"])
    workflows = request.app[SERVICES].workflow_runs
    view = await workflows.get(actor, run_id)
    key, asked = request.match_info["step_key"], request.query.get("state", "")
    found = next((each for each in view.steps if each.step.key == key), None)
    if found is None:
        raise NotFound("not_found", "There is nothing here, or you may not see it.")
    state = RunState(asked) if asked in frozenset(STATES) else None
    page = await workflows.items(
        actor, run_id, key, state=state, cursor=request.query.get("cursor")
    )
    detail = await request.app[SERVICES].runs.get(actor, run_id)
    set_locale(request)
    return await render(
        request,
        "workflows/items.html",
        {
            "run": view.run,
            "config": detail.config,
            "step": found.step,
            "view": found,
            "status": found.status,
            "look": look_of(found),
            "items": page.items,
            "next_cursor": page.next,
            "state": "" if state is None else state.value,
            "states": STATES,
        },
    )
