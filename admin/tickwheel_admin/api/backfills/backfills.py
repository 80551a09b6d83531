"""/api/v1/backfills, and starting one at its job."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import (
    NewIdJson,
    PageJson,
    answer,
    instant,
    json_or_text,
    page_view,
)
from tickwheel_admin.api.backfills.shapes import (
    BackfillJson,
    BackfillPreviewJson,
    FilledInstantJson,
)
from tickwheel_admin.api.inputs import (
    ID,
    IDEMPOTENCY_KEY,
    PAGING,
    PARAMETERS,
    body_fields,
    no_fields,
    page_of,
    parameters_of,
    path_id,
    query_fields,
    request_key_of,
)
from tickwheel_admin.domain.backfills.backfill import MAX_PARALLEL, FillOutcome
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.backfills.requests import BackfillPreview, BackfillRequest
from tickwheel_admin.services.backfills.service import BackfillItem, FilledInstant
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import boolean, choice, integer, member, optional_id
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/backfills"
_ONE = f"{_ALL}/{{backfill_id:{ID}}}"
_OF_JOB = f"/api/v1/jobs/{{job_id:{ID}}}/backfills"
_JOB = optional_id("job_id", "Backfills of this job.")
_EXECUTOR = optional_id("executor_id", "Backfills of this executor's jobs.")
_OUTCOME = member(
    "outcome", "Instants of which this became.", FillOutcome, default=FillOutcome.OPEN
)
_FROM = instant_input("from", "The first instant that may be filled.", required=True)
_TO = instant_input("to", "The end: the first instant that is not in it.", required=True)
_TRIGGER = optional_id("trigger_id", "Whose fires; needed where the job has several triggers.")
_ORDER = choice(
    "order", "Which come first.", of=("oldest_first", "newest_first"), default="oldest_first"
)
_PARALLEL = integer(
    "parallel", "Most runs that have not ended.", low=1, high=MAX_PARALLEL, default=1
)
_ONLY_HOLES = boolean(
    "only_holes",
    "Run what the coverage of the job calls holes: also instants whose run failed.",
    default=False,
)
_ASKED = (_FROM, _TO, _TRIGGER, _ORDER, _PARALLEL, _ONLY_HOLES, PARAMETERS)


@routes.get(
    _ALL,
    permission=Permission.VIEW,
    api=True,
    query=(_JOB, _EXECUTOR, *PAGING),
    answers=PageJson[BackfillJson],
)
async def list_backfills(request: web.Request) -> web.Response:
    """A page of backfills, newest first."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    job_id, executor_id = _JOB.of(fields), _EXECUTOR.of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].backfills.page(
        actor_of(request), job_id=job_id, executor_id=executor_id, cursor=cursor, limit=limit
    )
    return answer(page_view(page, backfill_view))


@routes.post(
    _OF_JOB,
    permission=Permission.OPERATE,
    api=True,
    body=_ASKED,
    headers=(IDEMPOTENCY_KEY,),
    answers=NewIdJson,
    status=201,
    conflicts=("backfill.too_many_open", "backfill.trigger_changed"),
)
async def start_backfill(request: web.Request) -> web.Response:
    """Run the fires of a past interval now."""
    backfill_id = await request.app[SERVICES].backfills.create(
        actor_of(request),
        path_id(request, "job_id"),
        await _asked(request),
        request_key=request_key_of(request),
    )
    return answer({"id": backfill_id}, status=201, location=f"{_ALL}/{backfill_id}")


@routes.post(
    f"{_OF_JOB}/preview",
    permission=Permission.OPERATE,
    api=True,
    body=_ASKED,
    answers=BackfillPreviewJson,
)
async def preview_backfill(request: web.Request) -> web.Response:
    """What a backfill would run. Changes nothing."""
    preview = await request.app[SERVICES].backfills.preview(
        actor_of(request), path_id(request, "job_id"), await _asked(request)
    )
    return answer(_preview_view(preview))


