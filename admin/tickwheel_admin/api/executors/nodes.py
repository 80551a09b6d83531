"""/api/v1/nodes: all nodes, one of them, and what operators want of it."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import PageJson, answer, page_view
from tickwheel_admin.api.executors.shapes import NodeDetailJson, NodeItemJson
from tickwheel_admin.api.executors.views import node_detail_view, node_item_view
from tickwheel_admin.api.inputs import (
    ID,
    PAGING,
    body_fields,
    no_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.nodes import MAX_SLOTS, MAX_WEIGHT, NodeQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import (
    InputField,
    optional_id,
    optional_integer,
    optional_member,
    text,
)
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/nodes"
_ONE = f"{_ALL}/{{node_id:{ID}}}"
_EXECUTOR = optional_id("executor_id", "Nodes of this executor.")
_STATE = optional_member("state", "Nodes in this state.", NodeState)
_TEXT = text("text", "A part of the name, in any case.", max_chars=1_000)
_VERSION = text(
    "version", "A part of `sdk`, in any case, such as `0.9` or `python`.", max_chars=1_000
)
_SLOTS = optional_integer("slots", "Null: as the node says.", low=1, high=MAX_SLOTS)
_WEIGHT = optional_integer("weight", "Null: as the node says.", low=1, high=MAX_WEIGHT)
_ENDED = ("executor.other_protocol", "node.ended")


@routes.get(
    _ALL,
    permission=Permission.VIEW,
    api=True,
    query=(_EXECUTOR, _STATE, _TEXT, _VERSION, *PAGING),
    answers=PageJson[NodeItemJson],
)
async def list_nodes(request: web.Request) -> web.Response:
    """A page of the nodes of all executors that you may see, by executor and name."""
    fields = query_fields(request)
    query = NodeQuery(
        executor_id=_EXECUTOR.of(fields),
        state=_STATE.of(fields),
        text=_TEXT.of(fields),
        version=_VERSION.of(fields),
    )
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].nodes.page(
        actor_of(request), query, cursor=cursor, limit=limit
    )
    return answer(page_view(page, node_item_view))


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
