"""/api/v1/users, and /api/v1/me"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import PageJson, answer, page_view
from tickwheel_admin.api.inputs import (
    ID,
    MAX_ID,
    PAGING,
    body_fields,
    no_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.api.users.shapes import (
    CallerJson,
    EndedSessionsJson,
    Grants,
    NewPasswordJson,
    NewUserJson,
    UserDetailJson,
    UserJson,
)
from tickwheel_admin.api.users.views import actor_view, user_detail_view, user_view
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.grants import parse_grants
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given, optional_boolean, optional_integer, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/users"
_ONE = f"{_ALL}/{{user_id:{ID}}}"
_EDIT_CONFLICTS = (
    "user.grants_changed_meanwhile",
    "user.last_admin",
    "user.own_account",
    "user.own_grants",
)
_TEXT = text("text", "A part of the name.", max_chars=1_000)
_NAME = text("name", "How the user logs in.", max_chars=100, required=True)
_GRANTS = given("grants", "Roles; what is not given stays as it is.", Grants)
_ID = optional_integer("id", "As in the address.", low=0, high=MAX_ID)
_DISABLED = optional_boolean("disabled", "Whether the user is shut out.")


@routes.get("/api/v1/me", permission=Permission.LOGGED_IN, api=True, answers=CallerJson)
async def get_me(request: web.Request) -> web.Response:
    """Who asks."""
    return answer(actor_view(actor_of(request)))


@routes.get(
    _ALL,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    query=(_TEXT, *PAGING),
    answers=PageJson[UserJson],
)
async def list_users(request: web.Request) -> web.Response:
    """A page of users, by name."""
    fields = query_fields(request)
    part = _TEXT.of(fields)[:100]
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].users.page(
        actor_of(request), part=part, cursor=cursor, limit=limit
    )
    return answer(page_view(page, user_view))


@routes.post(
    _ALL,
    permission=Permission.ADMINISTER,
    api=True,
    in_person=True,
    on_all=True,
    body=(_NAME, _GRANTS),
    answers=NewUserJson,
    status=201,
    conflicts=("user.name_taken",),
)
async def create_user(request: web.Request) -> web.Response:
    """Add a user; the answer contains a one-time password, only this once."""
    fields = await body_fields(request)
    name = _NAME.of(fields)
    grants = parse_grants(fields, "grants") if fields.has("grants") else {}
    raise_if_any(fields.problems)
    new = await request.app[SERVICES].users.create(actor_of(request), name, grants=grants)
    content = {"id": new.id, "name": new.name, "password": new.password}
    return answer(content, status=201, location=f"{_ALL}/{new.id}")


@routes.get(_ONE, permission=Permission.ADMINISTER, api=True, on_all=True, answers=UserDetailJson)
async def get_user(request: web.Request) -> web.Response:
    """One user, with sessions and tokens."""
    detail = await request.app[SERVICES].users.get(actor_of(request), path_id(request, "user_id"))
    return answer(user_detail_view(detail))


@routes.put(
    _ONE,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=(_ID, _GRANTS, _DISABLED),
    answers=UserDetailJson,
    conflicts=_EDIT_CONFLICTS,
)
async def update_user(request: web.Request) -> web.Response:
    """Grants and `disabled`; one that is not named stays as it is. Tokens only take away."""
    user_id = path_id(request, "user_id")
    fields = await body_fields(request)
    if _ID.of(fields) not in (None, user_id):
        fields.refuse("id", "id.differs", "This differs from the id in the address.")
    grants = parse_grants(fields, "grants") if fields.has("grants") else None
    disabled = _DISABLED.of(fields)
    raise_if_any(fields.problems)
    services, actor = request.app[SERVICES], actor_of(request)
    if grants is not None:
        await services.users.set_grants(actor, user_id, grants)
    if disabled is not None:
        await services.users.set_disabled(actor, user_id, disabled=disabled)
    return answer(user_detail_view(await services.users.get(actor, user_id)))


@routes.delete(
    _ONE,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    answers=NoContent,
    conflicts=("user.last_admin", "user.own_account"),
)
async def delete_user(request: web.Request) -> web.Response:
    """Delete a user with sessions and tokens; the audit keeps the name."""
    await request.app[SERVICES].users.delete(actor_of(request), path_id(request, "user_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/reset-password",
    permission=Permission.ADMINISTER,
    api=True,
    in_person=True,
    on_all=True,
    body=(),
    answers=NewPasswordJson,
)
async def reset_password(request: web.Request) -> web.Response:
    """A new one-time password; ends sessions and tokens."""
    await no_fields(request)
    password = await request.app[SERVICES].users.reset_password(
        actor_of(request), path_id(request, "user_id")
    )
    return answer({"password": password})


@routes.delete(
    f"{_ONE}/sessions",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    answers=EndedSessionsJson,
)
async def end_sessions(request: web.Request) -> web.Response:
    """Log a user out everywhere."""
    ended = await request.app[SERVICES].users.end_sessions(
        actor_of(request), path_id(request, "user_id")
    )
    return answer({"ended": ended})
