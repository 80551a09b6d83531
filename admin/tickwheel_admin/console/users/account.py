"""One's own account: how pages look, the password, and where one is logged in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.frame.zone_choices import zone_choices
from tickwheel_admin.console.users.list import executor_names
from tickwheel_admin.console.users.preferences import mirror_preferences
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.users.preferences import parse_preferences, preferences_to_raw
from tickwheel_admin.domain.users.user import Grant, Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import LOGIN_PATH, actor_of, cookie_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

_PREFERENCES = ("language", "theme", "timezone")

routes = Routes()


@routes.get("/account", permission=Permission.LOGGED_IN)
async def show_account(request: web.Request) -> web.Response:
    preferences = await request.app[SERVICES].own_account.preferences(actor_of(request))
    return await _page(request, preferences_to_raw(preferences))


@routes.post("/account/preferences", permission=Permission.LOGGED_IN)
async def set_preferences(request: web.Request) -> web.Response:
    """Those that the form names; the menus of language and theme name one."""
    form, actor, services = await read_form(request), actor_of(request), request.app[SERVICES]
    raw: dict[str, Any] = preferences_to_raw(await services.own_account.preferences(actor))
    raw |= {name: form[name] for name in _PREFERENCES if name in form}
    try:
        preferences = parse_preferences(raw)
    except InvalidInput as error:
        return await _page(request, raw, error.problems)
    await services.own_account.set_preferences(actor, preferences)
    response = go_to(request, safe_next(form.get("next"), default="/account"))
    mirror_preferences(request, response, preferences)
    if "next" not in form:
        set_flash(response, "preferences.saved")
    return response


@routes.post("/account/sessions/end", permission=Permission.LOGGED_IN)
async def end_session(request: web.Request) -> web.Response:
    form, cookie = await read_form(request), cookie_of(request)
    actor, services = actor_of(request), request.app[SERVICES]
    await services.own_account.end_session(actor, cookie, form.get("key", ""))
    if await services.logins.session(cookie, touch=False) is None:
        return go_to(request, LOGIN_PATH)  # it was this one
    response = go_to(request, "/account")
    set_flash(response, "session.ended")
    return response


@routes.post("/account/sessions/end-others", permission=Permission.LOGGED_IN)
async def end_other_sessions(request: web.Request) -> web.Response:
    await request.app[SERVICES].own_account.end_other_sessions(
        actor_of(request), cookie_of(request)
    )
    response = go_to(request, "/account")
    set_flash(response, "sessions.ended")
    return response


async def _page(
    request: web.Request, values: Mapping[str, Any], problems: tuple[Problem, ...] = ()
) -> web.Response:
    actor = actor_of(request)
    grants = {
        executor_id: Grant(role, executor_id in actor.scripts)
        for executor_id, role in actor.grants.items()
    }
    may_see = actor.may_anywhere(Permission.VIEW)
    return await render(
        request,
        "users/account.html",
        {
            "values": values,
            "problems": {problem.field: problem for problem in reversed(problems)},
            "zones": zone_choices(values["timezone"] or None),
            "grants": grants,
            "has_password": await request.app[SERVICES].own_account.has_password(actor),
            "executors": await executor_names(request) if may_see else {},
            "sessions": await request.app[SERVICES].own_account.sessions(actor, cookie_of(request)),
        },
        status=422 if problems else 200,
    )
