"""Log in at the OpenID provider: off to it, and back with its answer."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.config_oidc import CALLBACK_PATH
from tickwheel_admin.console.users.session import logged_in, login_page
from tickwheel_admin.domain.errors import Unavailable, UserError
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.users.oidc.attempt import VALID_MS
from tickwheel_admin.web.client import address_of, is_secure, user_agent_of
from tickwheel_admin.web.identity import cookie_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.request_log import correlation_id_of
from tickwheel_admin.web.routes import Routes

BEGIN_PATH = "/login/oidc"

routes = Routes()


@routes.get(BEGIN_PATH, permission=Permission.PUBLIC)
async def begin(request: web.Request) -> web.StreamResponse:
    """Send the browser to the provider, from the address that it will be sent back to."""
    next_page = safe_next(request.query.get("next"))
    oidc, config = request.app[SERVICES].oidc, request.app[CONFIG]
    if oidc is None:
        raise web.HTTPNotFound
    if request.host != _host_of(config.console_url) and "here" not in request.query:
        # The cookie would be kept for another host than that of the callback. Once: a proxy that
        # hides the host from us must not send the browser round in circles.
        url = f"{config.console_url}{request.rel_url.update_query(here='yes')}"
        return web.Response(status=303, headers={"Location": url})
    try:
        begun = await oidc.begin(next_page)
    except Unavailable as error:
        return await _failed(request, error, next_page)
    response = web.Response(status=303, headers={"Location": begun.url})
    response.set_cookie(
        _cookie_name(request),
        begun.cookie,
        max_age=VALID_MS // 1000,
        path="/",
        httponly=True,
        samesite="Lax",  # sent when the provider sends the browser back
        secure=is_secure(request),
    )
    return response


@routes.get(CALLBACK_PATH, permission=Permission.PUBLIC)
async def finish(request: web.Request) -> web.StreamResponse:
    """Let in whomever the provider says it is; the cookie is good for one answer."""
    oidc = request.app[SERVICES].oidc
    if oidc is None:
        raise web.HTTPNotFound
    try:
        finished = await oidc.finish(
            # The first of each: a parameter that is sent twice must not be read in two ways.
            {name: request.query.getone(name) for name in request.query},
            cookie=request.cookies.get(_cookie_name(request), ""),
            address=address_of(request),
            user_agent=user_agent_of(request),
            replaces=cookie_of(request),
        )
    except UserError as error:
        response = await _failed(request, error, "/")
    else:
        response = await logged_in(request, finished.session, safe_next(finished.next_page))
    response.del_cookie(
        _cookie_name(request),
        path="/",
        httponly=True,
        samesite="Lax",
        secure=is_secure(request),
    )
    return response


async def _failed(request: web.Request, error: UserError, next_page: str) -> web.Response:
    # Only what is not of the person's making is worth looking up.
    reference = correlation_id_of(request) if isinstance(error, Unavailable) else ""
    return await login_page(request, next_page=next_page, error=error, reference=reference)


def _cookie_name(request: web.Request) -> str:
    # With this prefix browsers take the cookie from this very host by TLS only, from no neighbour.
    return "__Host-tickwheel_oidc" if is_secure(request) else "tickwheel_oidc"


def _host_of(url: str) -> str:
    return url.partition("://")[2]
