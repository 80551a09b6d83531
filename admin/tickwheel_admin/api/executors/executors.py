"""/api/v1/executors"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.executors.views import (
    executor_detail_view,
    executor_view,
    new_executor_view,
)
from tickwheel_admin.api.executors.xxl_job import read_xxl_fields, xxl_view
from tickwheel_admin.api.inputs import ID, body_fields, path_id, query_fields
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.xxl_addresses import MAX_ADDRESS_CHARS
from tickwheel_admin.domain.executors.xxl_job import normal_address
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.service import MAX_OVERLAP_SECONDS
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/executors"
_ONE = f"{_ALL}/{{executor_id:{ID}}}"


@routes.get(_ALL, permission=Permission.VIEW, api=True)
async def list_executors(request: web.Request) -> web.Response:
    items = await request.app[SERVICES].executors.list(actor_of(request))
    return answer({"items": [executor_view(item) for item in items]})


@routes.post(_ALL, permission=Permission.ADMINISTER, api=True, on_all=True)
async def create_executor(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("name", "description", "protocol", "xxl_job"))
    name = fields.text("name", max_chars=100, required=True)
    description = fields.text("description", max_chars=1_000)
    protocol = fields.member("protocol", Protocol, default=Protocol.TICKWHEEL)
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


@routes.get(_ONE, permission=Permission.VIEW, api=True)
async def get_executor(request: web.Request) -> web.Response:
    executor_id = path_id(request, "executor_id")
    services, actor = request.app[SERVICES], actor_of(request)
    detail = await services.executors.get(actor, executor_id)
    view = executor_detail_view(detail)
    if detail.item.protocol is Protocol.XXL_JOB:
        view["xxl_job"] = xxl_view(await services.xxl_executors.get(actor, executor_id))
    return answer(view)


@routes.put(f"{_ONE}/xxl-job", permission=Permission.ADMINISTER, api=True)
async def change_xxl_executor(request: web.Request) -> web.Response:
    """What is not given stays as it is."""
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


@routes.delete(f"{_ONE}/addresses", permission=Permission.ADMINISTER, api=True)
async def remove_address(request: web.Request) -> web.Response:
    fields = query_fields(request, ("address",))
    address = fields.text("address", max_chars=MAX_ADDRESS_CHARS, required=True)
    raise_if_any(fields.problems)
    await request.app[SERVICES].xxl_executors.remove_address(
        actor_of(request), path_id(request, "executor_id"), normal_address(address) or address
    )
    return web.Response(status=204)


@routes.post(f"{_ONE}/token", permission=Permission.ADMINISTER, api=True)
async def rotate_token(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("overlap_seconds",))
    overlap = fields.integer("overlap_seconds", low=0, high=MAX_OVERLAP_SECONDS, default=0)
    raise_if_any(fields.problems)
    executor_id = path_id(request, "executor_id")
    new = await request.app[SERVICES].executors.rotate_token(
        actor_of(request), executor_id, overlap_seconds=overlap
    )
    return answer(new_executor_view(new))


@routes.delete(f"{_ONE}/old-token", permission=Permission.ADMINISTER, api=True)
async def revoke_old_token(request: web.Request) -> web.Response:
    executor_id = path_id(request, "executor_id")
    await request.app[SERVICES].executors.revoke_old_token(actor_of(request), executor_id)
    return web.Response(status=204)


@routes.delete(_ONE, permission=Permission.ADMINISTER, api=True)
async def delete_executor(request: web.Request) -> web.Response:
    fields = query_fields(request, ("with_jobs",))
    with_jobs = fields.choice("with_jobs", ("true", "false"), default="false") == "true"
    raise_if_any(fields.problems)
    executor_id = path_id(request, "executor_id")
    await request.app[SERVICES].executors.delete(
        actor_of(request), executor_id, with_jobs=with_jobs
    )
    return web.Response(status=204)


@routes.post(f"{_ONE}/pause", permission=Permission.OPERATE, api=True)
async def pause_executor(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].executors.pause(actor_of(request), path_id(request, "executor_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/resume", permission=Permission.OPERATE, api=True)
async def resume_executor(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].executors.resume(actor_of(request), path_id(request, "executor_id"))
    return web.Response(status=204)


@routes.put(f"{_ONE}/scripts", permission=Permission.ADMINISTER, api=True)
async def set_scripts(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("allowed",))
    fields.require("allowed")
    allowed = fields.boolean("allowed", default=False)
    raise_if_any(fields.problems)
    await request.app[SERVICES].executors.set_scripts(
        actor_of(request), path_id(request, "executor_id"), allowed=allowed
    )
    return web.Response(status=204)
