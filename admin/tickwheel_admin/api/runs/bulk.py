"""/api/v1/runs/cancel and /api/v1/runs/retry: many runs at once, by their ids or by a filter."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import (
    PARAMETERS,
    REQUIRED_KEY,
    body_fields,
    parameters_of,
    request_key_of,
)
from tickwheel_admin.api.many import chosen, cursor_of, ids_or_filter
from tickwheel_admin.api.runs.queries import FILTER_IN_BODY, REVISION, run_query_of
from tickwheel_admin.api.runs.runs import FAILED_SHARDS_ONLY
from tickwheel_admin.api.runs.shapes import BulkJson
from tickwheel_admin.api.runs.views import bulk_view
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.runs.bulk import MAX_IDS
from tickwheel_admin.services.runs.service import RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import boolean
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_CHOSEN = chosen("runs", most=MAX_IDS, filter_fields=FILTER_IN_BODY)
_INCLUDE_RETRIED = boolean(
    "include_retried", "Also runs with a retry that has succeeded or goes on."
)


@routes.post(
    "/api/v1/runs/cancel",
    permission=Permission.OPERATE,
    api=True,
    body=_CHOSEN,
    answers=BulkJson,
)
async def cancel_runs(request: web.Request) -> web.Response:
    """Stop many runs."""
    fields = await body_fields(request)
    wanted = _chosen(fields)
    raise_if_any(fields.problems)
    service, actor = request.app[SERVICES].runs, actor_of(request)
    if isinstance(wanted, RunQuery):
        bulk = await service.cancel_matching(actor, wanted, cursor=cursor_of(fields))
    else:
        bulk = await service.cancel_many(actor, wanted)
    return answer(bulk_view(bulk))


@routes.post(
    "/api/v1/runs/retry",
    permission=Permission.OPERATE,
    api=True,
    body=(*_CHOSEN, PARAMETERS, FAILED_SHARDS_ONLY, REVISION, _INCLUDE_RETRIED),
    headers=(REQUIRED_KEY,),
    answers=BulkJson,
)
async def retry_runs(request: web.Request) -> web.Response:
    """Retry many runs."""
    fields = await body_fields(request)
    wanted = _chosen(fields)
    failed_shards_only = FAILED_SHARDS_ONLY.of(fields)
    revision = REVISION.of(fields)
    include_retried = _INCLUDE_RETRIED.of(fields)
    raise_if_any(fields.problems)
    request_key = request_key_of(request)
    if request_key is None:
        raise InvalidInput.one(
            "Idempotency-Key",
            "required",
            "Send a key, so that many runs are not started twice when the request is repeated.",
        )
    service, actor = request.app[SERVICES].runs, actor_of(request)
    parameters = parameters_of(fields.raw)
    if isinstance(wanted, RunQuery):
        bulk = await service.retry_matching(
            actor,
            wanted,
            request_key=request_key,
            cursor=cursor_of(fields),
            parameters=parameters,
            failed_shards_only=failed_shards_only,
            revision=revision,
            include_retried=include_retried,
        )
    else:
        bulk = await service.retry_many(
            actor,
            wanted,
            request_key=request_key,
            parameters=parameters,
            failed_shards_only=failed_shards_only,
            revision=revision,
            include_retried=include_retried,
        )
    return answer(bulk_view(bulk))


def _chosen(fields: Fields) -> list[int] | RunQuery:
    return ids_or_filter(
        fields, "runs", most=MAX_IDS, filter_fields=FILTER_IN_BODY, query_of=run_query_of
    )
