"""Pools: the list, the page of one, its form, and removing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.frame.units import problems_at_fields, whole_number
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

POOL = "/pools/{pool_id:[0-9]{1,18}}"

routes = Routes()


@routes.get("/pools", permission=Permission.VIEW)
async def list_pools(request: web.Request) -> web.Response:
    text = request.query.get("q", "").strip()[:200]
    page = await request.app[SERVICES].pools.page(
        actor_of(request), text=text, cursor=request.query.get("cursor")
    )
    return await render(
        request, "pools/list.html", {"pools": page.items, "next_cursor": page.next, "text": text}
    )


@routes.get("/pools/new", permission=Permission.DEVELOP)
async def show_new(request: web.Request) -> web.Response:
    return await _form(request, {"slots": "1"})


@routes.post("/pools/new", permission=Permission.DEVELOP)
async def create_pool(request: web.Request) -> web.Response:
    sent = dict(await read_form(request))
    try:
        raw = _raw(sent)
        pool_id = await request.app[SERVICES].pools.create(actor_of(request), raw)
    except (InvalidInput, Conflict) as error:
        return await _form(request, sent, error=error)
    response = go_to(request, f"/pools/{pool_id}")
    set_flash(response, "pool.created")
    return response


@routes.get(POOL, permission=Permission.VIEW)
async def show_pool(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].pools.get(actor_of(request), _pool_id(request))
    item = detail.item
    shown = {"detail": detail, "item": item, "pool": item.pool}
    return await render(request, "pools/page.html", shown)


@routes.get(f"{POOL}/edit", permission=Permission.DEVELOP)
async def show_edit(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].pools.get(actor_of(request), _pool_id(request))
    pool = detail.item.pool
    values = {
        "name": pool.name,
        "executor": "" if pool.is_of_installation else str(pool.executor_id),
        "description": pool.description,
        "slots": str(pool.slots),
        "version": str(pool.version),
    }
    return await _form(request, values)


@routes.post(f"{POOL}/edit", permission=Permission.DEVELOP)
async def save_pool(request: web.Request) -> web.Response:
    sent = dict(await read_form(request))
    pool_id = _pool_id(request)
    try:
        raw, version = _raw(sent), whole_number(sent.get("version")) or 0
        await request.app[SERVICES].pools.update(actor_of(request), pool_id, raw, version=version)
    except (InvalidInput, Conflict) as error:
        return await _form(request, sent, error=error)
    response = go_to(request, f"/pools/{pool_id}")
    set_flash(response, "pool.saved")
    return response


@routes.get(f"{POOL}/delete", permission=Permission.DEVELOP)
async def ask_delete(request: web.Request) -> web.Response:
    return await _delete_form(request)


@routes.post(f"{POOL}/delete", permission=Permission.DEVELOP)
async def delete_pool(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].pools.delete(actor_of(request), _pool_id(request))
    except Conflict as error:
        return await _delete_form(request, error=error)
    response = go_to(request, "/pools")
    set_flash(response, "pool.deleted")
    return response


async def _delete_form(request: web.Request, *, error: Conflict | None = None) -> web.Response:
    detail = await request.app[SERVICES].pools.get(actor_of(request), _pool_id(request))
    return await render(
        request,
        "pools/delete.html",
        {"pool": detail.item.pool, "error": error},
        status=200 if error is None else error.status,
        block="dialog",
    )


async def _form(
    request: web.Request, values: Mapping[str, str], *, error: InvalidInput | Conflict | None = None
) -> web.Response:
    actor = actor_of(request)
    executors = await request.app[SERVICES].executors.list(actor)
    problems: Sequence[Problem] = () if error is None else problems_at_fields(error)
    pool_id = request.match_info.get("pool_id")
    return await render(
        request,
        "pools/form.html",
        {
            "values": values,
            "pool_id": int(pool_id) if pool_id else None,
            "executors": [e for e in executors if actor.may(Permission.DEVELOP, e.id)],
            "problems": {problem.field: problem for problem in reversed(problems)},
            "conflict": error if isinstance(error, Conflict) and not problems else None,
        },
        status=200 if error is None else error.status,
        block="dialog",
    )


def _raw(sent: Mapping[str, str]) -> dict[str, object]:
    """What the API takes; a text that is no number is refused there."""
    slots, executor = sent.get("slots", "").strip(), sent.get("executor", "").strip()
    number, executor_id = whole_number(slots), whole_number(executor)
    return {
        "name": sent.get("name", ""),
        "description": sent.get("description", ""),
        "slots": (slots or None) if number is None else number,
        "executor": (executor or None) if executor_id is None else executor_id,
    }


def _pool_id(request: web.Request) -> int:
    return int(request.match_info["pool_id"])
