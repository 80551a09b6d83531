"""A node: what it runs, and what operators want of it: no new runs, an end, other numbers."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.nodes import check_live
from tickwheel_admin.services.executors.service import NodeView
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.service import RunItem, RunQuery
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

SHOWN_PAST = 20  # runs of a node that has ended
NODE = "/executors/{executor_id:[0-9]{1,18}}/nodes/{node_id:[0-9]{1,18}}"

routes = Routes()


@routes.get("/nodes/{node_id:[0-9]{1,18}}", permission=Permission.VIEW)
async def show_node(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].nodes.get(
        actor_of(request), int(request.match_info["node_id"])
    )
    node = detail.node
    past = [] if node.state is NodeState.LIVE else await _last_runs(request, node)
    return await render(
        request, "executors/node.html", {"detail": detail, "node": node, "past": past}
    )


async def _last_runs(request: web.Request, node: Node) -> list[RunItem]:
    """What a node ran that has ended: the runs that were lost with it first, then its newest."""
    runs, actor = request.app[SERVICES].runs, actor_of(request)
    query = RunQuery(executor_id=node.executor_id, node_id=node.id)
    lost = await runs.page(actor, replace(query, state=RunState.LOST.value), limit=SHOWN_PAST)
    newest = await runs.page(actor, query, limit=SHOWN_PAST)
    shown = {item.run.id: item for item in (*lost.items, *newest.items)}
    return list(shown.values())[:SHOWN_PAST]


@routes.post(f"{NODE}/cordon", permission=Permission.OPERATE)
async def cordon_node(request: web.Request) -> web.Response:
    await request.app[SERVICES].nodes.cordon(actor_of(request), await _node_id(request))
    return await _done(request, "node.cordoned")


@routes.post(f"{NODE}/drain", permission=Permission.OPERATE)
async def drain_node(request: web.Request) -> web.Response:
    await request.app[SERVICES].nodes.drain(actor_of(request), await _node_id(request))
    return await _done(request, "node.drained")


@routes.post(f"{NODE}/resume", permission=Permission.OPERATE)
async def resume_node(request: web.Request) -> web.Response:
    await request.app[SERVICES].nodes.resume(actor_of(request), await _node_id(request))
    return await _done(request, "node.resumed")


@routes.get(f"{NODE}/slots", permission=Permission.OPERATE)
async def ask_slots(request: web.Request) -> web.Response:
    view = await _live_view(request)
    return await _number_form(
        request, view, "slots", wanted=view.slots_wanted, typed=str(view.node.slots)
    )


@routes.post(f"{NODE}/slots", permission=Permission.OPERATE)
async def set_slots(request: web.Request) -> web.Response:
    """So many slots, or with `own`, as many as the node itself says."""
    form = await read_form(request)
    typed = form.get("slots", "").strip()
    try:
        slots = None if form.get("own") else _whole("slots", typed)
        await request.app[SERVICES].nodes.set_slots(
            actor_of(request), await _node_id(request), slots
        )
    except InvalidInput as error:
        view = await _view(request)
        return await _number_form(
            request, view, "slots", wanted=view.slots_wanted, typed=typed, problem=error.problems[0]
        )
    return await _done(request, "node.slots_set")


@routes.get(f"{NODE}/weight", permission=Permission.OPERATE)
async def ask_weight(request: web.Request) -> web.Response:
    view = await _live_view(request)
    return await _number_form(
        request, view, "weight", wanted=view.weight_wanted, typed=str(view.node.weight)
    )


@routes.post(f"{NODE}/weight", permission=Permission.OPERATE)
async def set_weight(request: web.Request) -> web.Response:
    """This weight, or with `own`, the one that the node itself says."""
    form = await read_form(request)
    typed = form.get("weight", "").strip()
    try:
        weight = None if form.get("own") else _whole("weight", typed)
        await request.app[SERVICES].nodes.set_weight(
            actor_of(request), await _node_id(request), weight
        )
    except InvalidInput as error:
        view = await _view(request)
        return await _number_form(
            request,
            view,
            "weight",
            wanted=view.weight_wanted,
            typed=typed,
            problem=error.problems[0],
        )
    return await _done(request, "node.weight_set")


async def _number_form(
    request: web.Request,
    view: NodeView,
    what: str,
    *,
    wanted: int | None,
    typed: str,
    problem: Problem | None = None,
) -> web.Response:
    return await render(
        request,
        "executors/node_number.html",
        {"node": view.node, "what": what, "wanted": wanted, "typed": typed, "problem": problem},
        status=200 if problem is None else 422,
        block="dialog",
    )


async def _view(request: web.Request) -> NodeView:
    """The node; NotFound unless it is one of the executor in the address."""
    found = await request.app[SERVICES].nodes.get(
        actor_of(request), int(request.match_info["node_id"])
    )
    if found.node.executor_id != int(request.match_info["executor_id"]):
        raise not_found()
    return found.view


async def _live_view(request: web.Request) -> NodeView:
    """The same, of a node that can still be changed; raises Conflict node.ended likewise."""
    view = await _view(request)
    check_live(view.node)
    return view


async def _done(request: web.Request, code: str) -> web.Response:
    form = await read_form(request)
    default = f"/executors/{request.match_info['executor_id']}"
    address = safe_next(form.get("back"), default=default)
    return done_or_back(request, address, code, topics=("nodes", "stats"))


def _whole(field: str, typed: str) -> int:
    if not typed.isascii() or not typed.isdecimal() or len(typed) > 9:
        raise InvalidInput.one(field, "wrong_type", "This must be a whole number.")
    return int(typed)


async def _node_id(request: web.Request) -> int:
    """The node's id; NotFound unless it is a node of the executor in the address."""
    return (await _view(request)).node.id
