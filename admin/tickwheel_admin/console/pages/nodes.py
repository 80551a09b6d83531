"""What operators want of a node: no new runs, an orderly end, more or fewer slots."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.rendering import done_or_back, render
from tickwheel_admin.domain.errors import InvalidInput, NotFound, Problem
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.executors import NodeView
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import EXECUTORS, NODES
from tickwheel_admin.web.routes import Routes

NODE = "/executors/{executor_id:[0-9]{1,18}}/nodes/{node_id:[0-9]{1,18}}"

routes = Routes()


@routes.post(f"{NODE}/cordon", permission=Permission.OPERATE)
async def cordon_node(request: web.Request) -> web.Response:
    await request.app[NODES].cordon(actor_of(request), _node_id(request))
    return _done(request, "node.cordoned")


@routes.post(f"{NODE}/drain", permission=Permission.OPERATE)
async def drain_node(request: web.Request) -> web.Response:
    await request.app[NODES].drain(actor_of(request), _node_id(request))
    return _done(request, "node.drained")


@routes.post(f"{NODE}/resume", permission=Permission.OPERATE)
async def resume_node(request: web.Request) -> web.Response:
    await request.app[NODES].resume(actor_of(request), _node_id(request))
    return _done(request, "node.resumed")


@routes.get(f"{NODE}/slots", permission=Permission.OPERATE)
async def ask_slots(request: web.Request) -> web.Response:
    view = await _view(request)
    return await _slots_form(request, view, typed=str(view.node.slots))


@routes.post(f"{NODE}/slots", permission=Permission.OPERATE)
async def set_slots(request: web.Request) -> web.Response:
    """So many slots, or with `own`, as many as the node itself says."""
    form = await read_form(request)
    typed = form.get("slots", "").strip()
    try:
        slots = None if form.get("own") else _whole(typed)
        await request.app[NODES].set_slots(actor_of(request), _node_id(request), slots)
    except InvalidInput as error:
        view = await _view(request)
        return await _slots_form(request, view, typed=typed, problem=error.problems[0], status=422)
    return _done(request, "node.slots_set")


async def _slots_form(
    request: web.Request,
    view: NodeView,
    *,
    typed: str,
    problem: Problem | None = None,
    status: int = 200,
) -> web.Response:
    return await render(
        request,
        "node_slots.html",
        {"node": view.node, "slots_wanted": view.slots_wanted, "typed": typed, "problem": problem},
        status=status,
        block="dialog",
    )


async def _view(request: web.Request) -> NodeView:
    executor_id = int(request.match_info["executor_id"])
    detail = await request.app[EXECUTORS].get(actor_of(request), executor_id)
    for view in detail.nodes:
        if view.node.id == _node_id(request):
            return view
    raise NotFound("not_found", "There is nothing here, or you may not see it.")


def _done(request: web.Request, code: str) -> web.Response:
    address = f"/executors/{request.match_info['executor_id']}"
    return done_or_back(request, address, code, topics=("nodes", "stats"))


def _whole(typed: str) -> int:
    if not typed.isascii() or not typed.isdecimal() or len(typed) > 9:
        raise InvalidInput.one("slots", "wrong_type", "This must be a whole number.")
    return int(typed)


def _node_id(request: web.Request) -> int:
    return int(request.match_info["node_id"])
