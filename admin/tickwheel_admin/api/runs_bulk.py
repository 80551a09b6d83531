"""/api/v1/runs/cancel and /api/v1/runs/retry: many runs at once, by their ids or by a filter."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from tickwheel_admin.api.inputs import (
    MAX_CURSOR_CHARS,
    MAX_ID,
    body_fields,
    parameters_of,
    request_key_of,
)
from tickwheel_admin.api.run_queries import FILTER, run_query_of
from tickwheel_admin.api.views import answer, bulk_view
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.run_bulk import MAX_IDS
from tickwheel_admin.services.runs import RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import RUNS
from tickwheel_admin.web.routes import Routes

routes = Routes()

_CHOSEN = ("runs", "filter", "cursor")


@routes.post("/api/v1/runs/cancel", permission=Permission.OPERATE, api=True)
async def cancel_runs(request: web.Request) -> web.Response:
    fields = await body_fields(request, _CHOSEN)
    chosen = _chosen(fields)
    raise_if_any(fields.problems)
    service, actor = request.app[RUNS], actor_of(request)
    if isinstance(chosen, RunQuery):
        bulk = await service.cancel_matching(actor, chosen, cursor=_cursor(fields))
    else:
        bulk = await service.cancel_many(actor, chosen)
    return answer(bulk_view(bulk))


@routes.post("/api/v1/runs/retry", permission=Permission.OPERATE, api=True)
async def retry_runs(request: web.Request) -> web.Response:
    fields = await body_fields(request, (*_CHOSEN, "parameters", "failed_shards_only"))
    chosen = _chosen(fields)
    failed_shards_only = fields.boolean("failed_shards_only", default=False)
    raise_if_any(fields.problems)
    request_key = request_key_of(request)
    if request_key is None:
        raise InvalidInput.one(
            "Idempotency-Key",
            "required",
            "Send a key, so that many runs are not started twice when the request is repeated.",
        )
    service, actor = request.app[RUNS], actor_of(request)
    parameters = parameters_of(fields.raw)
    if isinstance(chosen, RunQuery):
        bulk = await service.retry_matching(
            actor,
            chosen,
            request_key=request_key,
            cursor=_cursor(fields),
            parameters=parameters,
            failed_shards_only=failed_shards_only,
        )
    else:
        bulk = await service.retry_many(
            actor,
            chosen,
            request_key=request_key,
            parameters=parameters,
            failed_shards_only=failed_shards_only,
        )
    return answer(bulk_view(bulk))


def _chosen(fields: Fields) -> list[int] | RunQuery:
    """The runs that are named, or the filter they match; exactly one of the two."""
    if fields.has("runs") == fields.has("filter"):
        fields.refuse("runs", "required", "Give either “runs”, a list of ids, or a “filter”.")
        return []
    if fields.has("runs"):
        if fields.has("cursor"):
            fields.refuse("cursor", "does_not_apply", "A list of ids is done in one step.")
        return _ids(fields)
    narrowed = Fields(fields.raw["filter"], "filter", fields.problems)
    narrowed.only(FILTER)
    return run_query_of(narrowed)


def _ids(fields: Fields) -> list[int]:
    value = fields.raw["runs"]
    if not isinstance(value, Sequence) or isinstance(value, str):
        fields.refuse("runs", "wrong_type", "This must be a list of ids.")
        return []
    if not 1 <= len(value) <= MAX_IDS:
        fields.refuse(
            "runs", "out_of_range", "Name 1 to %(limit)s runs at once.", limit=f"{MAX_IDS:,}"
        )
        return []
    ids = [each for each in value if type(each) is int and 1 <= each <= MAX_ID]
    if len(ids) < len(value):
        fields.refuse("runs", "wrong_type", "This must be a list of ids.")
    return ids


def _cursor(fields: Fields) -> str | None:
    if not fields.has("cursor"):
        return None
    cursor = str(fields.raw["cursor"])
    if len(cursor) > MAX_CURSOR_CHARS:
        raise InvalidInput.one("cursor", "cursor.invalid", "This is not a cursor of this list.")
    return cursor
