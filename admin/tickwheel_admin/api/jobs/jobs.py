"""/api/v1/jobs"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, page_view
from tickwheel_admin.api.inputs import (
    ID,
    body_fields,
    optional_id,
    page_of,
    parameters_of,
    path_id,
    query_fields,
    request_key_of,
    take_id,
    taken_id,
)
from tickwheel_admin.api.jobs.queries import FILTER, job_query_of
from tickwheel_admin.api.jobs.views import job_detail_view, job_view
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.yaml import to_yaml
from tickwheel_admin.services.runs.requests import MAX_DELAY_MS
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/jobs"
_ONE = f"{_ALL}/{{job_id:{ID}}}"
_TRIGGER = f"{_ONE}/triggers/{{trigger_id:{ID}}}"
MAX_NODE_NAME_CHARS = 200


@routes.get(_ALL, permission=Permission.VIEW, api=True)
async def list_jobs(request: web.Request) -> web.Response:
    fields = query_fields(request, (*FILTER, "sort", "cursor", "limit"))
    query = job_query_of(fields, sort=True)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].jobs.page(
        actor_of(request), query, cursor=cursor, limit=limit
    )
    return answer(page_view(page, job_view))


@routes.post(_ALL, permission=Permission.DEVELOP, api=True)
async def create_job(request: web.Request) -> web.Response:
    config = await read_json(request)
    noted: list[Problem] = []
    executor_id = take_id(config, "executor_id", noted)
    jobs, actor = request.app[SERVICES].jobs, actor_of(request)
    if noted:
        raise await jobs.refused(actor, None, config, noted=noted)
    job_id = await jobs.create(actor, executor_id, config, request_key=request_key_of(request))
    return answer({"id": job_id, "revision": 1}, status=201, location=f"{_ALL}/{job_id}")


@routes.get(_ONE, permission=Permission.VIEW, api=True)
async def get_job(request: web.Request) -> web.Response:
    fields = query_fields(request, ("format",))
    wanted = fields.choice("format", ("json", "yaml"), default="json")
    raise_if_any(fields.problems)
    detail = await request.app[SERVICES].jobs.get(actor_of(request), path_id(request, "job_id"))
    if wanted == "yaml":  # what it takes to make the same job elsewhere, and nothing of its state
        text = to_yaml(job_to_raw(detail.item.job.config))
        return web.Response(text=text, content_type="application/yaml", charset="utf-8")
    return answer(job_detail_view(detail))


@routes.put(_ONE, permission=Permission.DEVELOP, api=True)
async def update_job(request: web.Request) -> web.Response:
    job_id = path_id(request, "job_id")
    config = await read_json(request)
    if "id" in config and taken_id(config, "id") != job_id:
        fields = Fields({}, "", [])
        fields.refuse("id", "id.differs", "This differs from the id in the address.")
        raise_if_any(fields.problems)
    noted: list[Problem] = []
    revision = take_id(config, "revision", noted)
    revision = await request.app[SERVICES].jobs.update(
        actor_of(request), job_id, config, revision=revision, noted=noted
    )
    return answer({"id": job_id, "revision": revision})


@routes.delete(_ONE, permission=Permission.DEVELOP, api=True)
async def delete_job(request: web.Request) -> web.Response:
    await request.app[SERVICES].jobs.delete(actor_of(request), path_id(request, "job_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/pause", permission=Permission.OPERATE, api=True)
async def pause_job(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].jobs.pause(actor_of(request), path_id(request, "job_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/resume", permission=Permission.OPERATE, api=True)
async def resume_job(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].jobs.resume(actor_of(request), path_id(request, "job_id"))
    return web.Response(status=204)


@routes.post(f"{_TRIGGER}/pause", permission=Permission.OPERATE, api=True)
async def pause_trigger(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].jobs.pause_trigger(
        actor_of(request), path_id(request, "job_id"), path_id(request, "trigger_id")
    )
    return web.Response(status=204)


@routes.post(f"{_TRIGGER}/resume", permission=Permission.OPERATE, api=True)
async def resume_trigger(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].jobs.resume_trigger(
        actor_of(request), path_id(request, "job_id"), path_id(request, "trigger_id")
    )
    return web.Response(status=204)


@routes.post(f"{_ONE}/run", permission=Permission.OPERATE, api=True)
async def run_job(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("parameters", "node_id", "node", "delay_seconds"))
    node_id = optional_id(fields, "node_id")
    node = fields.text("node", max_chars=MAX_NODE_NAME_CHARS) or None
    if node is not None and node_id is not None:
        fields.refuse("node", "does_not_apply", "Name the node either by its id or by its name.")
    delay_ms = fields.seconds_as_ms("delay_seconds", low_ms=0, high_ms=MAX_DELAY_MS)
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
    )
    return answer({"run_id": run_id}, status=202, location=f"/api/v1/runs/{run_id}")
