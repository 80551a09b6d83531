"""Log in, log out, change the password."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.flash import set_flash
from tickwheel_admin.console.rendering import render
from tickwheel_admin.domain.errors import InvalidInput, NotLoggedIn, TooMany
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.client import address_of
from tickwheel_admin.web.identity import (
    LOGIN_PATH,
    LOGOUT_PATH,
    PASSWORD_PATH,
    actor_of,
    clear_session_cookie,
    cookie_of,
    set_session_cookie,
)
from tickwheel_admin.web.keys import PEOPLE
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get(LOGIN_PATH, permission=Permission.PUBLIC)
async def show_login(request: web.Request) -> web.Response:
    return await render(
        request,
        "login.html",
        {"error": None, "name": "", "next": safe_next(request.query.get("next"))},
    )


@routes.post(LOGIN_PATH, permission=Permission.PUBLIC)
async def log_in(request: web.Request) -> web.Response:
    form = await read_form(request)
    name, next_page = form.get("name", ""), safe_next(form.get("next"))
    try:
        session = await request.app[PEOPLE].login(
            name,
            form.get("password", ""),
            address=address_of(request),
            user_agent=request.headers.get("User-Agent", ""),
            replaces=cookie_of(request),
        )
    except (NotLoggedIn, TooMany) as error:
        page = await render(
            request,
            "login.html",
            {"error": error, "name": name, "next": next_page},
            status=error.status,
        )
        if isinstance(error, TooMany):
            page.headers["Retry-After"] = str(error.retry_after_seconds)
        return page
    next_page = PASSWORD_PATH if session.must_change_password else next_page
    response = web.Response(status=303, headers={"Location": next_page})
    set_session_cookie(request, response, session)
    return response


@routes.post(LOGOUT_PATH, permission=Permission.LOGGED_IN)
async def log_out(request: web.Request) -> web.Response:
    await request.app[PEOPLE].logout(cookie_of(request))
    response = web.Response(status=303, headers={"Location": LOGIN_PATH})
    clear_session_cookie(request, response)
    return response


@routes.get(PASSWORD_PATH, permission=Permission.LOGGED_IN)
async def show_password(request: web.Request) -> web.Response:
    return await _password_page(request, problems={})


@routes.post(PASSWORD_PATH, permission=Permission.LOGGED_IN)
async def change_password(request: web.Request) -> web.Response:
    form = await read_form(request)
    new = form.get("new", "")
    try:
        if new != form.get("again", ""):
            raise InvalidInput.one(
                "again", "password.differs", "This is not the same as the new password."
            )
        session = await request.app[PEOPLE].change_password(
            actor_of(request), cookie_of(request), old=form.get("old", ""), new=new
        )
    except InvalidInput as error:
        return await _password_page(
            request, problems={problem.field: problem for problem in error.problems}, status=422
        )
    except TooMany as error:
        return await _password_page(request, problems={}, error=error, status=error.status)
    response = web.Response(status=303, headers={"Location": "/"})
    set_session_cookie(request, response, session)
    set_flash(response, "password.changed")
    return response


async def _password_page(
    request: web.Request,
    *,
    problems: dict[str, object],
    error: TooMany | None = None,
    status: int = 200,
) -> web.Response:
    # Whoever must choose a password first may see nothing else, so there is no frame either.
    template = "password_first.html" if actor_of(request).must_change_password else "password.html"
    return await render(request, template, {"problems": problems, "error": error}, status=status)
