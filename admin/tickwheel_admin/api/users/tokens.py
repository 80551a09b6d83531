"""/api/v1/tokens: of API tokens, not of executors."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, page_view
from tickwheel_admin.api.inputs import ID, MAX_ID, body_fields, page_of, path_id, query_fields
from tickwheel_admin.api.users.views import token_view
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission, Role
from tickwheel_admin.services.users.api_tokens import MAX_EXECUTORS, MAX_VALID_DAYS
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/tokens"


@routes.get(_ALL, permission=Permission.LOGGED_IN, api=True)
async def list_own_tokens(request: web.Request) -> web.Response:
    items = await request.app[SERVICES].api_tokens.own(actor_of(request))
    return answer({"items": [token_view(item) for item in items]})


@routes.get(f"{_ALL}/all", permission=Permission.ADMINISTER, api=True, on_all=True)
async def list_all_tokens(request: web.Request) -> web.Response:
    fields = query_fields(request, ("cursor", "limit"))
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].api_tokens.page(actor_of(request), cursor, limit=limit)
    return answer(page_view(page, token_view))


@routes.post(_ALL, permission=Permission.LOGGED_IN, api=True, in_person=True)
async def create_token(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("name", "role", "executors", "valid_days"))
    name = fields.text("name", max_chars=100, required=True)
    role = fields.member("role", Role, default=Role.VIEWER) if fields.has("role") else None
    executors = _executors(fields)
    days = fields.integer("valid_days", low=1, high=MAX_VALID_DAYS, default=0) or None
    raise_if_any(fields.problems)
    new = await request.app[SERVICES].api_tokens.create(
        actor_of(request), name=name, role=role, executors=executors, valid_days=days
    )
    return answer({"id": new.id, "token": new.secret}, status=201)


@routes.delete(f"{_ALL}/{{token_id:{ID}}}", permission=Permission.LOGGED_IN, api=True)
async def revoke_token(request: web.Request) -> web.Response:
    await request.app[SERVICES].api_tokens.revoke(actor_of(request), path_id(request, "token_id"))
    return web.Response(status=204)


def _executors(fields: Fields) -> list[int] | None:
    if not fields.has("executors"):
        return None
    raw = fields.raw["executors"]
    if not isinstance(raw, list) or not 1 <= len(raw) <= MAX_EXECUTORS:
        fields.refuse(
            "executors",
            "token.executors_invalid",
            "Name 1 to %(limit)s executors, or leave this out for all.",
            limit=MAX_EXECUTORS,
        )
        return None
    ids = Fields({str(place): each for place, each in enumerate(raw)}, "", [])
    found = [ids.integer(place, low=1, high=MAX_ID, default=0) for place in ids.raw]
    if ids.problems or 0 in found:
        fields.refuse("executors", "wrong_type", "These must be ids of executors.")
    return found
