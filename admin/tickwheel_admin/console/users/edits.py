"""What is done with a person: their roles, password, sessions, tokens; shut out, deleted."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.users.grants_form import grants_of_form
from tickwheel_admin.console.users.list import (
    USER,
    executor_names,
    password_page,
    user_id_of,
    user_page,
)
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of, cookie_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.post(f"{USER}/grants", permission=Permission.ADMINISTER, on_all=True)
async def set_grants(request: web.Request) -> web.Response:
    form = await read_form(request)
    grants = None
    try:
        grants = grants_of_form(form, await executor_names(request))
        await request.app[SERVICES].users.set_grants(
            actor_of(request), user_id_of(request), grants, instead_of=form.get("instead_of")
        )
    except (Conflict, InvalidInput) as error:
        return await user_page(request, grants=grants, error=error)
    return _back(request, "user.grants_set")


@routes.post(f"{USER}/disable", permission=Permission.ADMINISTER, on_all=True)
async def disable_user(request: web.Request) -> web.Response:
    return await _set_disabled(request, disabled=True)


@routes.post(f"{USER}/enable", permission=Permission.ADMINISTER, on_all=True)
async def enable_user(request: web.Request) -> web.Response:
    return await _set_disabled(request, disabled=False)


async def _set_disabled(request: web.Request, *, disabled: bool) -> web.Response:
    try:
        await request.app[SERVICES].users.set_disabled(
            actor_of(request), user_id_of(request), disabled=disabled
        )
    except Conflict as error:
        return await user_page(request, error=error)
    return _back(request, "user.disabled" if disabled else "user.enabled")


@routes.post(f"{USER}/sessions/end", permission=Permission.ADMINISTER, on_all=True)
async def end_sessions(request: web.Request) -> web.Response:
    await request.app[SERVICES].users.end_sessions(actor_of(request), user_id_of(request))
    return _back(request, "user.sessions_ended")


@routes.get(f"{USER}/reset-password", permission=Permission.ADMINISTER, on_all=True)
async def ask_reset(request: web.Request) -> web.Response:
    return await _ask(request, "users/reset.html")


@routes.post(f"{USER}/reset-password", permission=Permission.ADMINISTER, on_all=True)
async def reset_password(request: web.Request) -> web.Response:
    actor, user_id = actor_of(request), user_id_of(request)
    detail = await request.app[SERVICES].users.get(actor, user_id)
    password = await request.app[SERVICES].users.reset_password(actor, user_id)
    return await password_page(request, detail.item.name, password, is_new=False, user_id=user_id)


@routes.get(f"{USER}/delete", permission=Permission.ADMINISTER, on_all=True)
async def ask_delete(request: web.Request) -> web.Response:
    return await _ask(request, "users/delete.html")


@routes.post(f"{USER}/delete", permission=Permission.ADMINISTER, on_all=True)
async def delete_user(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].users.delete(actor_of(request), user_id_of(request))
    except Conflict as error:
        return await _ask(request, "users/delete.html", error)
    response = go_to(request, "/users")
    set_flash(response, "user.deleted")
    return response


async def _ask(request: web.Request, template: str, error: Conflict | None = None) -> web.Response:
    detail = await request.app[SERVICES].users.get(
        actor_of(request), user_id_of(request), cookie=cookie_of(request)
    )
    return await render(
        request,
        template,
        {"detail": detail, "user": detail.item, "conflict": error},
        status=200 if error is None else error.status,
        block="dialog",
    )


def _back(request: web.Request, code: str) -> web.Response:
    response = go_to(request, f"/users/{user_id_of(request)}")
    set_flash(response, code)
    return response
