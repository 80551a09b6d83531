"""The graph of a workflow that is being written, what is wrong with it, and edits of it.

The layout and all checks are the server's, so the editor asks while somebody types. Nothing is
saved here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import problem_text, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.job_form.drafts import JobDrafts
from tickwheel_admin.console.job_form.form import form_as_sent
from tickwheel_admin.console.job_form.yaml_view import YamlView, with_plain_ends
from tickwheel_admin.console.workflows.difference import difference_of
from tickwheel_admin.console.workflows.outline import graph_of_outline, outline_of
from tickwheel_admin.domain.errors import InvalidInput, NotFound, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.workflow_text import EditKind, GraphEdit, edited
from tickwheel_admin.services.jobs.yaml_reader import read_yaml
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

_STEP = re.compile(r"workflow\.steps\[(\d+)\]")

routes = Routes()


@routes.post("/jobs/workflow-draft", permission=Permission.DEVELOP)
async def show_draft(request: web.Request) -> web.Response:
    """The text, edited if that is asked for, with its graph and what is wrong, as JSON."""
    sent = await read_form(request)
    set_locale(request)
    text, refused = with_plain_ends(sent.get("yaml", "")), None
    try:
        if edit := _edit(sent):
            text = await asyncio.to_thread(edited, text, edit)  # it reads the text several times
    except InvalidInput as error:
        refused = problem_text(error.problems[0])
    job_id = whole_number(sent.get("job_id")) or 0
    problems = await _problems(request, text, sent, job_id)
    told = {
        "text": text,
        "refused": refused,
        "marks": [_mark(each) for each in problems if "line" in each.params],
        "problems": await _part(request, "problems", {"problems": problems}),
        **await _picture(request, text, problems, sent, job_id),
    }
    return web.json_response(told, headers={"Cache-Control": "no-store"})


def _edit(sent: MultiMapping[str]) -> GraphEdit | None:
    kind = sent.get("edit", "")
    if kind not in frozenset(EditKind):
        return None
    return GraphEdit(
        kind=EditKind(kind), step=sent.get("edit_step", ""), other=sent.get("edit_other", "")
    )


async def _problems(
    request: web.Request, text: str, sent: MultiMapping[str], job_id: int
) -> Sequence[Problem]:
    """All that is wrong with it, each with its line, as far as this person may know it."""
    drafts = JobDrafts(request.app[SERVICES], actor_of(request))
    executor = await drafts.executor_of(form_as_sent(sent))
    executor_id = None
    if executor is not None and drafts.actor.may(Permission.DEVELOP, executor.item.id):
        executor_id = executor.item.id
    view = YamlView(text=text)
    try:
        raw = view.raw()
    except InvalidInput as unreadable:
        return unreadable.problems
    if not await _is_of(request, job_id):
        job_id = 0
    found = await request.app[SERVICES].jobs.refused(drafts.actor, executor_id, raw, job_id=job_id)
    return view.refused(found.problems).problems


async def _is_of(request: web.Request, job_id: int) -> bool:
    try:
        return bool(job_id) and bool(
            await request.app[SERVICES].jobs.get(actor_of(request), job_id)
        )
    except NotFound:
        return False


async def _picture(
    request: web.Request,
    text: str,
    problems: Sequence[Problem],
    sent: MultiMapping[str],
    job_id: int,
) -> dict[str, Any]:
    """The graph, where each step stands in the text, and what it needs; none of an odd text."""
    try:
        read = read_yaml(text)
    except InvalidInput:
        return {"graph": None}
    workflow = read.value.get("workflow")
    steps = outline_of(workflow)
    if sent.get("difference") == "yes":
        difference = difference_of(await _stored(request, job_id), workflow)
        graph = await _part(request, "difference", {"difference": difference})
    else:
        wrong = frozenset(
            int(found[1]) for each in problems if (found := _STEP.match(each.field)) is not None
        )
        drawn = graph_of_outline(steps, wrong=wrong)
        graph = await _part(request, "graph", {"graph": drawn})
    return {
        "graph": graph,
        "steps": [
            {
                "key": step.key,
                "needs": list(step.needs),
                "line": read.place_of(f"workflow.steps[{step.index}]").line,
            }
            for step in steps
        ],
    }


async def _stored(request: web.Request, job_id: int) -> Any:
    try:
        detail = await request.app[SERVICES].jobs.get(actor_of(request), job_id)
    except NotFound:
        return None
    return detail.raw.get("workflow")


async def _part(request: web.Request, name: str, context: dict[str, Any]) -> str:
    response = await render(request, f"job_form/draft_{name}.html", context)
    return response.text or ""


def _mark(problem: Problem) -> dict[str, Any]:
    where = "" if problem.field == "yaml" else f"{problem.field}: "
    return {
        "line": problem.params["line"],
        "column": problem.params.get("column", 1),
        "text": f"{where}{problem_text(problem)}",
    }
