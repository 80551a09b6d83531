"""/api/v1/nodes: one node, and what operators want of it; executors list them."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.executors.views import node_detail_view
from tickwheel_admin.api.inputs import ID, body_fields, path_id
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.nodes import MAX_SLOTS, MAX_WEIGHT
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ONE = f"/api/v1/nodes/{{node_id:{ID}}}"


@routes.get(_ONE, permission=Permission.VIEW, api=True)
async def get_node(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].nodes.get(actor_of(request), path_id(request, "node_id"))
    return answer(node_detail_view(detail))


@routes.post(f"{_ONE}/cordon", permission=Permission.OPERATE, api=True)
async def cordon_node(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].nodes.cordon(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/drain", permission=Permission.OPERATE, api=True)
async def drain_node(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].nodes.drain(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/resume", permission=Permission.OPERATE, api=True)
async def resume_node(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[SERVICES].nodes.resume(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.put(f"{_ONE}/slots", permission=Permission.OPERATE, api=True)
async def set_slots(request: web.Request) -> web.Response:
    wanted = await _wanted(request, "slots", high=MAX_SLOTS)
    await request.app[SERVICES].nodes.set_slots(
        actor_of(request), path_id(request, "node_id"), wanted
    )
    return web.Response(status=204)


@routes.put(f"{_ONE}/weight", permission=Permission.OPERATE, api=True)
async def set_weight(request: web.Request) -> web.Response:
    wanted = await _wanted(request, "weight", high=MAX_WEIGHT)
    await request.app[SERVICES].nodes.set_weight(
        actor_of(request), path_id(request, "node_id"), wanted
    )
    return web.Response(status=204)


async def _wanted(request: web.Request, name: str, *, high: int) -> int | None:
    """The number in the body, which must be named; null: what the node itself says."""
    fields = await body_fields(request, (name,))
    if name not in fields.raw:
        fields.refuse(name, "required", "This is required.")
    number = fields.integer(name, low=1, high=high, default=1)
    raise_if_any(fields.problems)
    return number if fields.has(name) else None
