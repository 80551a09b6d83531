"""/api/v1/saved-views: filters of lists that people keep under a name."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import ItemsJson, NewIdJson, answer
from tickwheel_admin.api.inputs import ID, body_fields, path_id, query_fields
from tickwheel_admin.api.users.shapes import SavedViewJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.saved_view import ListPage, SavedView
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import boolean, choice, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/saved-views"
_ONE = f"{_ALL}/{{view_id:{ID}}}"
_PAGES = tuple(page.value for page in ListPage)
_MAX_TEXT = 5_000  # the rules of a view are told by its own checks
_CONFLICTS = ("view.name_taken", "view.too_many")
_PAGE = choice("page", "Views of this list.", of=_PAGES, default="")
_NEW_NAME = text("name", "How it is called.", max_chars=_MAX_TEXT)
_QUERY = text("query", "The filter, as in the address of the list.", max_chars=_MAX_TEXT)
_SHARED = boolean("shared", "Whether others see it.")


@routes.get(
    _ALL, permission=Permission.VIEW, api=True, query=(_PAGE,), answers=ItemsJson[SavedViewJson]
)
async def list_views(request: web.Request) -> web.Response:
    """Your views of lists, and those that others share."""
    fields = query_fields(request)
    wanted = _PAGE.of(fields)
    raise_if_any(fields.problems)
    actor, views = actor_of(request), request.app[SERVICES].saved_views
    pages = (wanted,) if wanted else _PAGES
    found = [view for page in pages for view in await views.list(actor, page)]
    return answer({"items": [_view(view, actor.user_id) for view in found]})


@routes.post(
    _ALL,
    permission=Permission.VIEW,
    api=True,
    body=(_PAGE, _NEW_NAME, _QUERY, _SHARED),
    answers=NewIdJson,
    status=201,
    conflicts=_CONFLICTS,
)
async def save_view(request: web.Request) -> web.Response:
    """Keep a filter of a list under a name."""
    fields = await body_fields(request)
    page, name = _PAGE.of(fields), _NEW_NAME.of(fields)
    query, shared = _QUERY.of(fields), _SHARED.of(fields)
    raise_if_any(fields.problems)
    view_id = await request.app[SERVICES].saved_views.save(
        actor_of(request), page, name, query, shared=shared
    )
    return answer({"id": view_id}, status=201, location=f"{_ALL}/{view_id}")


@routes.get(_ONE, permission=Permission.VIEW, api=True, answers=SavedViewJson)
async def get_view(request: web.Request) -> web.Response:
    """One view."""
    actor = actor_of(request)
    view = await request.app[SERVICES].saved_views.get(actor, path_id(request, "view_id"))
    return answer(_view(view, actor.user_id))


@routes.put(
    _ONE,
    permission=Permission.VIEW,
    api=True,
    body=(_NEW_NAME, _QUERY, _SHARED),
    answers=NoContent,
    conflicts=_CONFLICTS,
)
async def change_view(request: web.Request) -> web.Response:
    """Change a view of your own; what is left out stays."""
    fields = await body_fields(request)
    name = _NEW_NAME.of(fields) if fields.has("name") else None
    query = _QUERY.of(fields) if fields.has("query") else None
    shared = _SHARED.of(fields) if fields.has("shared") else None
    raise_if_any(fields.problems)
    await request.app[SERVICES].saved_views.change(
        actor_of(request), path_id(request, "view_id"), name=name, query=query, shared=shared
    )
    return web.Response(status=204)


@routes.delete(_ONE, permission=Permission.VIEW, api=True, answers=NoContent)
async def delete_view(request: web.Request) -> web.Response:
    """Delete a view of your own."""
    await request.app[SERVICES].saved_views.delete(actor_of(request), path_id(request, "view_id"))
    return web.Response(status=204)


def _view(view: SavedView, user_id: int) -> SavedViewJson:
    return {
        "id": view.id,
        "page": view.page,
        "name": view.name,
        "query": view.query,
        "shared": view.shared,
        "owner": view.owner_name,
        "own": view.owner_id == user_id,
    }
