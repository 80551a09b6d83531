"""/api/v1/tokens: of API tokens, not of executors."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from msgspec import Meta

from tickwheel_admin.api.answers import ItemsJson, PageJson, answer, page_view
from tickwheel_admin.api.inputs import (
    ID,
    MAX_ID,
    PAGING,
    body_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.api.users.shapes import NewTokenJson, TokenJson
from tickwheel_admin.api.users.views import token_view
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission, Role
from tickwheel_admin.services.users.api_tokens import MAX_EXECUTORS, MAX_VALID_DAYS
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given, optional_integer, optional_member, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/tokens"
_NAME = text("name", "What it is for.", max_chars=100, required=True)
_ROLE = optional_member("role", "At most this one; the user's, if left out.", Role)
_EXECUTORS = given(
    "executors",
    "Only on these; as the user, if left out.",
    Annotated[
        list[Annotated[int, Meta(ge=1, le=MAX_ID)]], Meta(min_length=1, max_length=MAX_EXECUTORS)
    ],
)
_DAYS = optional_integer(
    "valid_days", "It ends then; with the user's password, if left out.", low=1, high=MAX_VALID_DAYS
)


@routes.get(_ALL, permission=Permission.LOGGED_IN, api=True, answers=ItemsJson[TokenJson])
async def list_own_tokens(request: web.Request) -> web.Response:
    """Your own tokens; a token sees only itself."""
    items = await request.app[SERVICES].api_tokens.own(actor_of(request))
    return answer({"items": [token_view(item) for item in items]})


@routes.get(
    f"{_ALL}/all",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    query=PAGING,
    answers=PageJson[TokenJson],
)
async def list_all_tokens(request: web.Request) -> web.Response:
    """All tokens, newest first."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].api_tokens.page(actor_of(request), cursor, limit=limit)
    return answer(page_view(page, token_view))


@routes.post(
    _ALL,
    permission=Permission.LOGGED_IN,
    api=True,
    in_person=True,
    body=(_NAME, _ROLE, _EXECUTORS, _DAYS),
    answers=NewTokenJson,
    status=201,
    conflicts=("token.name_taken", "token.too_many"),
)
async def create_token(request: web.Request) -> web.Response:
    """Create a token for yourself; the answer contains it, only this once."""
    fields = await body_fields(request)
    name, role = _NAME.of(fields), _ROLE.of(fields)
    executors = _executors(fields)
    days = _DAYS.of(fields)
    raise_if_any(fields.problems)
    new = await request.app[SERVICES].api_tokens.create(
        actor_of(request), name=name, role=role, executors=executors, valid_days=days
    )
    return answer({"id": new.id, "token": new.secret}, status=201)


@routes.delete(
    f"{_ALL}/{{token_id:{ID}}}", permission=Permission.LOGGED_IN, api=True, answers=NoContent
)
async def revoke_token(request: web.Request) -> web.Response:
    """Revoke a token of your own, or any as admin."""
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
