"""/api/v1/jobs"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import PageJson, answer, page_view
from tickwheel_admin.api.inputs import (
    ID,
    IDEMPOTENCY_KEY,
    PAGING,
    PARAMETERS,
    TRACE,
    body_fields,
    caller_trace_of,
    no_fields,
    page_of,
    parameters_of,
    path_id,
    query_fields,
    request_key_of,
    take_id,
    taken_id,
)
from tickwheel_admin.api.jobs.config_types import JobChangeJson, NewJobJson
from tickwheel_admin.api.jobs.queries import FILTER, SORT, job_query_of
from tickwheel_admin.api.jobs.shapes import JobDetailJson, JobJson, JobRevisionJson
from tickwheel_admin.api.jobs.views import job_detail_view, job_view
from tickwheel_admin.api.runs.shapes import NewRunJson
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.yaml import to_yaml
from tickwheel_admin.services.runs.requests import MAX_DELAY_MS
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import choice, optional_id, seconds_as_ms, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/jobs"
_ONE = f"{_ALL}/{{job_id:{ID}}}"
_TRIGGER = f"{_ONE}/triggers/{{trigger_id:{ID}}}"
MAX_NODE_NAME_CHARS = 200
EDIT_CONFLICTS = ("job.changed", "job.managed_by_code", "job.name_taken")

_FORMAT = choice(
    "format",
    "`yaml`: its configuration alone, as the console's form accepts it.",
    of=("json", "yaml"),
    default="json",
)
_NODE_ID = optional_id("node_id", "The only node on which it may start.")
_NODE = text("node", "The same by its name.", max_chars=MAX_NODE_NAME_CHARS)
_DELAY = seconds_as_ms(
    "delay_seconds", "It is scheduled that long from now.", low_ms=0, high_ms=MAX_DELAY_MS
)


@routes.get(
    _ALL,
    permission=Permission.VIEW,
    api=True,
    query=(*FILTER, SORT, *PAGING),
    answers=PageJson[JobJson],
)
async def list_jobs(request: web.Request) -> web.Response:
    """A page of jobs."""
    fields = query_fields(request)
    query = job_query_of(fields, sort=True)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].jobs.page(
        actor_of(request), query, cursor=cursor, limit=limit
    )
    return answer(page_view(page, job_view))


@routes.post(
    _ALL,
    permission=Permission.DEVELOP,
    api=True,
    body=NewJobJson,
    headers=(IDEMPOTENCY_KEY,),
    answers=JobRevisionJson,
    status=201,
    conflicts=EDIT_CONFLICTS,
)
async def create_job(request: web.Request) -> web.Response:
    """Add a job."""
    config = await read_json(request)
    noted: list[Problem] = []
    executor_id = take_id(config, "executor_id", noted)
    jobs, actor = request.app[SERVICES].jobs, actor_of(request)
    if noted:
        raise await jobs.refused(actor, None, config, noted=noted)
    job_id = await jobs.create(actor, executor_id, config, request_key=request_key_of(request))
    return answer({"id": job_id, "revision": 1}, status=201, location=f"{_ALL}/{job_id}")


@routes.get(
    _ONE,
    permission=Permission.VIEW,
    api=True,
    query=(_FORMAT,),
    answers=JobDetailJson,
    media_types=("application/json", "application/yaml"),
)
async def get_job(request: web.Request) -> web.Response:
    """One job, with triggers, next fires and recent runs."""
    fields = query_fields(request)
    wanted = _FORMAT.of(fields)
    raise_if_any(fields.problems)
    detail = await request.app[SERVICES].jobs.get(actor_of(request), path_id(request, "job_id"))
    if wanted == "yaml":  # what it takes to make the same job elsewhere, and nothing of its state
        text = to_yaml(detail.raw)
        return web.Response(text=text, content_type="application/yaml", charset="utf-8")
    return answer(job_detail_view(detail))


@routes.put(
    _ONE,
    permission=Permission.DEVELOP,
    api=True,
    body=JobChangeJson,
    answers=JobRevisionJson,
    conflicts=EDIT_CONFLICTS,
)
async def update_job(request: web.Request) -> web.Response:
    """Replace a job's configuration."""
    job_id = path_id(request, "job_id")
    config = await read_json(request)
    if "id" in config and taken_id(config, "id") != job_id:
        fields = Fields({}, "", [])
        fields.refuse("id", "id.differs", "This differs from the id in the address.")
        raise_if_any(fields.problems)
    noted: list[Problem] = []
    if "executor_id" in config:  # as in the request that adds one
        del config["executor_id"]
        noted.append(
            Problem(
                field="executor_id",
                code="unknown_field",
                template="A job stays with its executor. Leave this out.",
            )
        )
    revision = take_id(config, "revision", noted)
    revision = await request.app[SERVICES].jobs.update(
        actor_of(request), job_id, config, revision=revision, noted=noted
    )
    return answer({"id": job_id, "revision": revision})


@routes.delete(_ONE, permission=Permission.DEVELOP, api=True, answers=NoContent)
async def delete_job(request: web.Request) -> web.Response:
    """Delete a job; its runs stay."""
    await request.app[SERVICES].jobs.delete(actor_of(request), path_id(request, "job_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/pause",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
)
async def pause_job(request: web.Request) -> web.Response:
    """No fires until it is resumed; live runs continue."""
    await no_fields(request)
    await request.app[SERVICES].jobs.pause(actor_of(request), path_id(request, "job_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/resume",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
)
async def resume_job(request: web.Request) -> web.Response:
    """It fires again, from now on."""
    await no_fields(request)
    await request.app[SERVICES].jobs.resume(actor_of(request), path_id(request, "job_id"))
    return web.Response(status=204)


@routes.post(
    f"{_TRIGGER}/pause",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("trigger.in_error",),
)
async def pause_trigger(request: web.Request) -> web.Response:
    """This trigger does not fire until it is resumed."""
    await no_fields(request)
    await request.app[SERVICES].jobs.pause_trigger(
        actor_of(request), path_id(request, "job_id"), path_id(request, "trigger_id")
    )
    return web.Response(status=204)


@routes.post(
    f"{_TRIGGER}/resume",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("trigger.in_error",),
)
async def resume_trigger(request: web.Request) -> web.Response:
    """This trigger fires again, from now on."""
    await no_fields(request)
    await request.app[SERVICES].jobs.resume_trigger(
        actor_of(request), path_id(request, "job_id"), path_id(request, "trigger_id")
    )
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/run",
    permission=Permission.OPERATE,
    api=True,
    body=(PARAMETERS, _NODE_ID, _NODE, _DELAY),
    headers=(IDEMPOTENCY_KEY, *TRACE),
    answers=NewRunJson,
    status=202,
)
async def run_job(request: web.Request) -> web.Response:
    """Run a job now, or later, or on a node of your choice."""
    fields = await body_fields(request)
    node_id = _NODE_ID.of(fields)
    node = _NODE.of(fields) or None
    if node is not None and node_id is not None:
        fields.refuse("node", "does_not_apply", "Name the node either by its id or by its name.")
    delay_ms = _DELAY.of(fields)
    raise_if_any(fields.problems)
    run_id = await request.app[SERVICES].jobs.run_now(
        actor_of(request),
        path_id(request, "job_id"),
        parameters=parameters_of(fields.raw),
        node_id=node_id,
        node=node,
        delay_ms=delay_ms or 0,
        request_key=request_key_of(request),
        origin=Origin.API,
        trace=caller_trace_of(request),
    )
    return answer({"run_id": run_id}, status=202, location=f"/api/v1/runs/{run_id}")
