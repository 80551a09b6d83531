"""Running a job now: at once from a list, or with parameters, a node and a delay of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import (
    done_in_place,
    go_to,
    is_scripted,
    new_request_key,
    render,
)
from tickwheel_admin.console.frame.units import FormFields, pretty, whole_number
from tickwheel_admin.console.parameters.form import (
    form_as_sent,
    is_about_parameters,
    parameter_form,
    switched,
    text_of_form,
)
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.input.job import parse_parameters
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.service import NodeView
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

JOB_RUN = "/jobs/{job_id:[0-9]{1,18}}/run"
_FIELDS = ("node", "delay", "delay_unit")
_PLACES = {"node_id": "node", "delay_seconds": "delay"}  # what the rules call by another name

routes = Routes()


@routes.get(JOB_RUN, permission=Permission.OPERATE)
async def ask_how(request: web.Request) -> web.Response:
    return await _form(request)


@routes.post(JOB_RUN, permission=Permission.OPERATE)
async def run_now(request: web.Request) -> web.Response:
    """Without parameters, as from the button in a list, it runs as it is and the page stays."""
    form = await read_form(request)
    if "do" in form:
        return await _form(request, sent=form)
    by_button = "parameters" not in form
    try:
        run_id = await request.app[SERVICES].jobs.run_now(
            actor_of(request),
            _job_id(request),
            request_key=form.get("request_key") or None,
            origin=Origin.MANUAL,
            **({} if by_button else await _asked(request, form)),
        )
    except InvalidInput as error:
        if by_button:
            raise
        return await _form(request, sent=form, problems=error.problems)
    if by_button and is_scripted(request):
        set_locale(request)
        return done_in_place(
            _("Run #%(id)s was added.") % {"id": run_id},
            href=f"/runs/{run_id}",
            link=_("Open it"),
            topics=("runs",),
        )
    response = go_to(request, f"/runs/{run_id}")
    set_flash(response, "run.requested")
    return response


async def _asked(request: web.Request, form: MultiMapping[str]) -> dict[str, Any]:
    """How the run differs from the job's own.

    Raises:
        InvalidInput: what is typed is no JSON or no number.
    """
    detail = await request.app[SERVICES].jobs.get(actor_of(request), _job_id(request))
    text, problems = text_of_form(detail.schema, form, over=True)
    typed = FormFields(values=form, problems=problems)
    seconds = typed.length("delay", typed.text("delay_unit")) or 0
    parameters: str | None = None
    try:
        parameters = parse_parameters(text)
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput(problems)
    unchanged = parameters == detail.item.job.config.parameters
    return {
        "parameters": None if unchanged else parameters,
        "node_id": whole_number(form.get("node")),
        "delay_ms": round(seconds * 1000),
    }


async def _form(
    request: web.Request,
    *,
    sent: MultiMapping[str] | None = None,
    problems: Sequence[Problem] = (),
) -> web.Response:
    """The form as somebody filled it in; None: nobody did yet."""
    set_locale(request)
    actor = actor_of(request)
    detail = await request.app[SERVICES].jobs.get(actor, _job_id(request))
    job = detail.item.job
    values = {} if sent is None else {name: sent.get(name, "") for name in _FIELDS}
    if sent is None:
        parameters = parameter_form(detail.schema, pretty(job.config.parameters))
    elif "do" in sent:
        parameters = switched(detail.schema, sent, over=True)
    else:
        parameters = form_as_sent(detail.schema, sent, problems=problems)
    executor = await request.app[SERVICES].executors.get(actor, job.executor_id)
    found = {_PLACES.get(problem.field, problem.field): problem for problem in reversed(problems)}
    return await render(
        request,
        "jobs/run_now.html",
        {
            "job": job,
            "offered": detail.is_offered,
            "parameters": parameters.of_handler(job.config.handler),
            "values": values,
            "problems": found,
            "other_problems": [
                each
                for name, each in found.items()
                if name not in _FIELDS and not is_about_parameters(each)
            ],
            "nodes": _nodes(executor.nodes, job.config.handler),
            "request_key": (sent and sent.get("request_key")) or new_request_key(),
        },
        status=422 if problems else 200,
        block="dialog",
    )


def _nodes(views: Sequence[NodeView], handler: str) -> list[tuple[NodeView, bool]]:
    """The live nodes, and whether each can run the job at all."""
    return [
        (view, view.node.offers(handler)) for view in views if view.node.state is NodeState.LIVE
    ]


def _job_id(request: web.Request) -> int:
    return int(request.match_info["job_id"])
