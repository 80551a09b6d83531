"""Approving and declining a step that waits for somebody, and letting one go on."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.console.workflows.graph import href_of, look_of
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

MAX_MESSAGE_CHARS = 2_000
_ANSWER = "/runs/{workflow_run_id:[0-9]{1,18}}/steps/{step_key:[a-z0-9_-]{1,64}}/answer"

routes = Routes()


# Whom a step asks is said by the step: the service looks at it.
@routes.get(_ANSWER, permission=Permission.VIEW)
async def ask_answer(request: web.Request) -> web.Response:
    question = await request.app[SERVICES].step_questions.get(
        actor_of(request),
        int(request.match_info["workflow_run_id"]),
        request.match_info["step_key"],
    )
    set_locale(request)
    return await render(
        request,
        "workflows/answer.html",
        {
            "question": question,
            "run_id": question.run.id,
            "step": question.view.step,
            "status": question.view.status,
            "look_of": look_of,
            "href_of": href_of,
        },
    )


@routes.post(_ANSWER, permission=Permission.VIEW)
async def answer_step(request: web.Request) -> web.Response:
    run_id = int(request.match_info["workflow_run_id"])
    form = await read_form(request)
    approved = form.get("answer") == "approve"
    await request.app[SERVICES].step_answers.answer(
        actor_of(request),
        run_id,
        request.match_info["step_key"],
        approved=approved,
        message=form.get("message", ""),
    )
    code = "step.approved" if approved else "step.declined"
    return done_or_back(request, f"/runs/{run_id}", code, topics=("runs",))
