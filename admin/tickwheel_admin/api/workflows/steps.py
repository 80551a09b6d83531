"""/api/v1/runs/{workflow_run_id}/steps"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import PageJson, answer, instant, page_view
from tickwheel_admin.api.inputs import (
    ID,
    PAGING,
    body_fields,
    no_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.api.workflows.shapes import StepItemJson, StepJson, StepsJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.workflow_steps import step_to_raw
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.workflows.steps import ItemView, StepView, state_of
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import boolean, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

MAX_MESSAGE_CHARS = 2_000

_STATE = text("state", "Items whose run is in this state.", max_chars=20)
_APPROVE = boolean("approve", "True: the step goes on; false: it fails.", required=True)
_MESSAGE = text("message", "For whoever reads the answer.", max_chars=MAX_MESSAGE_CHARS, lines=True)
_REASON = text("reason", "Why it may be passed over.", max_chars=MAX_MESSAGE_CHARS, lines=True)
_BY_HAND = ("run.ended", "run.not_begun", "run.not_workflow", "run.stopping")
_STEPS = f"/api/v1/runs/{{workflow_run_id:{ID}}}/steps"


@routes.get(_STEPS, permission=Permission.VIEW, api=True, answers=StepsJson)
async def list_steps(request: web.Request) -> web.Response:
    """The steps of a workflow's run."""
    view = await request.app[SERVICES].workflow_runs.get(
        actor_of(request), path_id(request, "workflow_run_id")
    )
    return answer(
        {
            "run_id": view.run.id,
            "state": view.run.state,
            "output": view.workflow.output,
            "steps": [_step_view(step) for step in view.steps],
        }
    )


@routes.get(
    f"{_STEPS}/{{step_key:[a-z0-9_-]{{1,64}}}}/items",
    permission=Permission.VIEW,
    api=True,
    query=(_STATE, *PAGING),
    answers=PageJson[StepItemJson],
)
async def list_items(request: web.Request) -> web.Response:
    """The items of a step with `for_each` that have a run, in the order of their list."""
    fields = query_fields(request)
    word = _STATE.of(fields)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].workflow_runs.items(
        actor_of(request),
        path_id(request, "workflow_run_id"),
        request.match_info["step_key"],
        state=state_of(word) if word else None,
        cursor=cursor,
        limit=limit,
    )
    return answer(page_view(page, _item_view))


@routes.post(
    f"{_STEPS}/{{step_key:[a-z0-9_-]{{1,64}}}}/answer",
    permission=Permission.VIEW,
    api=True,
    body=(_APPROVE, _MESSAGE),
    answers=NoContent,
    conflicts=(*_BY_HAND, "step.not_waiting"),
)
async def answer_step(request: web.Request) -> web.Response:
    """Answer a step that waits for people."""
    fields = await body_fields(request)
    approved = _APPROVE.of(fields)
    message = _MESSAGE.of(fields) or None
    raise_if_any(fields.problems)
    await request.app[SERVICES].step_answers.answer(
        actor_of(request),
        path_id(request, "workflow_run_id"),
        request.match_info["step_key"],
        approved=approved,
        message=message,
    )
    return web.Response(status=204)


@routes.post(
    f"{_STEPS}/{{step_key:[a-z0-9_-]{{1,64}}}}/skip",
    permission=Permission.VIEW,
    api=True,
    body=(_REASON,),
    answers=NoContent,
    conflicts=(*_BY_HAND, "step.not_skippable"),
)
async def skip_step(request: web.Request) -> web.Response:
    """Let a step count as passed that has failed or has not begun."""
    fields = await body_fields(request)
    reason = _REASON.of(fields)
    raise_if_any(fields.problems)
    await request.app[SERVICES].step_interventions.skip(
        actor_of(request),
        path_id(request, "workflow_run_id"),
        request.match_info["step_key"],
        reason=reason,
    )
    return web.Response(status=204)


@routes.post(
    f"{_STEPS}/{{step_key:[a-z0-9_-]{{1,64}}}}/pause",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=(*_BY_HAND, "step.begun"),
)
async def pause_step(request: web.Request) -> web.Response:
    """Let a step that has not begun wait for a person before it begins."""
    return await _set_pause(request, paused=True)


@routes.post(
    f"{_STEPS}/{{step_key:[a-z0-9_-]{{1,64}}}}/resume",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=(*_BY_HAND, "step.begun", "step.not_paused"),
)
async def resume_step(request: web.Request) -> web.Response:
    """Lift a pause; a step that waits there goes on."""
    return await _set_pause(request, paused=False)


async def _set_pause(request: web.Request, *, paused: bool) -> web.Response:
    await no_fields(request)
    await request.app[SERVICES].step_interventions.pause(
        actor_of(request),
        path_id(request, "workflow_run_id"),
        request.match_info["step_key"],
        paused=paused,
    )
    return web.Response(status=204)


def _step_view(view: StepView) -> StepJson:
    status = view.status
    return {
        "key": view.step.key,
        "step": step_to_raw(view.step),
        "state": status.state,
        "reason": status.reason,
        "message": view.message,
        "since": instant(status.since),
        "started_at": instant(status.started_at),
        "due_at": instant(status.due_at),
        "decided_by": status.decided_by,
        "taken_from": status.taken_from,
        "waits_for": list(view.waits_for),
        "critical": view.is_critical,
        "run_id": status.run_id,
        "run_state": None if view.run is None else view.run.state,
        "items": None
        if status.items is None
        else {
            "all": status.items,
            "started": status.items_started,
            "succeeded": status.items_succeeded,
            "failed": status.items_failed,
            "skipped": status.items_skipped,
        },
    }


def _item_view(item: ItemView) -> StepItemJson:
    return {
        "item": item.item_index,
        "run_id": item.run_id,
        "state": item.state,
        "started_at": instant(item.started_at),
        "ended_at": instant(item.ended_at),
        "message": item.message,
    }
