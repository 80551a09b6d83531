"""/api/v1/executors"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import ItemsJson, answer
from tickwheel_admin.api.executors.shapes import ExecutorDetailJson, ExecutorJson, NewExecutorJson
from tickwheel_admin.api.executors.views import (
    executor_detail_view,
    executor_view,
    new_executor_view,
)
from tickwheel_admin.api.executors.xxl_job import XXL_FIELDS, read_xxl_fields, xxl_view
from tickwheel_admin.api.inputs import ID, body_fields, no_fields, path_id, query_fields
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.xxl_addresses import MAX_ADDRESS_CHARS
from tickwheel_admin.domain.executors.xxl_job import normal_address
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.service import MAX_OVERLAP_SECONDS
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import (
    boolean,
    choice,
    given,
    integer,
    member,
    object_type,
    text,
)
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/executors"
_ONE = f"{_ALL}/{{executor_id:{ID}}}"
_NAME = text("name", "Unique.", max_chars=100, required=True)
_DESCRIPTION = text("description", "For people.", max_chars=1_000)
_PROTOCOL = member("protocol", "It never changes.", Protocol, default=Protocol.TICKWHEEL)
_XXL_JOB = given(
    "xxl_job", "With the protocol `xxl_job`.", object_type("XxlExecutorFields", XXL_FIELDS)
)
_ADDRESS = text("address", "Of a process that is gone.", max_chars=MAX_ADDRESS_CHARS, required=True)
_OVERLAP = integer(
    "overlap_seconds",
    "So long the old token works, too.",
    low=0,
    high=MAX_OVERLAP_SECONDS,
    default=0,
)
_WITH_JOBS = choice("with_jobs", "Delete its jobs, too.", of=("true", "false"), default="false")
_ALLOWED = boolean("allowed", "Whether its jobs may have scripts.", required=True)
_XXL_CONFLICTS = (
    "executor.address_in_use",
    "executor.app_name_taken",
    "executor.name_taken",
    "executor.other_protocol",
    "secret_key.missing",
)


@routes.get(_ALL, permission=Permission.VIEW, api=True, answers=ItemsJson[ExecutorJson])
async def list_executors(request: web.Request) -> web.Response:
    """Every executor that you may see, by name."""
    items = await request.app[SERVICES].executors.list(actor_of(request))
    return answer({"items": [executor_view(item) for item in items]})


@routes.post(
    _ALL,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=(_NAME, _DESCRIPTION, _PROTOCOL, _XXL_JOB),
    answers=NewExecutorJson,
    status=201,
    conflicts=_XXL_CONFLICTS,
)
async def create_executor(request: web.Request) -> web.Response:
    """Add an executor; the answer contains its token, only this once."""
    fields = await body_fields(request)
    name, description = _NAME.of(fields), _DESCRIPTION.of(fields)
    protocol = _PROTOCOL.of(fields)
    if protocol is Protocol.XXL_JOB:
        return await _create_xxl(request, fields, name=name, description=description)
    if fields.has("xxl_job"):
        fields.refuse(
            "xxl_job", "does_not_apply", "This is only for executors of the protocol “xxl_job”."
        )
    raise_if_any(fields.problems)
    new = await request.app[SERVICES].executors.create(
        actor_of(request), name=name, description=description
    )
    return answer(new_executor_view(new), status=201, location=f"{_ALL}/{new.id}")


async def _create_xxl(
    request: web.Request, fields: Fields, *, name: str, description: str
) -> web.Response:
    given = read_xxl_fields(Fields(fields.raw.get("xxl_job"), "xxl_job", fields.problems))
    raise_if_any(fields.problems)
    new_id = await request.app[SERVICES].xxl_executors.create(
        actor_of(request),
        name=name,
        description=description,
        app_name=given.app_name or "",
        token=given.token or "",
        addresses=given.addresses,
    )
    made = {"id": new_id, "name": name, "protocol": Protocol.XXL_JOB.value}
    return answer(made, status=201, location=f"{_ALL}/{new_id}")


@routes.get(_ONE, permission=Permission.VIEW, api=True, answers=ExecutorDetailJson)
async def get_executor(request: web.Request) -> web.Response:
    """One executor, with nodes and handlers."""
    executor_id = path_id(request, "executor_id")
    services, actor = request.app[SERVICES], actor_of(request)
    detail = await services.executors.get(actor, executor_id)
    view = executor_detail_view(detail)
    if detail.item.protocol is Protocol.XXL_JOB:
        view["xxl_job"] = xxl_view(await services.xxl_executors.get(actor, executor_id))
    return answer(view)


@routes.put(
    f"{_ONE}/xxl-job",
    permission=Permission.ADMINISTER,
    api=True,
    body=XXL_FIELDS,
    answers=NoContent,
    conflicts=_XXL_CONFLICTS,
)
async def change_xxl_executor(request: web.Request) -> web.Response:
    """Change what an executor of XXL-JOB's protocol has; what is left out stays."""
    body = Fields(await read_json(request), "", [])
    given = read_xxl_fields(body)
    raise_if_any(body.problems)
    await request.app[SERVICES].xxl_executors.change(
        actor_of(request),
        path_id(request, "executor_id"),
        app_name=given.app_name,
        token=given.token,
        addresses=given.addresses,
        registers=given.registers,
    )
    return web.Response(status=204)


