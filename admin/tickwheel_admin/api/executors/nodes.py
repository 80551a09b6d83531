"""/api/v1/nodes: one node, and what operators want of it; executors list them."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.executors.shapes import NodeDetailJson
from tickwheel_admin.api.executors.views import node_detail_view
from tickwheel_admin.api.inputs import ID, body_fields, no_fields, path_id
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.nodes import MAX_SLOTS, MAX_WEIGHT
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import InputField, optional_integer
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ONE = f"/api/v1/nodes/{{node_id:{ID}}}"
_SLOTS = optional_integer("slots", "Null: as the node says.", low=1, high=MAX_SLOTS)
_WEIGHT = optional_integer("weight", "Null: as the node says.", low=1, high=MAX_WEIGHT)
_ENDED = ("executor.other_protocol", "node.ended")


@routes.get(_ONE, permission=Permission.VIEW, api=True, answers=NodeDetailJson)
async def get_node(request: web.Request) -> web.Response:
    """One node: what it runs now, and to which admins it is connected."""
    detail = await request.app[SERVICES].nodes.get(actor_of(request), path_id(request, "node_id"))
    return answer(node_detail_view(detail))


@routes.post(
    f"{_ONE}/cordon",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=_ENDED,
)
async def cordon_node(request: web.Request) -> web.Response:
    """It gets no new runs; its live ones continue."""
    await no_fields(request)
    await request.app[SERVICES].nodes.cordon(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/drain",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=_ENDED,
)
async def drain_node(request: web.Request) -> web.Response:
    """It gets no new runs, and refuses those that are on their way."""
    await no_fields(request)
    await request.app[SERVICES].nodes.drain(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/resume",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=_ENDED,
)
async def resume_node(request: web.Request) -> web.Response:
    """It gets runs again."""
    await no_fields(request)
    await request.app[SERVICES].nodes.resume(actor_of(request), path_id(request, "node_id"))
    return web.Response(status=204)


@routes.put(
    f"{_ONE}/slots",
    permission=Permission.OPERATE,
    api=True,
    body=(_SLOTS,),
    answers=NoContent,
    conflicts=_ENDED,
)
async def set_slots(request: web.Request) -> web.Response:
    """How many attempts a node may run at once."""
    wanted = await _wanted(request, _SLOTS)
    await request.app[SERVICES].nodes.set_slots(
        actor_of(request), path_id(request, "node_id"), wanted
    )
    return web.Response(status=204)


@routes.put(
    f"{_ONE}/weight",
    permission=Permission.OPERATE,
    api=True,
    body=(_WEIGHT,),
    answers=NoContent,
    conflicts=_ENDED,
)
async def set_weight(request: web.Request) -> web.Response:
    """The share of a node in runs of jobs with routing `weighted`."""
    wanted = await _wanted(request, _WEIGHT)
    await request.app[SERVICES].nodes.set_weight(
        actor_of(request), path_id(request, "node_id"), wanted
    )
    return web.Response(status=204)


async def _wanted(request: web.Request, field: InputField[int | None]) -> int | None:
    """The number in the body, which must be named; null: what the node itself says."""
    fields = await body_fields(request)
    if field.name not in fields.raw:
        fields.require(field.name)
    number = field.of(fields)
    raise_if_any(fields.problems)
    return number
