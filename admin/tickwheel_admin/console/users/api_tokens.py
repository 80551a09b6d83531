"""API tokens: one's own, everybody's for administrators; making one, revoking one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.frame.units import problems_at_fields, whole_number
from tickwheel_admin.console.users.list import executor_names
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission, Role
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

PER_PAGE = 50
USUAL_DAYS = 90

routes = Routes()


@routes.get("/tokens", permission=Permission.LOGGED_IN)
async def list_tokens(request: web.Request) -> web.Response:
    actor, services = actor_of(request), request.app[SERVICES]
    may_see_all = actor.may(Permission.ADMINISTER)
    of_all = may_see_all and request.query.get("of") == "all"
    next_cursor = None
    if of_all:
        page = await services.api_tokens.page(actor, request.query.get("cursor"), limit=PER_PAGE)
        tokens, next_cursor = page.items, page.next
    else:
        tokens = await services.api_tokens.own(actor)
    return await render(
        request,
        "users/api_tokens.html",
        {
            "tokens": tokens,
            "next_cursor": next_cursor,
            "of_all": of_all,
            "may_see_all": may_see_all,
            "executors": await _executors(request),
            "admin_url": request.app[CONFIG].console_url,
        },
    )


@routes.get("/tokens/new", permission=Permission.LOGGED_IN)
async def show_new(request: web.Request) -> web.Response:
    return await _new_form(request, {"valid_days": str(USUAL_DAYS)})


@routes.post("/tokens/new", permission=Permission.LOGGED_IN)
async def create_token(request: web.Request) -> web.Response:
    form = await read_form(request)
    name = form.get("name", "").strip()
    try:
        token = (
            await request.app[SERVICES].api_tokens.create(
                actor_of(request),
                name=name,
                role=_role(form.get("role", "")),
                executors=_chosen(form),
                valid_days=_days(form.get("valid_days", "").strip()),
            )
        ).secret
    except (InvalidInput, Conflict) as error:
        typed = {key: form.get(key, "") for key in ("name", "role", "valid_days", "where")}
        chosen = form.getall("executor", [])
        problems = problems_at_fields(error)
        if not problems and isinstance(error, Conflict):
            problems = [
                Problem(field="", code=error.code, template=error.template, params=error.params)
            ]
        return await _new_form(request, typed, chosen, problems, status=error.status)
    return await render(
        request,
        "users/api_token_made.html",
        {"name": name, "token": token, "admin_url": request.app[CONFIG].console_url},
    )


@routes.post("/tokens/{token_id:[0-9]{1,18}}/revoke", permission=Permission.LOGGED_IN)
async def revoke_token(request: web.Request) -> web.Response:
    form = await read_form(request)
    await request.app[SERVICES].api_tokens.revoke(
        actor_of(request), int(request.match_info["token_id"])
    )
    response = go_to(request, safe_next(form.get("back"), default="/tokens"))
    set_flash(response, "token.revoked")
    return response


def _role(text: str) -> Role | None:
    if not text:
        return None
    try:
        return Role(text)
    except ValueError:
        raise InvalidInput.one(
            "role", "role.unknown", "There is no role “%(role)s”.", role=text[:30]
        ) from None


def _chosen(form: MultiMapping[str]) -> list[int] | None:
    """The executors that a token is for; None: wherever its owner may."""
    if form.get("where") != "some":
        return None
    typed = map(whole_number, form.getall("executor", []))
    chosen = [each for each in typed if each is not None]
    if not chosen:
        raise InvalidInput.one(
            "executors", "executors.none", "Choose one executor at least, or all that you may."
        )
    return chosen


def _days(text: str) -> int | None:
    """How long it works; None: until the password changes."""
    if not text:
        return None
    days = whole_number(text)
    if days is None:
        raise InvalidInput.one(
            "valid_days", "token.days_invalid", "Use a number of days from 1 to 3650."
        )
    return days


async def _executors(request: web.Request) -> dict[int, str]:
    """Names by id; none for somebody who may see nothing."""
    if not actor_of(request).may_anywhere(Permission.VIEW):
        return {}
    return await executor_names(request)


async def _new_form(
    request: web.Request,
    values: dict[str, Any],
    chosen: Sequence[str] = (),
    problems: Sequence[Problem] = (),
    *,
    status: int = 200,
) -> web.Response:
    actor = actor_of(request)
    executors = await _executors(request)
    return await render(
        request,
        "users/api_token_new.html",
        {
            "values": {"name": "", "role": "", "valid_days": "", "where": "all"} | values,
            "chosen": set(chosen),
            "executors": sorted(executors.items(), key=lambda each: each[1]),
            "roles": _roles_of(actor.grants.values()),
            "problems": {problem.field: problem for problem in reversed(problems)},
        },
        status=status,
    )


def _roles_of(held: Iterable[Role]) -> list[Role]:
    """Roles that a token can be held to: those up to the most that its owner has anywhere."""
    order = list(Role)
    most = max((order.index(role) for role in held), default=-1)
    return order[: most + 1]
