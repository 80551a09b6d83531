"""/api/v1/runs"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, page_view
from tickwheel_admin.api.inputs import (
    ID,
    body_fields,
    page_of,
    parameters_of,
    path_id,
    query_fields,
    request_key_of,
)
from tickwheel_admin.api.runs.queries import FILTER, revision_of, run_query_of
from tickwheel_admin.api.runs.views import log_view, matching_view, run_detail_view, run_view
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.script import script_to_raw
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.i18n import language_of
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/runs"
_ONE = f"{_ALL}/{{run_id:{ID}}}"
MAX_LOG_LINES = 5_000
MAX_SEQ = 2**31 - 1


@routes.get(_ALL, permission=Permission.VIEW, api=True)
async def list_runs(request: web.Request) -> web.Response:
    fields = query_fields(request, (*FILTER, "cursor", "limit"))
    query = run_query_of(fields)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].runs.page(
        actor_of(request), query, cursor=cursor, limit=limit
    )
    language = language_of(request)
    return answer(page_view(page, lambda item: run_view(item, language)))


@routes.get(f"{_ALL}/count", permission=Permission.VIEW, api=True)
async def count_runs(request: web.Request) -> web.Response:
    fields = query_fields(request, FILTER)
    query = run_query_of(fields)
    raise_if_any(fields.problems)
    return answer(
        matching_view(await request.app[SERVICES].runs.count_matching(actor_of(request), query))
    )


@routes.get(_ONE, permission=Permission.VIEW, api=True)
async def get_run(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].runs.get(actor_of(request), path_id(request, "run_id"))
    return answer(run_detail_view(detail, language_of(request)))


@routes.get(f"{_ONE}/script", permission=Permission.VIEW, api=True)
async def get_script(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].runs.get(actor_of(request), path_id(request, "run_id"))
    script = script_to_raw(detail.config.script)
    return answer({"script": script, "failing_line": detail.failing_line})


@routes.post(f"{_ONE}/cancel", permission=Permission.OPERATE, api=True)
async def cancel_run(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    run_id = path_id(request, "run_id")
    await request.app[SERVICES].runs.cancel(actor_of(request), run_id)
    # Accepted, not done: the node still has to stop the attempt.
    return answer({"run_id": run_id}, status=202, location=f"{_ALL}/{run_id}")


@routes.post(f"{_ONE}/release", permission=Permission.OPERATE, api=True)
async def release_run(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].runs.release(actor_of(request), path_id(request, "run_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/retry", permission=Permission.OPERATE, api=True)
async def retry_run(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("parameters", "failed_shards_only", "revision"))
    failed_shards_only = fields.boolean("failed_shards_only", default=False)
    revision = revision_of(fields)
    raise_if_any(fields.problems)
    run_id = await request.app[SERVICES].runs.retry(
        actor_of(request),
        path_id(request, "run_id"),
        parameters=parameters_of(fields.raw),
        request_key=request_key_of(request),
        failed_shards_only=failed_shards_only,
        revision=revision,
    )
    return answer({"run_id": run_id}, status=202, location=f"{_ALL}/{run_id}")


@routes.get(f"{_ONE}/log", permission=Permission.VIEW, api=True)
async def get_log(request: web.Request) -> web.Response:
    fields = query_fields(request, ("attempt", "after", "limit"))
    attempt = fields.integer("attempt", low=1, high=MAX_SEQ, default=0)
    after = fields.integer("after", low=0, high=MAX_SEQ, default=0)
    limit = fields.integer("limit", low=1, high=MAX_LOG_LINES, default=1_000)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].runs.log(
        actor_of(request),
        path_id(request, "run_id"),
        attempt=attempt or None,
        after=after,
        limit=limit,
    )
    return answer(log_view(page))
