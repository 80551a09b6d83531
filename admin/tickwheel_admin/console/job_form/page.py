"""The form of a new job and of an edited one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from multidict import MultiMapping

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.formatting import local_date
from tickwheel_admin.console.frame.locale import set_locale, time_zones
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.frame.units import problems_at_fields, whole_number
from tickwheel_admin.console.job_form.children import rows_of
from tickwheel_admin.console.job_form.drafts import (
    JobDrafts,
    new_workflow,
    schema_in,
    with_workflow,
)
from tickwheel_admin.console.job_form.form import JobForm, empty_form, form_as_sent, form_of_job
from tickwheel_admin.console.job_form.kinds import choices_of, own_handlers
from tickwheel_admin.console.job_form.routing import RoutingNow, routing_now
from tickwheel_admin.console.job_form.routing_fields import node_names
from tickwheel_admin.console.job_form.summaries import summaries_of
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem, UserError
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.runs.script import GLUE_LANGUAGES, USUAL_LANGUAGES
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.executors.service import ExecutorDetail, ExecutorItem
from tickwheel_admin.services.jobs.imports import JobImport
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

JOB = "/jobs/{job_id:[0-9]{1,18}}"

routes = Routes()


@routes.get("/jobs/new", permission=Permission.DEVELOP)
async def show_new(request: web.Request) -> web.Response:
    drafts = _drafts(request)
    executors = await _own_executors(request, drafts.actor)
    asked = request.query.get("executor", "")
    chosen = next((e.id for e in executors if str(e.id) == asked), None)
    if chosen is None and len(executors) == 1:
        chosen = executors[0].id
    form = empty_form(executor_id=chosen, kind=request.query.get("what", ""))
    if request.query.get("what") == "workflow":
        form = new_workflow(form)
    if (original := whole_number(request.query.get("from"))) is not None:
        form = await drafts.copy_of(original, executors=[e.id for e in executors])
    return await _form_page(request, drafts, form, executors=executors)


@routes.post("/jobs/new", permission=Permission.DEVELOP)
async def create_job(request: web.Request) -> web.Response:
    sent = await read_form(request)
    form = form_as_sent(sent)
    drafts = _drafts(request)
    executors = await _own_executors(request, drafts.actor)
    if "do" in sent:
        return await _changed(request, drafts, form, sent["do"], executors=executors)
    try:
        executor_id = next((e.id for e in executors if str(e.id) == form["executor_id"]), None)
        jobs, actor = request.app[SERVICES].jobs, drafts.actor
        missing: Sequence[Problem] = ()
        if executor_id is None:
            missing = InvalidInput.one("executor_id", "required", "Choose an executor.").problems
        try:
            many = form.yaml is not None and form.yaml.holds_many()
            raw, noted = ({}, []) if many else await drafts.draft_job(form)
        except InvalidInput as unreadable:
            raise InvalidInput((*missing, *unreadable.problems)) from None
        if executor_id is None:
            raise (
                InvalidInput(missing)
                if many
                else await jobs.refused(actor, None, raw, noted=(*missing, *noted))
            )
        if many and form.yaml is not None:
            await JobImport(jobs).add(actor, executor_id, form.yaml.text)
            response = go_to(request, f"/jobs?{urlencode({'executor': executor_id})}")
            set_flash(response, "jobs.imported")
            return response
        job_id = await jobs.create(actor, executor_id, raw, noted=noted)
    except (InvalidInput, Conflict) as error:
        return await _form_page(
            request,
            drafts,
            form.refused(problems_at_fields(error)),
            executors=executors,
            error=error,
        )
    return await _saved(request, drafts.actor, job_id, "job.created", sent=sent)


@routes.get(f"{JOB}/edit", permission=Permission.DEVELOP)
async def show_edit(request: web.Request) -> web.Response:
    drafts = _drafts(request)
    detail = await request.app[SERVICES].jobs.get(drafts.actor, _job_id(request))
    job = detail.item.job
    if detail.managed:
        return await render(request, "job_form/by_code.html", {"job": job})
    form = form_of_job(
        job.config,
        executor_id=job.executor_id,
        revision=job.revision,
        children=await rows_of(drafts.names, job.config.children),
    )
    form = with_workflow(form, detail.raw)
    executors = await _own_executors(request, drafts.actor)
    return await _form_page(request, drafts, form, executors=executors, git_owner=detail.git_owner)


@routes.post(f"{JOB}/edit", permission=Permission.DEVELOP)
async def save_job(request: web.Request) -> web.Response:
    job_id = _job_id(request)
    sent = await read_form(request)
    form = form_as_sent(sent)
    drafts = _drafts(request)
    if "do" in sent:
        executors = await _own_executors(request, drafts.actor)
        return await _changed(request, drafts, form, sent["do"], executors=executors)
    try:
        revision = whole_number(form["revision"]) or 0
        raw, noted = await drafts.draft_job(form)
        await request.app[SERVICES].jobs.update(
            drafts.actor, job_id, raw, revision=revision, noted=noted
        )
    except (InvalidInput, Conflict) as error:
        return await _form_page(
            request,
            drafts,
            form.refused(problems_at_fields(error)),
            executors=await _own_executors(request, drafts.actor),
            error=error,
        )
    return await _saved(request, drafts.actor, job_id, "job.saved", sent=sent)


@routes.get("/jobs/handlers", permission=Permission.DEVELOP)
async def list_handlers(request: web.Request) -> web.Response:
    """What can run on the chosen executor, with the handlers that its live nodes offer."""
    set_locale(request)
    drafts = _drafts(request)
    form = form_as_sent(request.query)
    executor = await drafts.executor_of(form)
    context = _kinds(drafts, form, executor)
    return await render(request, "job_form/what.html", context)


def _kinds(drafts: JobDrafts, form: JobForm, executor: ExecutorDetail | None) -> dict[str, Any]:
    """The form with an answer to "What runs?", and what the question shows."""
    # Whoever leaves the script of a job as it is needs no right for it.
    may_script = bool(form["script_sha256"]) or (
        executor is not None and drafts.actor.may(Permission.SCRIPT, executor.item.id)
    )
    choices = choices_of(executor, may_script=may_script)
    return {
        "form": form.with_kind(choices, executor),
        "kinds": choices,
        "handlers": own_handlers(executor),
        "offers_any": executor is not None and bool(executor.handlers),
        "protocol": None if executor is None else executor.item.protocol,
    }


@routes.get("/jobs/nodes", permission=Permission.DEVELOP)
async def show_nodes(request: web.Request) -> web.Response:
    """Which live nodes the routing would take now, while it is typed."""
    set_locale(request)
    form = form_as_sent(request.query)
    executor = await _drafts(request).executor_of(form)
    now = None if executor is None else _nodes_now(form, executor)
    return await render(request, "job_form/routing_now.html", {"form": form, "nodes_now": now})


@routes.get("/jobs/suggestions", permission=Permission.DEVELOP)
async def suggest_children(request: web.Request) -> web.Response:
    """Options for the field of a child job that is being typed into."""
    texts = await _drafts(request).names.suggestions(
        request.query.get("child_job", ""), permission=Permission.OPERATE
    )
    return await render(request, "lists/job_suggestions.html", {"suggested": texts})


async def _changed(
    request: web.Request,
    drafts: JobDrafts,
    form: JobForm,
    action: str,
    *,
    executors: Sequence[ExecutorItem],
) -> web.Response:
    """The form again, in its other view or with a trigger more or less. Nothing is saved."""
    locale = set_locale(request)
    try:
        if action == "as:yaml":
            form = await drafts.as_yaml(form)
        elif action == "as:form":
            form = await drafts.as_form(form)
        elif form.yaml is None:
            today = local_date(locale.now_at, locale.timezone)
            form = form.changed(action, timezone=locale.timezone, today=today)
    except InvalidInput as error:
        form = form.refused(error.problems)
        return await _form_page(request, drafts, form, executors=executors, error=error)
    return await _form_page(request, drafts, form, executors=executors)


async def _saved(
    request: web.Request, actor: Actor, job_id: int, code: str, *, sent: MultiMapping[str]
) -> web.Response:
    """On to the job; or to a run of it, if that is what was pressed."""
    address = f"/jobs/{job_id}"
    if sent.get("then") == "run":
        try:
            run_id = await request.app[SERVICES].jobs.run_now(
                actor, job_id, request_key=sent.get("run_key") or None
            )
            address = f"/runs/{run_id}"
        except UserError:
            address = f"/jobs/{job_id}/run"  # it asks for what is missing, and says what is wrong
    response = go_to(request, address)
    set_flash(response, code)
    return response


async def _form_page(
    request: web.Request,
    drafts: JobDrafts,
    form: JobForm,
    *,
    executors: Sequence[ExecutorItem],
    error: InvalidInput | Conflict | None = None,
    git_owner: str | None = None,
) -> web.Response:
    set_locale(request)
    job_id = request.match_info.get("job_id")
    executor = await drafts.executor_of(form)
    kinds = _kinds(drafts, form, executor)
    form = kinds["form"]
    response = await render(
        request,
        "job_form/page.html",
        {
            **kinds,
            "job_id": int(job_id) if job_id else None,
            "git_owner": git_owner,
            "summaries": summaries_of(form),
            "executors": executors,
            "script_languages": (
                GLUE_LANGUAGES if kinds["protocol"] is Protocol.XXL_JOB else USUAL_LANGUAGES
            ),
            "parameters": form.parameters(schema_in(form, executor)),
            "secret_names": await drafts.secret_names(executor),
            "nodes_now": None if executor is None else _nodes_now(form, executor),
            "suggested": await drafts.names.suggestions("", permission=Permission.OPERATE),
            "conflict": error if isinstance(error, Conflict) and not form.problems else None,
            "zones": sorted(time_zones()),
            "calendars": await request.app[SERVICES].calendars.names(drafts.actor),
            "pools": [] if executor is None else await _pools_of(drafts, request, executor),
        },
        status=200 if error is None else error.status,
        block="form",
    )
    # The previews of schedules were not in the form that came back: they fetch themselves again.
    response.headers["HX-Trigger-After-Settle"] = "form-shown"
    return response


async def _pools_of(drafts: JobDrafts, request: web.Request, executor: ExecutorDetail) -> list[str]:
    return await request.app[SERVICES].pools.names_for(drafts.actor, executor.item.id)


def _drafts(request: web.Request) -> JobDrafts:
    """Who writes, asked for once in each request."""
    return JobDrafts(request.app[SERVICES], actor_of(request))


async def _own_executors(request: web.Request, actor: Actor) -> list[ExecutorItem]:
    """Executors whose jobs this person may edit."""
    executors = await request.app[SERVICES].executors.list(actor)
    return [e for e in executors if actor.may(Permission.DEVELOP, e.id)]


def _nodes_now(form: JobForm, executor: ExecutorDetail) -> RoutingNow:
    live = [view.node for view in executor.nodes if view.node.state is NodeState.LIVE]
    return routing_now(
        live,
        strategy=form["routing"],
        names=node_names(form["nodes"]),
        selector=form["selector"],
        handler=form.handler,
    )


def _job_id(request: web.Request) -> int:
    return int(request.match_info["job_id"])
