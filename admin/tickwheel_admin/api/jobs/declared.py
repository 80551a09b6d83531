"""/api/v1/executors/{executor_id}/declared-jobs, and the policy on them"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.api.inputs import ID, body_fields, path_id
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.job import MAX_NAME_CHARS
from tickwheel_admin.domain.jobs.declared_job import CodeJobs
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.declared.service import DeclaredItem
from tickwheel_admin.web.i18n import language_of, translate
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_EXECUTOR = f"/api/v1/executors/{{executor_id:{ID}}}"
_ALL = f"{_EXECUTOR}/declared-jobs"
_ONE = f"{_ALL}/{{name:[^/]+}}"  # percent-encoded, slashes too


@routes.get(_ALL, permission=Permission.VIEW, api=True)
async def list_declared_jobs(request: web.Request) -> web.Response:
    executor_id = path_id(request, "executor_id")
    items = await request.app[SERVICES].declared_jobs.list(actor_of(request), executor_id)
    language = language_of(request)
    return answer({"items": [_item_view(item, language) for item in items]})


@routes.post(f"{_ONE}/accept", permission=Permission.DEVELOP, api=True)
async def accept_declared_job(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("rename_from", "declared_at"))
    rename_from = fields.text("rename_from", max_chars=MAX_NAME_CHARS)
    declared_at = fields.instant("declared_at")
    raise_if_any(fields.problems)
    job_id = await request.app[SERVICES].declared_jobs.accept(
        actor_of(request),
        path_id(request, "executor_id"),
        request.match_info["name"],
        rename_from=rename_from or None,
        declared_at=declared_at,
    )
    return answer({"job_id": job_id})


@routes.post(f"{_ONE}/ignore", permission=Permission.DEVELOP, api=True)
async def ignore_declared_job(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].declared_jobs.ignore(
        actor_of(request), path_id(request, "executor_id"), request.match_info["name"]
    )
    return web.Response(status=204)


@routes.post(f"{_ONE}/release", permission=Permission.DEVELOP, api=True)
async def release_declared_job(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].declared_jobs.release(
        actor_of(request), path_id(request, "executor_id"), request.match_info["name"]
    )
    return web.Response(status=204)


@routes.put(f"{_EXECUTOR}/code-jobs", permission=Permission.ADMINISTER, api=True)
async def set_code_jobs(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("policy",))
    if not fields.has("policy"):
        fields.refuse("policy", "required", "This is required.")
    policy = fields.choice("policy", tuple(CodeJobs), default=CodeJobs.APPLY)
    raise_if_any(fields.problems)
    executor_id = path_id(request, "executor_id")
    await request.app[SERVICES].declared_jobs.set_policy(actor_of(request), executor_id, policy)
    return web.Response(status=204)


def _item_view(item: DeclaredItem, language: str) -> dict[str, Any]:
    return {
        "name": item.name,
        "state": item.state.value,
        "reason": item.reason,
        "handler": item.handler,
        "job_id": item.job_id,
        "job_name": item.job_name,
        "managed": item.managed,
        "differences": [
            {"field": each.field, "before": each.before, "after": each.after}
            for each in item.differences
        ],
        "problems": [
            {
                "field": each.field,
                "code": each.code,
                "message": translate(each.template, each.params, language),
            }
            for each in item.problems
        ],
        "declared_by": item.declared_by,
        "declared_at": instant(item.declared_at),
        "declared_now": item.declared_now,
        "renamed_from": item.renamed_from,
    }
