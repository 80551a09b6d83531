"""/api/v1/users, and /api/v1/me"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, page_view
from tickwheel_admin.api.inputs import (
    ID,
    MAX_ID,
    body_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.api.users.views import actor_view, user_detail_view, user_view
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.grants import parse_grants
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = "/api/v1/users"
_ONE = f"{_ALL}/{{user_id:{ID}}}"


@routes.get("/api/v1/me", permission=Permission.LOGGED_IN, api=True)
async def get_me(request: web.Request) -> web.Response:
    return answer(actor_view(actor_of(request)))


@routes.get(_ALL, permission=Permission.ADMINISTER, api=True, on_all=True)
async def list_users(request: web.Request) -> web.Response:
    fields = query_fields(request, ("text", "cursor", "limit"))
    part = request.query.get("text", "")[:100]  # as text, also where it is all digits
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].users.page(
        actor_of(request), part=part, cursor=cursor, limit=limit
    )
    return answer(page_view(page, user_view))


@routes.post(_ALL, permission=Permission.ADMINISTER, api=True, in_person=True, on_all=True)
async def create_user(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("name", "grants"))
    name = fields.text("name", max_chars=100, required=True)
    grants = parse_grants(fields, "grants") if fields.has("grants") else {}
    raise_if_any(fields.problems)
    new = await request.app[SERVICES].users.create(actor_of(request), name, grants=grants)
    content = {"id": new.id, "name": new.name, "password": new.password}
    return answer(content, status=201, location=f"{_ALL}/{new.id}")


@routes.get(_ONE, permission=Permission.ADMINISTER, api=True, on_all=True)
async def get_user(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].users.get(actor_of(request), path_id(request, "user_id"))
    return answer(user_detail_view(detail))


@routes.put(_ONE, permission=Permission.ADMINISTER, api=True, on_all=True)
async def update_user(request: web.Request) -> web.Response:
    """Grants and `disabled`; one that is not named stays as it is. Tokens only take away."""
    user_id = path_id(request, "user_id")
    fields = await body_fields(request, ("id", "grants", "disabled"))
    if fields.integer("id", low=0, high=MAX_ID, default=user_id) != user_id:
        fields.refuse("id", "id.differs", "This differs from the id in the address.")
    grants = parse_grants(fields, "grants") if fields.has("grants") else None
    disabled = fields.boolean("disabled", default=False) if fields.has("disabled") else None
    raise_if_any(fields.problems)
    services, actor = request.app[SERVICES], actor_of(request)
    if grants is not None:
        await services.users.set_grants(actor, user_id, grants)
    if disabled is not None:
        await services.users.set_disabled(actor, user_id, disabled=disabled)
    return answer(user_detail_view(await services.users.get(actor, user_id)))


@routes.delete(_ONE, permission=Permission.ADMINISTER, api=True, on_all=True)
async def delete_user(request: web.Request) -> web.Response:
    await request.app[SERVICES].users.delete(actor_of(request), path_id(request, "user_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/reset-password",
    permission=Permission.ADMINISTER,
    api=True,
    in_person=True,
    on_all=True,
)
async def reset_password(request: web.Request) -> web.Response:
    raise_if_any((await body_fields(request, ())).problems)
    password = await request.app[SERVICES].users.reset_password(
        actor_of(request), path_id(request, "user_id")
    )
    return answer({"password": password})


@routes.delete(
    f"{_ONE}/sessions",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
)
async def end_sessions(request: web.Request) -> web.Response:
    ended = await request.app[SERVICES].users.end_sessions(
        actor_of(request), path_id(request, "user_id")
    )
    return answer({"ended": ended})
