"""/api/v1/jobs/pause and the like: many jobs at once, named or by a filter; many new ones."""

from __future__ import annotations

from typing import Annotated, cast

from aiohttp import web
from msgspec import Meta

from tickwheel_admin.api.answers import ErrorJson, answer
from tickwheel_admin.api.inputs import (
    IDEMPOTENCY_KEY,
    MAX_ID,
    REQUIRED_KEY,
    body_fields,
    query_fields,
    request_key_of,
)
from tickwheel_admin.api.jobs.config_types import OneOfNewJobsJson
from tickwheel_admin.api.jobs.queries import FILTER, FILTER_IN_BODY, job_query_of
from tickwheel_admin.api.jobs.shapes import (
    BulkOfJobsJson,
    CreatedJobJson,
    CreatedJobsJson,
    ImportedJobsJson,
    MatchingJobsJson,
)
from tickwheel_admin.api.many import chosen, cursor_of, ids_or_filter
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
from tickwheel_admin.web.input_fields import given, names_of, optional_id, required_id, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/jobs"
MAX_CREATION_BYTES = 8 * 2**20  # of a request with new jobs
MAX_PROBLEMS = 100  # with the form of such a request; problems of its jobs are in their answers
_CHOSEN = chosen("jobs", most=MAX_IDS, filter_fields=FILTER_IN_BODY)
_EXPORTED = _CHOSEN[:2]  # an export has no steps
_TAG = text("tag", "The tag.", max_chars=1_000)
_EXECUTOR = optional_id("executor_id", "Of jobs that name none.")
_JOBS = given(
    "jobs",
    "The jobs to add.",
    Annotated[list[OneOfNewJobsJson], Meta(max_length=MAX_JOBS)],
    required=True,
)
_OF_EXECUTOR = required_id("executor_id", "The executor that gets the jobs.")


@routes.get(
    f"{_ALL}/count", permission=Permission.VIEW, api=True, query=FILTER, answers=MatchingJobsJson
)
async def count_jobs(request: web.Request) -> web.Response:
    """How many jobs match, up to 10,000."""
    fields = query_fields(request)
    query = job_query_of(fields)
    raise_if_any(fields.problems)
    matching = await request.app[SERVICES].job_bulk.count(actor_of(request), query)
    return answer({"jobs": matching.jobs, "capped": matching.capped})


@routes.post(
    f"{_ALL}/pause", permission=Permission.OPERATE, api=True, body=_CHOSEN, answers=BulkOfJobsJson
)
async def pause_jobs(request: web.Request) -> web.Response:
    """Pause many jobs."""
    return await _change(request, JobAction.PAUSE)


@routes.post(
    f"{_ALL}/resume", permission=Permission.OPERATE, api=True, body=_CHOSEN, answers=BulkOfJobsJson
)
async def resume_jobs(request: web.Request) -> web.Response:
    """Resume many jobs."""
    return await _change(request, JobAction.RESUME)


@routes.post(
    f"{_ALL}/run",
    permission=Permission.OPERATE,
    api=True,
    body=_CHOSEN,
    headers=(REQUIRED_KEY,),
    answers=BulkOfJobsJson,
)
async def run_jobs(request: web.Request) -> web.Response:
    """Run many jobs, once each."""
    return await _change(request, JobAction.RUN)


@routes.post(
    f"{_ALL}/tag",
    permission=Permission.DEVELOP,
    api=True,
    body=(*_CHOSEN, _TAG),
    answers=BulkOfJobsJson,
)
async def tag_jobs(request: web.Request) -> web.Response:
    """Add a tag to many jobs."""
    return await _change(request, JobAction.TAG)


@routes.post(
    f"{_ALL}/untag",
    permission=Permission.DEVELOP,
    api=True,
    body=(*_CHOSEN, _TAG),
    answers=BulkOfJobsJson,
)
async def untag_jobs(request: web.Request) -> web.Response:
    """Remove a tag from many jobs."""
    return await _change(request, JobAction.UNTAG)


@routes.post(
    f"{_ALL}/delete", permission=Permission.DEVELOP, api=True, body=_CHOSEN, answers=BulkOfJobsJson
)
async def delete_jobs(request: web.Request) -> web.Response:
    """Delete many jobs."""
    return await _change(request, JobAction.DELETE)


@routes.post(
    f"{_ALL}/export",
    permission=Permission.VIEW,
    api=True,
    body=_EXPORTED,
    answers=str,
    media_types=("application/yaml",),
)
async def export_jobs(request: web.Request) -> web.StreamResponse:
    """The jobs as a stream of YAML documents."""
    fields = await body_fields(request)
    wanted = _chosen(fields)
    raise_if_any(fields.problems)
    query = wanted if isinstance(wanted, JobQuery) else None
    ids = [] if isinstance(wanted, JobQuery) else wanted
    parts = request.app[SERVICES].job_bulk.export(actor_of(request), ids, query)
    first = await anext(parts, "")
    response = web.StreamResponse(headers={"Content-Type": "application/yaml; charset=utf-8"})
    await response.prepare(request)
    await response.write(first.encode())
    async for part in parts:
        await response.write(part.encode())
    await response.write_eof()
    return response


@routes.post(
    f"{_ALL}/bulk",
    permission=Permission.DEVELOP,
    api=True,
    body=(_EXECUTOR, _JOBS),
    headers=(IDEMPOTENCY_KEY,),
    answers=CreatedJobsJson,
)
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
    fields.only(names_of((_EXECUTOR, _JOBS)))
    executor_id = _EXECUTOR.of(fields)
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


def _outcome_view(outcome: int | UserError, language: str) -> CreatedJobJson:
    if isinstance(outcome, int):
        return {"id": outcome, "error": None}
    return {"id": None, "error": cast("ErrorJson", error_view(outcome, language))}


@routes.post(
    f"{_ALL}/import",
    permission=Permission.DEVELOP,
    api=True,
    query=(_OF_EXECUTOR,),
    body=str,
    body_type="application/yaml",
    answers=ImportedJobsJson,
    status=201,
    conflicts=("import.stopped",),
)
async def import_jobs(request: web.Request) -> web.Response:
    """What an export wrote, as new jobs of one executor."""
    fields = query_fields(request)
    executor_id = _OF_EXECUTOR.of(fields)
    raise_if_any(fields.problems)
    importing = JobImport(request.app[SERVICES].jobs)
    added = await importing.add(actor_of(request), executor_id, await read_yaml_body(request))
    return answer({"jobs": added}, status=201)


async def _change(request: web.Request, action: JobAction) -> web.Response:
    fields = await body_fields(request)
    wanted = _chosen(fields)
    tag = _TAG.of(fields)  # refused where the route does not declare it
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
    if isinstance(wanted, JobQuery):
        bulk = await service.matching(actor, wanted, change, cursor=cursor_of(fields))
    else:
        bulk = await service.many(actor, wanted, change)
    return answer(_view(bulk))


def _view(bulk: BulkOfJobs) -> BulkOfJobsJson:
    return {
        "done": bulk.done,
        "jobs": list(bulk.jobs),
        "skipped": dict(bulk.skipped),
        "next": bulk.next,
    }


def _chosen(fields: Fields) -> list[int] | JobQuery:
    return ids_or_filter(
        fields, "jobs", most=MAX_IDS, filter_fields=FILTER_IN_BODY, query_of=job_query_of
    )
