"""Log in, log out, change the password."""

from __future__ import annotations

from urllib.parse import urlencode

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.users.preferences import mirror_at_login
from tickwheel_admin.domain.errors import (
    InvalidInput,
    NotAllowed,
    NotLoggedIn,
    TooMany,
    UserError,
)
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.users.logins import NewSession
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.client import address_of, user_agent_of
from tickwheel_admin.web.identity import (
    LOGIN_PATH,
    LOGOUT_PATH,
    PASSWORD_PATH,
    actor_of,
    clear_session_cookie,
    cookie_of,
    set_session_cookie,
)
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get(LOGIN_PATH, permission=Permission.PUBLIC)
async def show_login(request: web.Request) -> web.Response:
    return await login_page(request, next_page=safe_next(request.query.get("next")))


@routes.post(LOGIN_PATH, permission=Permission.PUBLIC)
async def log_in(request: web.Request) -> web.Response:
    form = await read_form(request)
    name, next_page = form.get("name", ""), safe_next(form.get("next"))
    try:
        if not request.app[CONFIG].password_login:
            raise NotAllowed("login.no_passwords", "Nobody logs in by password here.")
        session = await request.app[SERVICES].logins.login(
            name,
            form.get("password", ""),
            address=address_of(request),
            user_agent=user_agent_of(request),
            replaces=cookie_of(request),
        )
    except (NotAllowed, NotLoggedIn, TooMany) as error:
        return await login_page(request, next_page=next_page, error=error, name=name)
    return await logged_in(request, session, next_page)


async def login_page(
    request: web.Request,
    *,
    next_page: str,
    error: UserError | None = None,
    name: str = "",
    reference: str = "",
) -> web.Response:
    """The page to log in on, perhaps with what was wrong about the last try.

    Args:
        name: as typed.
        reference: what the log is searched for, when the trouble is not of the person's making.
    """
    config = request.app[CONFIG]
    provider = config.oidc.name if config.oidc else None
    page = await render(
        request,
        "users/login.html",
        {
            "error": error,
            "name": name,
            "next": next_page,
            "reference": reference,
            "provider": provider,
            "provider_address": f"/login/oidc?{urlencode({'next': next_page})}",
            "by_password": config.password_login,
        },
        status=200 if error is None else error.status,
    )
    if isinstance(error, TooMany):
        page.headers["Retry-After"] = str(error.retry_after_seconds)
    return page


async def logged_in(request: web.Request, session: NewSession, next_page: str) -> web.Response:
    """On to where the person wanted to go, with the session that has begun."""
    next_page = PASSWORD_PATH if session.must_change_password else next_page
    response = web.Response(status=303, headers={"Location": next_page})
    set_session_cookie(request, response, session)
    await mirror_at_login(request, response, session.cookie)
    return response


@routes.post(LOGOUT_PATH, permission=Permission.LOGGED_IN)
async def log_out(request: web.Request) -> web.Response:
    await request.app[SERVICES].logins.logout(cookie_of(request))
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
        session = await request.app[SERVICES].logins.change_password(
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
    template = (
        "users/first_password.html"
        if actor_of(request).must_change_password
        else "users/own_password.html"
    )
    return await render(request, template, {"problems": problems, "error": error}, status=status)