@routes.delete(
    f"{_ONE}/addresses",
    permission=Permission.ADMINISTER,
    api=True,
    query=(_ADDRESS,),
    answers=NoContent,
    conflicts=("executor.address_in_use", "executor.other_protocol"),
)
async def remove_address(request: web.Request) -> web.Response:
    """Forget the address of a process that is gone."""
    fields = query_fields(request)
    address = _ADDRESS.of(fields)
    raise_if_any(fields.problems)
    await request.app[SERVICES].xxl_executors.remove_address(
        actor_of(request), path_id(request, "executor_id"), normal_address(address) or address
    )
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/token",
    permission=Permission.ADMINISTER,
    api=True,
    body=(_OVERLAP,),
    answers=NewExecutorJson,
    conflicts=("executor.other_protocol",),
)
async def rotate_token(request: web.Request) -> web.Response:
    """Replace the token; the old one stops working at once, or after `overlap_seconds`."""
    fields = await body_fields(request)
    overlap = _OVERLAP.of(fields)
    raise_if_any(fields.problems)
    executor_id = path_id(request, "executor_id")
    new = await request.app[SERVICES].executors.rotate_token(
        actor_of(request), executor_id, overlap_seconds=overlap
    )
    return answer(new_executor_view(new))


@routes.delete(
    f"{_ONE}/old-token",
    permission=Permission.ADMINISTER,
    api=True,
    answers=NoContent,
    conflicts=("executor.other_protocol",),
)
async def revoke_old_token(request: web.Request) -> web.Response:
    """End the overlap now."""
    executor_id = path_id(request, "executor_id")
    await request.app[SERVICES].executors.revoke_old_token(actor_of(request), executor_id)
    return web.Response(status=204)


@routes.delete(
    _ONE,
    permission=Permission.ADMINISTER,
    api=True,
    query=(_WITH_JOBS,),
    answers=NoContent,
    conflicts=("executor.has_jobs",),
)
async def delete_executor(request: web.Request) -> web.Response:
    """Delete an executor without jobs, or with its jobs."""
    fields = query_fields(request)
    with_jobs = _WITH_JOBS.of(fields) == "true"
    raise_if_any(fields.problems)
    executor_id = path_id(request, "executor_id")
    await request.app[SERVICES].executors.delete(
        actor_of(request), executor_id, with_jobs=with_jobs
    )
    return web.Response(status=204)


@routes.post(f"{_ONE}/pause", permission=Permission.OPERATE, api=True, body=(), answers=NoContent)
async def pause_executor(request: web.Request) -> web.Response:
    """None of its triggers fires until it is resumed."""
    await no_fields(request)
    await request.app[SERVICES].executors.pause(actor_of(request), path_id(request, "executor_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/resume", permission=Permission.OPERATE, api=True, body=(), answers=NoContent)
async def resume_executor(request: web.Request) -> web.Response:
    """Its triggers fire again, from now on."""
    await no_fields(request)
    await request.app[SERVICES].executors.resume(actor_of(request), path_id(request, "executor_id"))
    return web.Response(status=204)


@routes.put(
    f"{_ONE}/scripts",
    permission=Permission.ADMINISTER,
    api=True,
    body=(_ALLOWED,),
    answers=NoContent,
)
async def set_scripts(request: web.Request) -> web.Response:
    """Allow scripts, or forbid them."""
    fields = await body_fields(request)
    allowed = _ALLOWED.of(fields)
    raise_if_any(fields.problems)
    await request.app[SERVICES].executors.set_scripts(
        actor_of(request), path_id(request, "executor_id"), allowed=allowed
    )
    return web.Response(status=204)
