"""Keeping a list's filter as a view, and changing the views that one has."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.users.saved_view import ListPage, SavedView
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

VIEW = "/views/{view_id:[0-9]{1,15}}"

routes = Routes()


@routes.get("/views/new", permission=Permission.VIEW)
async def new_view(request: web.Request) -> web.Response:
    page = _page_of(request.query.get("page", ""))
    return await _form(request, {"list": page, "filter": request.query.get("filter", "")})


@routes.post("/views/new", permission=Permission.VIEW)
async def save_view(request: web.Request) -> web.Response:
    form = await read_form(request)
    page = _page_of(form.get("page", ""))
    query, name, shared = form.get("filter", ""), form.get("name", ""), "shared" in form
    views, actor = request.app[SERVICES].saved_views, actor_of(request)
    try:
        view_id = await views.save(actor, page, name, query, shared=shared)
    except (InvalidInput, Conflict) as error:
        values = {"list": page, "filter": query, "name": name, "shared": shared}
        return await _form(request, values, _problem(error))
    return go_to(request, _address(await views.get(actor, view_id)))


@routes.get(VIEW, permission=Permission.VIEW)
async def edit_view(request: web.Request) -> web.Response:
    view = await request.app[SERVICES].saved_views.get(actor_of(request), _view_id(request))
    return await _form(request, _values(view))


@routes.post(VIEW, permission=Permission.VIEW)
async def change_view(request: web.Request) -> web.Response:
    form = await read_form(request)
    views, actor, view_id = request.app[SERVICES].saved_views, actor_of(request), _view_id(request)
    name, shared = form.get("name", ""), "shared" in form
    try:
        await views.change(actor, view_id, name=name, shared=shared)
    except (InvalidInput, Conflict) as error:
        view = await views.get(actor, view_id)
        return await _form(
            request, _values(view) | {"name": name, "shared": shared}, _problem(error)
        )
    return go_to(request, _address(await views.get(actor, view_id)))


@routes.post(f"{VIEW}/delete", permission=Permission.VIEW)
async def delete_view(request: web.Request) -> web.Response:
    views, actor = request.app[SERVICES].saved_views, actor_of(request)
    view = await views.get(actor, _view_id(request))
    await views.delete(actor, view.id)
    return go_to(request, f"/{view.page}")


async def _form(
    request: web.Request, values: dict[str, Any], problem: Problem | None = None
) -> web.Response:
    actor = actor_of(request)
    view: SavedView | None = values.get("view")
    context = {
        "view": None,
        "name": "",
        "shared": False,
        "problem": problem,
        "is_own": view is None or view.owner_id == actor.user_id,
        "may_delete": view is not None
        and (view.owner_id == actor.user_id or actor.may(Permission.ADMINISTER)),
    }
    return await render(
        request,
        "lists/saved_view.html",
        context | values,
        status=200 if problem is None else 422,
        block="dialog",
    )


def _values(view: SavedView) -> dict[str, Any]:
    return {
        "view": view,
        "list": view.page,
        "filter": view.query,
        "name": view.name,
        "shared": view.shared,
    }


def _problem(error: InvalidInput | Conflict) -> Problem:
    if isinstance(error, InvalidInput):
        return error.problems[0]
    return Problem(field="name", code=error.code, template=error.template, params=error.params)


def _page_of(text: str) -> ListPage:
    return ListPage(text) if text in set(ListPage) else ListPage.JOBS


def _address(view: SavedView) -> str:
    return f"/{view.page}?{view.query}" if view.query else f"/{view.page}"


def _view_id(request: web.Request) -> int:
    return int(request.match_info["view_id"])
