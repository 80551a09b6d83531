"""/api/v1/executors/{executor_id}/declared-jobs, and the policy on them"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import ItemsJson, answer
from tickwheel_admin.api.answers import instant as told_instant
from tickwheel_admin.api.inputs import ID, body_fields, no_fields, path_id
from tickwheel_admin.api.jobs.shapes import AcceptedJson, DeclaredJobJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.job import MAX_NAME_CHARS
from tickwheel_admin.domain.jobs.declared_job import CodeJobs
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.declared.service import DeclaredItem
from tickwheel_admin.web.i18n import language_of, translate
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import instant, member, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_EXECUTOR = f"/api/v1/executors/{{executor_id:{ID}}}"
_ALL = f"{_EXECUTOR}/declared-jobs"
_ONE = f"{_ALL}/{{name:[^/]+}}"  # percent-encoded, slashes too
_RENAME_FROM = text(
    "rename_from", "The job that keeps its runs under the new name.", max_chars=MAX_NAME_CHARS
)
_DECLARED_AT = instant("declared_at", "As read: it is refused if it was declared anew since.")
_POLICY = member("policy", "The policy.", CodeJobs, default=CodeJobs.APPLY, required=True)


@routes.get(_ALL, permission=Permission.VIEW, api=True, answers=ItemsJson[DeclaredJobJson])
async def list_declared_jobs(request: web.Request) -> web.Response:
    """Jobs that nodes of an executor declare in code, and the state of each."""
    executor_id = path_id(request, "executor_id")
    items = await request.app[SERVICES].declared_jobs.list(actor_of(request), executor_id)
    language = language_of(request)
    return answer({"items": [_item_view(item, language) for item in items]})


@routes.post(
    f"{_ONE}/accept",
    permission=Permission.DEVELOP,
    api=True,
    body=(_RENAME_FROM, _DECLARED_AT),
    answers=AcceptedJson,
    conflicts=(
        "declared.applied",
        "declared.changed",
        "executor.other_protocol",
        "job.name_taken",
    ),
)
async def accept_declared_job(request: web.Request) -> web.Response:
    """Make the job as code declares it."""
    fields = await body_fields(request)
    rename_from, declared_at = _RENAME_FROM.of(fields), _DECLARED_AT.of(fields)
    raise_if_any(fields.problems)
    job_id = await request.app[SERVICES].declared_jobs.accept(
        actor_of(request),
        path_id(request, "executor_id"),
        request.match_info["name"],
        rename_from=rename_from or None,
        declared_at=declared_at,
    )
    return answer({"job_id": job_id})


@routes.post(
    f"{_ONE}/ignore",
    permission=Permission.DEVELOP,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("declared.applied", "executor.other_protocol"),
)
async def ignore_declared_job(request: web.Request) -> web.Response:
    """Do not make the job that code declares."""
    await no_fields(request)
    await request.app[SERVICES].declared_jobs.ignore(
        actor_of(request), path_id(request, "executor_id"), request.match_info["name"]
    )
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/release",
    permission=Permission.DEVELOP,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("declared.not_managed", "executor.other_protocol"),
)
async def release_declared_job(request: web.Request) -> web.Response:
    """Let users edit the job; code no longer manages it."""
    await no_fields(request)
    await request.app[SERVICES].declared_jobs.release(
        actor_of(request), path_id(request, "executor_id"), request.match_info["name"]
    )
    return web.Response(status=204)


@routes.put(
    f"{_EXECUTOR}/code-jobs",
    permission=Permission.ADMINISTER,
    api=True,
    body=(_POLICY,),
    answers=NoContent,
    conflicts=("executor.other_protocol",),
)
async def set_code_jobs(request: web.Request) -> web.Response:
    """Set the policy for declared jobs of an executor."""
    fields = await body_fields(request)
    policy = _POLICY.of(fields)
    raise_if_any(fields.problems)
    executor_id = path_id(request, "executor_id")
    await request.app[SERVICES].declared_jobs.set_policy(actor_of(request), executor_id, policy)
    return web.Response(status=204)


def _item_view(item: DeclaredItem, language: str) -> DeclaredJobJson:
    return {
        "name": item.name,
        "state": item.state,
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
        "declared_at": told_instant(item.declared_at),
        "declared_now": item.declared_now,
        "renamed_from": item.renamed_from,
    }
