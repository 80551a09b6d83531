"""/api/v1/failures: runs that failed alike, and what people do about them."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import NewVersionJson, PageJson, answer, instant, page_view
from tickwheel_admin.api.failures.shapes import (
    CanaryRetryJson,
    CanaryRetryStartedJson,
    DifferingValueJson,
    FailureGroupDetailJson,
    FailureGroupJson,
    RunComparisonJson,
)
from tickwheel_admin.api.inputs import (
    PAGING,
    body_fields,
    no_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.domain.failures.canary import CanaryRetry
from tickwheel_admin.domain.failures.comparison import DifferingValue
from tickwheel_admin.domain.failures.group import MAX_MUTE_S, MAX_NOTES_CHARS, MAX_OWNER_CHARS
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.failures.detective import RunComparison
from tickwheel_admin.services.failures.failures import GroupDetail, GroupItem
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import (
    MAX_ID,
    choice,
    optional_id,
    optional_integer,
    required_integer,
    text,
)
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/failures"
_ID = "[0-9]{1,16}"  # a fingerprint of 53 bits
_ONE = f"{_ALL}/{{failure_id:{_ID}}}"
_STATE = choice("state", "Those that stand, or all.", of=("standing", "all"), default="standing")
_EXECUTOR = optional_id("executor_id", "Failures of this executor.")
_SECONDS = optional_integer("seconds", "Null: alarms tell of it.", low=1, high=MAX_MUTE_S)
_OWNER = text("owner", "Who looks after it; null: nobody.", max_chars=MAX_OWNER_CHARS)
_NOTES = text("notes", "What is known of it.", max_chars=MAX_NOTES_CHARS)
_VERSION = required_integer("version", "That the change is based on.", low=1, high=MAX_ID)


@routes.get(
    _ALL,
    permission=Permission.VIEW,
    api=True,
    query=(_STATE, _EXECUTOR, *PAGING),
    answers=PageJson[FailureGroupJson],
)
async def list_failures(request: web.Request) -> web.Response:
    """A page of failure groups; those that failed last come first."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    state, executor_id = _STATE.of(fields), _EXECUTOR.of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].failures.page(
        actor_of(request),
        only_standing=state == "standing",
        executor_id=executor_id,
        cursor=cursor,
        limit=limit,
    )
    return answer(page_view(page, group_view))


@routes.get(_ONE, permission=Permission.VIEW, api=True, answers=FailureGroupDetailJson)
async def get_failure(request: web.Request) -> web.Response:
    """One failure group, with its jobs and its newest runs."""
    detail = await request.app[SERVICES].failures.get(
        actor_of(request), path_id(request, "failure_id")
    )
    return answer(_detail_view(detail))


@routes.get(
    "/api/v1/runs/{run_id:[0-9]{1,18}}/why",
    permission=Permission.VIEW,
    api=True,
    answers=RunComparisonJson,
    conflicts=("run.not_failed",),
)
async def explain_run(request: web.Request) -> web.Response:
    """A failed run held against the last good one of its job."""
    found = await request.app[SERVICES].failures.why(actor_of(request), path_id(request, "run_id"))
    return answer(_comparison_view(found))


@routes.put(
    _ONE,
    permission=Permission.OPERATE,
    api=True,
    body=(_OWNER, _NOTES, _VERSION),
    answers=NewVersionJson,
    conflicts=("failure_group.changed",),
)
async def edit_failure(request: web.Request) -> web.Response:
    """Set owner and notes of a failure group."""
    fields = await body_fields(request)
    owner, notes, version = _OWNER.of(fields), _NOTES.of(fields), _VERSION.of(fields)
    raise_if_any(fields.problems)
    group_id = path_id(request, "failure_id")
    version = await request.app[SERVICES].failures.edit(
        actor_of(request), group_id, owner=owner, notes=notes, version=version
    )
    return answer({"id": group_id, "version": version})


