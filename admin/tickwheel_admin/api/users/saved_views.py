"""/api/v1/saved-views: filters of lists that people keep under a name."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import ID, body_fields, path_id, query_fields
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.saved_view import ListPage, SavedView
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/saved-views"
_ONE = f"{_ALL}/{{view_id:{ID}}}"
_PAGES = tuple(page.value for page in ListPage)
_MAX_TEXT = 5_000  # the rules of a view are told by its own checks


@routes.get(_ALL, permission=Permission.VIEW, api=True)
async def list_views(request: web.Request) -> web.Response:
    fields = query_fields(request, ("page",))
    wanted = fields.choice("page", _PAGES, default="")
    raise_if_any(fields.problems)
    actor, views = actor_of(request), request.app[SERVICES].saved_views
    pages = (wanted,) if wanted else _PAGES
    found = [view for page in pages for view in await views.list(actor, page)]
    return answer({"items": [_view(view, actor.user_id) for view in found]})


@routes.post(_ALL, permission=Permission.VIEW, api=True)
async def save_view(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("page", "name", "query", "shared"))
    page = fields.choice("page", _PAGES, default="")
    name = fields.text("name", max_chars=_MAX_TEXT)
    query = fields.text("query", max_chars=_MAX_TEXT)
    shared = fields.boolean("shared", default=False)
    raise_if_any(fields.problems)
    view_id = await request.app[SERVICES].saved_views.save(
        actor_of(request), page, name, query, shared=shared
    )
    return answer({"id": view_id}, status=201, location=f"{_ALL}/{view_id}")


@routes.get(_ONE, permission=Permission.VIEW, api=True)
async def get_view(request: web.Request) -> web.Response:
    actor = actor_of(request)
    view = await request.app[SERVICES].saved_views.get(actor, path_id(request, "view_id"))
    return answer(_view(view, actor.user_id))


@routes.put(_ONE, permission=Permission.VIEW, api=True)
async def change_view(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("name", "query", "shared"))
    name = fields.text("name", max_chars=_MAX_TEXT) if fields.has("name") else None
    query = fields.text("query", max_chars=_MAX_TEXT) if fields.has("query") else None
    shared = fields.boolean("shared", default=False) if fields.has("shared") else None
    raise_if_any(fields.problems)
    await request.app[SERVICES].saved_views.change(
        actor_of(request), path_id(request, "view_id"), name=name, query=query, shared=shared
    )
    return web.Response(status=204)


@routes.delete(_ONE, permission=Permission.VIEW, api=True)
async def delete_view(request: web.Request) -> web.Response:
    await request.app[SERVICES].saved_views.delete(actor_of(request), path_id(request, "view_id"))
    return web.Response(status=204)


def _view(view: SavedView, user_id: int) -> dict[str, Any]:
    return {
        "id": view.id,
        "page": view.page.value,
        "name": view.name,
        "query": view.query,
        "shared": view.shared,
        "owner": view.owner_name,
        "own": view.owner_id == user_id,
    }
