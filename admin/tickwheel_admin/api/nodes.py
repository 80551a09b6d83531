"""/api/v1/nodes: what operators want of them; executors list them."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.inputs import ID, body_fields, path_id
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.nodes import MAX_SLOTS
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import NODES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ONE = f"/api/v1/nodes/{{node_id:{ID}}}"


@routes.post(f"{_ONE}/cordon", permission=Permission.OPERATE, api=True)
async def cordon_node(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[NODES].cordon(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/drain", permission=Permission.OPERATE, api=True)
async def drain_node(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[NODES].drain(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.post(f"{_ONE}/resume", permission=Permission.OPERATE, api=True)
async def resume_node(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    await request.app[NODES].resume(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.put(f"{_ONE}/slots", permission=Permission.OPERATE, api=True)
async def set_slots(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("slots",))
    if "slots" not in fields.raw:
        fields.refuse("slots", "required", "This is required.")
    slots = fields.integer("slots", low=1, high=MAX_SLOTS, default=1)
    raise_if_any(fields.problems)
    wanted = slots if fields.has("slots") else None  # null: as many as the node itself says
    await request.app[NODES].set_slots(actor_of(request), path_id(request, "node_id"), wanted)
    return web.Response(status=204)
