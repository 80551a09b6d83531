"""/api/v1/jobs/pause and the like: many jobs at once, named or by a filter; many new ones."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import (
    MAX_ID,
    body_fields,
    optional_id,
    query_fields,
    request_key_of,
)
from tickwheel_admin.api.jobs.queries import FILTER, job_query_of
from tickwheel_admin.api.many import cursor_of, ids_or_filter
from tickwheel_admin.domain.errors import InvalidInput, UserError
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.bulk import MAX_IDS, BulkOfJobs, JobAction, JobChange
from tickwheel_admin.services.jobs.creation import MAX_JOBS, NewJob
from tickwheel_admin.services.jobs.imports import JobImport
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.web.body import read_json, read_yaml_body
from tickwheel_admin.web.errors import error_view
from tickwheel_admin.web.i18n import language_of
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/jobs"
MAX_CREATION_BYTES = 8 * 2**20  # of a request with new jobs
MAX_PROBLEMS = 100  # with the form of such a request; problems of its jobs are in their answers
_CHOSEN = ("jobs", "filter", "cursor")


@routes.get(f"{_ALL}/count", permission=Permission.VIEW, api=True)
async def count_jobs(request: web.Request) -> web.Response:
    fields = query_fields(request, FILTER)
    query = job_query_of(fields)
    raise_if_any(fields.problems)
    matching = await request.app[SERVICES].job_bulk.count(actor_of(request), query)
    return answer({"jobs": matching.jobs, "capped": matching.capped})


@routes.post(f"{_ALL}/pause", permission=Permission.OPERATE, api=True)
async def pause_jobs(request: web.Request) -> web.Response:
    return await _change(request, JobAction.PAUSE)


@routes.post(f"{_ALL}/resume", permission=Permission.OPERATE, api=True)
async def resume_jobs(request: web.Request) -> web.Response:
    return await _change(request, JobAction.RESUME)


@routes.post(f"{_ALL}/run", permission=Permission.OPERATE, api=True)
async def run_jobs(request: web.Request) -> web.Response:
    return await _change(request, JobAction.RUN)


@routes.post(f"{_ALL}/tag", permission=Permission.DEVELOP, api=True)
async def tag_jobs(request: web.Request) -> web.Response:
    return await _change(request, JobAction.TAG, "tag")


@routes.post(f"{_ALL}/untag", permission=Permission.DEVELOP, api=True)
async def untag_jobs(request: web.Request) -> web.Response:
    return await _change(request, JobAction.UNTAG, "tag")


@routes.post(f"{_ALL}/delete", permission=Permission.DEVELOP, api=True)
async def delete_jobs(request: web.Request) -> web.Response:
    return await _change(request, JobAction.DELETE)


@routes.post(f"{_ALL}/export", permission=Permission.VIEW, api=True)
async def export_jobs(request: web.Request) -> web.StreamResponse:
    """The jobs as a stream of YAML documents."""
    fields = await body_fields(request, ("jobs", "filter"))
    chosen = _chosen(fields)
    raise_if_any(fields.problems)
    query = chosen if isinstance(chosen, JobQuery) else None
    ids = [] if isinstance(chosen, JobQuery) else chosen
    parts = request.app[SERVICES].job_bulk.export(actor_of(request), ids, query)
    first = await anext(parts, "")
    response = web.StreamResponse(headers={"Content-Type": "application/yaml; charset=utf-8"})
    await response.prepare(request)
    await response.write(first.encode())
    async for part in parts:
        await response.write(part.encode())
    await response.write_eof()
    return response


@routes.post(f"{_ALL}/bulk", permission=Permission.DEVELOP, api=True)
async def create_jobs(request: web.Request) -> web.Response:
    """Add jobs, each with an answer of its own."""
    try:
        body = await read_json(request, most=MAX_CREATION_BYTES)
    except web.HTTPRequestEntityTooLarge:
        raise InvalidInput.one(
            "jobs",
            "too_large",
            "Together, jobs may be up to %(limit)s MiB; send them in several requests.",
            limit=MAX_CREATION_BYTES // 2**20,
        ) from None
    fields = Fields(body, "", [])
    fields.only(("executor_id", "jobs"))
    executor_id = optional_id(fields, "executor_id")
    new = _new_jobs(fields, executor_id)
    raise_if_any(fields.problems)
    outcomes = await request.app[SERVICES].job_creation.create_many(
        actor_of(request), new, request_key=request_key_of(request)
    )
    language = language_of(request)
    created = sum(isinstance(outcome, int) for outcome in outcomes)
    return answer(
        {
            "created": created,
            "failed": len(outcomes) - created,
            "jobs": [_outcome_view(outcome, language) for outcome in outcomes],
        }
    )


def _new_jobs(fields: Fields, executor_id: int | None) -> list[NewJob]:
    value = fields.raw.get("jobs")
    if not isinstance(value, list):
        fields.refuse("jobs", "required", "This must be a list of jobs.")
        return []
    new = []
    for index, each in enumerate(value[: MAX_JOBS + 1]):
        raw = dict(each) if isinstance(each, dict) else {}
        owner = raw.pop("executor_id", executor_id)
        if not isinstance(each, dict):
            fields.refuse(f"jobs[{index}]", "wrong_type", "This must be a JSON object.")
        elif type(owner) is not int or not 1 <= owner <= MAX_ID:
            fields.refuse(f"jobs[{index}].executor_id", "required", "This is required.")
        else:
            new.append(NewJob(executor_id=owner, raw=raw))
        if len(fields.problems) >= MAX_PROBLEMS:
            break
    return new


def _outcome_view(outcome: int | UserError, language: str) -> dict[str, Any]:
    if isinstance(outcome, int):
        return {"id": outcome, "error": None}
    return {"id": None, "error": error_view(outcome, language)}


@routes.post(f"{_ALL}/import", permission=Permission.DEVELOP, api=True)
async def import_jobs(request: web.Request) -> web.Response:
    """What an export wrote, as new jobs of one executor."""
    fields = query_fields(request, ("executor_id",))
    if not fields.has("executor_id"):
        fields.refuse("executor_id", "required", "This is required.")
    executor_id = fields.integer("executor_id", low=1, high=MAX_ID, default=1)
    raise_if_any(fields.problems)
    importing = JobImport(request.app[SERVICES].jobs)
    added = await importing.add(actor_of(request), executor_id, await read_yaml_body(request))
    return answer({"jobs": added}, status=201)


async def _change(request: web.Request, action: JobAction, *more: str) -> web.Response:
    fields = await body_fields(request, (*_CHOSEN, *more))
    chosen = _chosen(fields)
    tag = fields.text("tag", max_chars=1_000) if "tag" in more else ""
    raise_if_any(fields.problems)
    request_key = request_key_of(request) or ""
    if action is JobAction.RUN and not request_key:
        raise InvalidInput.one(
            "Idempotency-Key",
            "required",
            "Send a key, so that many runs are not started twice when the request is repeated.",
        )
    change = JobChange(action=action, tag=tag or None, request_key=request_key, origin=Origin.API)
    service, actor = request.app[SERVICES].job_bulk, actor_of(request)
    if isinstance(chosen, JobQuery):
        bulk = await service.matching(actor, chosen, change, cursor=cursor_of(fields))
    else:
        bulk = await service.many(actor, chosen, change)
    return answer(_view(bulk))


def _view(bulk: BulkOfJobs) -> dict[str, Any]:
    return {
        "done": bulk.done,
        "jobs": list(bulk.jobs),
        "skipped": dict(bulk.skipped),
        "next": bulk.next,
    }


def _chosen(fields: Fields) -> list[int] | JobQuery:
    return ids_or_filter(fields, "jobs", most=MAX_IDS, filter_fields=FILTER, query_of=job_query_of)