@routes.get(_ONE, permission=Permission.VIEW, api=True, answers=BackfillJson)
async def get_backfill(request: web.Request) -> web.Response:
    """One backfill."""
    item = await request.app[SERVICES].backfills.get(
        actor_of(request), path_id(request, "backfill_id")
    )
    return answer(backfill_view(item))


@routes.get(
    f"{_ONE}/instants",
    permission=Permission.VIEW,
    api=True,
    query=(_OUTCOME, *PAGING),
    answers=PageJson[FilledInstantJson],
)
async def list_instants(request: web.Request) -> web.Response:
    """The instants of a backfill."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    outcome = _OUTCOME.of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].backfills.instants(
        actor_of(request),
        path_id(request, "backfill_id"),
        outcome=outcome,
        cursor=cursor,
        limit=limit,
    )
    return answer(page_view(page, _instant_view))


@routes.post(
    f"{_ONE}/pause",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("backfill.ended",),
)
async def pause_backfill(request: web.Request) -> web.Response:
    """It starts no runs until it is resumed."""
    await no_fields(request)
    await request.app[SERVICES].backfills.pause(actor_of(request), path_id(request, "backfill_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/resume",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("backfill.ended",),
)
async def resume_backfill(request: web.Request) -> web.Response:
    """It starts runs again."""
    await no_fields(request)
    await request.app[SERVICES].backfills.resume(actor_of(request), path_id(request, "backfill_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/cancel",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("backfill.ended",),
)
async def cancel_backfill(request: web.Request) -> web.Response:
    """End a backfill, and cancel its runs."""
    await no_fields(request)
    await request.app[SERVICES].backfills.cancel(actor_of(request), path_id(request, "backfill_id"))
    return web.Response(status=204)


async def _asked(request: web.Request) -> BackfillRequest:
    return asked_of(await body_fields(request))


def asked_of(fields: Fields) -> BackfillRequest:
    """What a body asks for; raises InvalidInput."""
    from_at, to_at = _FROM.of(fields), _TO.of(fields)
    trigger_id, order, parallel = _TRIGGER.of(fields), _ORDER.of(fields), _PARALLEL.of(fields)
    only_holes = _ONLY_HOLES.of(fields)
    raise_if_any(fields.problems)
    return BackfillRequest(
        from_at=from_at or 0,
        to_at=to_at or 0,
        trigger_id=trigger_id,
        newest_first=order == "newest_first",
        only_holes=only_holes,
        parallel=parallel,
        parameters=parameters_of(fields.raw),
    )


def backfill_view(item: BackfillItem) -> BackfillJson:
    backfill = item.backfill
    return {
        "id": backfill.id,
        "executor_id": backfill.executor_id,
        "executor_name": item.executor_name,
        "job_id": backfill.job_id,
        "job_name": item.job_name,
        "trigger_id": backfill.trigger_id,
        "from": instant(backfill.from_at),
        "to": instant(backfill.to_at),
        "order": "newest_first" if backfill.newest_first else "oldest_first",
        "only_holes": backfill.only_holes,
        "parallel": backfill.parallel,
        "parameters": None if backfill.parameters is None else json_or_text(backfill.parameters),
        "state": backfill.state,
        "reason": backfill.reason,
        "total": backfill.total,
        "existing": backfill.existing,
        "open": backfill.open,
        "succeeded": backfill.succeeded,
        "failed": backfill.failed,
        "timed_out": backfill.timed_out,
        "lost": backfill.lost,
        "cancelled": backfill.cancelled,
        "skipped": backfill.skipped,
        "requested_by": backfill.requested_by,
        "created_at": instant(backfill.created_at),
        "ended_at": instant(backfill.ended_at),
    }


def _preview_view(preview: BackfillPreview) -> BackfillPreviewJson:
    return {
        "trigger_id": preview.trigger.trigger.id,
        "total": preview.total,
        "existing": preview.existing,
        "new": preview.new,
        "first_at": instant(preview.first_at),
        "last_at": instant(preview.last_at),
    }


def _instant_view(filled: FilledInstant) -> FilledInstantJson:
    return {
        "at": instant(filled.at),
        "run_id": filled.run_id,
        "state": None if filled.item is None else filled.item.run.state,
    }
