"""/api/v1/jobs/pause and the like: many jobs at once, by their ids or by a filter."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.inputs import (
    body_fields,
    query_fields,
    request_key_of,
)
from tickwheel_admin.api.job_queries import FILTER, job_query_of
from tickwheel_admin.api.many import cursor_of, ids_or_filter
from tickwheel_admin.api.views import answer
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.run import Origin
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.job_bulk import MAX_IDS, BulkOfJobs, Change, JobAction
from tickwheel_admin.services.jobs import JobQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import JOB_BULK
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/jobs"
_CHOSEN = ("jobs", "filter", "cursor")


@routes.get(f"{_ALL}/count", permission=Permission.VIEW, api=True)
async def count_jobs(request: web.Request) -> web.Response:
    fields = query_fields(request, FILTER)
    query = job_query_of(fields)
    raise_if_any(fields.problems)
    matching = await request.app[JOB_BULK].count(actor_of(request), query)
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
    parts = request.app[JOB_BULK].export(actor_of(request), ids, query)
    first = await anext(parts, "")
    response = web.StreamResponse(headers={"Content-Type": "application/yaml; charset=utf-8"})
    await response.prepare(request)
    await response.write(first.encode())
    async for part in parts:
        await response.write(part.encode())
    await response.write_eof()
    return response


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
    change = Change(action=action, tag=tag or None, request_key=request_key, origin=Origin.API)
    service, actor = request.app[JOB_BULK], actor_of(request)
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
