"""People: the list, one person with all that acts for them, adding one."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.users.grants_form import (
    EMPTY_ROWS,
    grant_rows,
    grants_of_form,
    has_more,
)
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem, UserError
from tickwheel_admin.domain.input.grants import grants_mark
from tickwheel_admin.domain.users.user import Grant, Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of, cookie_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.routes import Routes

USER = "/users/{user_id:[0-9]{1,18}}"
PER_PAGE = 50
MAX_TEXT = 100

routes = Routes()


@routes.get("/users", permission=Permission.ADMINISTER, on_all=True)
async def list_users(request: web.Request) -> web.Response:
    actor = actor_of(request)
    text = request.query.get("q", "").strip()[:MAX_TEXT]
    page = await request.app[SERVICES].users.page(
        actor, part=text, cursor=request.query.get("cursor"), limit=PER_PAGE
    )
    return await render(
        request,
        "users/list.html",
        {
            "people": page.items,
            "next_cursor": page.next,
            "text": text,
            "executors": await executor_names(request),
        },
    )


@routes.get("/users/new", permission=Permission.ADMINISTER, on_all=True)
async def show_new(request: web.Request) -> web.Response:
    actor_of(request).require(Permission.ADMINISTER)
    return await _new_form(request, name="", grants={})


@routes.post("/users/new", permission=Permission.ADMINISTER, on_all=True)
async def add_user(request: web.Request) -> web.Response:
    form = await read_form(request)
    name, grants = form.get("name", "").strip(), {}
    try:
        grants = grants_of_form(form, await executor_names(request))
        made = await request.app[SERVICES].users.create(actor_of(request), name, grants=grants)
    except (InvalidInput, Conflict) as error:
        return await _new_form(request, name=name, grants=grants, error=error)
    return await password_page(request, made.name, made.password, is_new=True, user_id=made.id)


@routes.get(USER, permission=Permission.ADMINISTER, on_all=True)
async def show_user(request: web.Request) -> web.Response:
    return await user_page(request)


async def user_page(
    request: web.Request,
    *,
    grants: dict[int, Grant] | None = None,
    error: UserError | None = None,
) -> web.Response:
    """One person; with what was typed and why it was refused, when it was.

    Args:
        grants: what was typed; None: as they are.
    """
    actor, user_id = actor_of(request), user_id_of(request)
    detail = await request.app[SERVICES].users.get(actor, user_id, cookie=cookie_of(request))
    executors = await executor_names(request)
    return await render(
        request,
        "users/page.html",
        {
            "detail": detail,
            "user": detail.item,
            "is_oneself": detail.item.id == actor.user_id,
            "executors": executors,
            "instead_of": grants_mark(detail.item.grants),
            "by_password": request.app[CONFIG].password_login,
            "error": error,
            "problem": error.problems[0] if isinstance(error, InvalidInput) else None,
            **_grant_fields(detail.item.grants if grants is None else grants, executors),
        },
        status=200 if error is None else error.status,
    )


async def password_page(
    request: web.Request, name: str, password: str, *, is_new: bool, user_id: int
) -> web.Response:
    """The only page that ever shows a one-time password; it cannot be fetched again."""
    return await render(
        request,
        "users/set_password.html",
        {
            "name": name,
            "password": password,
            "is_new": is_new,
            "user_id": user_id,
            "console_url": request.app[CONFIG].console_url,
        },
    )


async def executor_names(request: web.Request) -> dict[int, str]:
    """Those that the reader may see, by id."""
    executors = await request.app[SERVICES].executors.names(actor_of(request))
    return {each.id: each.name for each in executors}


def user_id_of(request: web.Request) -> int:
    """Whom the address is about."""
    return int(request.match_info["user_id"])


async def _new_form(
    request: web.Request,
    *,
    name: str,
    grants: dict[int, Grant],
    error: InvalidInput | Conflict | None = None,
) -> web.Response:
    problems = error.problems if isinstance(error, InvalidInput) else ()
    if isinstance(error, Conflict):
        problems = (
            Problem(field="name", code=error.code, template=error.template, params=error.params),
        )
    return await render(
        request,
        "users/new.html",
        {
            "name": name,
            "by_password": request.app[CONFIG].password_login,
            "problems": {problem.field: problem for problem in reversed(problems)},
            **_grant_fields(grants, await executor_names(request)),
        },
        status=200 if error is None else error.status,
    )


def _grant_fields(grants: dict[int, Grant], executors: dict[int, str]) -> dict[str, object]:
    """What the fields for roles need."""
    more = has_more(executors)
    return {
        "grant_rows": grant_rows(grants, executors),
        "empty_rows": EMPTY_ROWS if more else 0,
        "executor_names": sorted(executors.values()) if more else [],
    }