@routes.post(
    f"{_ONE}/acknowledge",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("failure_group.acknowledged", "failure_group.resolved"),
)
async def acknowledge_failure(request: web.Request) -> web.Response:
    """Look after a failure group."""
    await no_fields(request)
    await request.app[SERVICES].failures.acknowledge(
        actor_of(request), path_id(request, "failure_id")
    )
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/mute",
    permission=Permission.OPERATE,
    api=True,
    body=(_SECONDS,),
    answers=NoContent,
    conflicts=("failure_group.resolved",),
)
async def mute_failure(request: web.Request) -> web.Response:
    """Let no alarm tell of its runs for a while."""
    fields = await body_fields(request)
    fields.require("seconds") if "seconds" not in fields.raw else None
    seconds = _SECONDS.of(fields)
    raise_if_any(fields.problems)
    await request.app[SERVICES].failures.mute(
        actor_of(request), path_id(request, "failure_id"), seconds=seconds
    )
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/resolve",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("failure_group.resolved",),
)
async def resolve_failure(request: web.Request) -> web.Response:
    """Say that a failure group is over."""
    await no_fields(request)
    await request.app[SERVICES].failures.resolve(actor_of(request), path_id(request, "failure_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/retry",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=CanaryRetryStartedJson,
    conflicts=("failure_group.retrying", "failure_group.resolved"),
)
async def retry_failure(request: web.Request) -> web.Response:
    """Retry its runs: one first, then twice as many with each wave that succeeds."""
    await no_fields(request)
    canary_id = await request.app[SERVICES].failures.retry(
        actor_of(request), path_id(request, "failure_id")
    )
    return answer({"id": canary_id})


@routes.post(
    f"{_ONE}/retry/stop",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("failure_group.not_retrying",),
)
async def stop_retry_of_failure(request: web.Request) -> web.Response:
    """Retry no further runs of it; those that were begun go on."""
    await no_fields(request)
    await request.app[SERVICES].failures.stop_retry(
        actor_of(request), path_id(request, "failure_id")
    )
    return web.Response(status=204)


def group_view(item: GroupItem) -> FailureGroupJson:
    group = item.group
    return {
        "id": group.id,
        "version": group.version,
        "state": item.state,
        "text": group.text,
        "executor_id": group.executor_id,
        "executor_name": item.executor_name,
        "runs": group.runs,
        "jobs": group.jobs,
        "since": instant(group.since),
        "last_at": instant(group.last_at),
        "first_run_id": group.first_run_id,
        "first_job_id": group.first_job_id,
        "first_job_name": item.first_job_name,
        "first_revision": group.first_revision,
        "first_node_id": group.first_node_id,
        "first_node_name": item.first_node_name,
        "last_run_id": group.last_run_id,
        "returns": group.returns,
        "owner": group.owner,
        "notes": group.notes,
        "acknowledged_at": instant(group.acknowledged_at),
        "acknowledged_by": group.acknowledged_by,
        "muted_until": instant(group.muted_until),
        "resolved_at": instant(group.resolved_at),
        "resolved_by": group.resolved_by,
    }


def _detail_view(detail: GroupDetail) -> FailureGroupDetailJson:
    return {
        **group_view(detail.item),
        "jobs_failed": [
            {
                "job_id": each.job_id,
                "job_name": detail.job_names.get(each.job_id),
                "runs": each.runs,
                "last_run_id": each.last_run_id,
                "last_at": instant(each.last_at),
                "is_over": each.is_over,
            }
            for each in detail.jobs
        ],
        "canary_retry": None if detail.canary is None else _canary_view(detail.canary),
        "newest_runs": [
            {
                "id": each.id,
                "job_id": each.job_id,
                "job_name": detail.job_names.get(each.job_id),
                "job_revision": each.job_revision,
                "node_id": each.node_id,
                "node_name": detail.node_names.get(each.node_id or 0),
                "scheduled_at": instant(each.scheduled_at),
                "ended_at": instant(each.ended_at),
            }
            for each in detail.runs
        ],
    }


def _canary_view(canary: CanaryRetry) -> CanaryRetryJson:
    return {
        "id": canary.id,
        "state": canary.state,
        "reason": canary.reason,
        "started_at": instant(canary.started_at),
        "started_by": canary.started_by,
        "stopped_by": canary.stopped_by,
        "ended_at": instant(canary.ended_at),
        "wave": canary.wave,
        "open_runs": list(canary.open_runs),
        "retried": canary.retried,
        "succeeded": canary.succeeded,
        "failed": canary.failed,
        "left_out": canary.left_out,
    }


def _comparison_view(found: RunComparison) -> RunComparisonJson:
    good, line = found.good, found.line
    return {
        "failed_run_id": found.failed.run.id,
        "good_run_id": None if good is None else good.run.id,
        "good_scheduled_at": None if good is None else instant(good.run.scheduled_at),
        "failed_revision": found.failed.run.job_revision,
        "good_revision": None if good is None else good.run.job_revision,
        "parameters": [_change_view(each) for each in found.parameters],
        "node": None if found.node is None else _change_view(found.node),
        "sdk": None if found.sdk is None else _change_view(found.sdk),
        "labels": [_change_view(each) for each in found.labels],
        "fields": list(found.fields),
        "phases": [
            {"name": each.name, "good_ms": each.good_ms, "failed_ms": each.failed_ms}
            for each in found.phases
        ],
        "line": None
        if line is None
        else {"number": line.number, "good": line.good, "failed": line.failed},
    }


def _change_view(change: DifferingValue) -> DifferingValueJson:
    return {"name": change.name, "good": change.good, "failed": change.failed}
