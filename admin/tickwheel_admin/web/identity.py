"""Who asks, and whether the route lets them: nothing is answered without a declared permission.

Console routes know people by the session cookie. API routes also take an API token
(`Authorization: Bearer twt_…`); when that header is there, only it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from urllib.parse import quote

from aiohttp import hdrs, web

from tickwheel_admin.domain.errors import NotAllowed, NotLoggedIn, UserError
from tickwheel_admin.domain.users.user import Actor, Permission, not_in_person
from tickwheel_admin.services.users.logins import NewSession, SessionView
from tickwheel_admin.web.client import address_of, is_secure
from tickwheel_admin.web.errors import wants_json
from tickwheel_admin.web.keys import SERVICES, UNAVAILABLE_WHEN
from tickwheel_admin.web.routes import Handler, Route, route_of

SESSION_COOKIE = "tickwheel_session"
LOGIN_PATH = "/login"
PASSWORD_PATH = "/password"  # noqa: S105 - a path
LOGOUT_PATH = "/logout"

# Entered before anything is read for a request, and left when it is answered. Raises what refuses
# it, and costs next to nothing: who is refused may come back at once and very often.
EarlyCheck = Callable[[web.Request], AbstractAsyncContextManager[None]]
EARLY_CHECKS: web.AppKey[list[EarlyCheck]] = web.AppKey("early_checks")

_ACTOR: web.RequestKey[Actor] = web.RequestKey("actor", Actor)
_SESSION: web.RequestKey[SessionView] = web.RequestKey("session", SessionView)


def actor_of(request: web.Request) -> Actor:
    """Whoever asks; raises NotLoggedIn when nobody is known to."""
    actor = actor_or_none(request)
    if actor is None:
        raise _login_required()
    return actor


def actor_or_none(request: web.Request) -> Actor | None:
    """Whoever asks, for what anybody may see. Known on pages that were not found as well."""
    found: Actor | None = request.get(_ACTOR)
    return found


def csrf_of(request: web.Request) -> str:
    """The token that this session's forms carry; empty without a session."""
    return request[_SESSION].csrf_token if _SESSION in request else ""


def cookie_of(request: web.Request) -> str:
    """The session cookie as it came; empty without one."""
    return request.cookies.get(SESSION_COOKIE, "")


def set_session_cookie(
    request: web.Request, response: web.StreamResponse, session: NewSession
) -> None:
    """Give the browser its session. Without an age: it forgets the cookie when it closes."""
    response.set_cookie(
        SESSION_COOKIE,
        session.cookie,
        path="/",
        httponly=True,
        samesite="Lax",
        secure=is_secure(request),
    )


def clear_session_cookie(request: web.Request, response: web.StreamResponse) -> None:
    """Make the browser forget its session."""
    response.del_cookie(
        SESSION_COOKIE, path="/", httponly=True, samesite="Lax", secure=is_secure(request)
    )


async def are_still_allowed(app: web.Application, requests: Sequence[web.Request]) -> list[bool]:
    """Whether whoever opened these streams could open them now; one read for all of them.

    Where the answer is yes, the request knows what its person may do by now.
    """
    askers = [(cookie_of(request), address_of(request)) for request in requests]
    found = await app[SERVICES].logins.sessions(askers)
    return [
        _still_allows(request, session) for request, session in zip(requests, found, strict=True)
    ]


async def is_still_allowed(request: web.Request) -> bool:
    """The same for one stream, whose asker may have come with a token."""
    route = route_of(request)
    actor = None if route is None else await _find_actor(request, route, touch=False)
    if route is None or actor is None:
        return False
    request[_ACTOR] = actor
    return _refusal(request, route, actor) is None


def _still_allows(request: web.Request, session: SessionView | None) -> bool:
    route = route_of(request)
    if route is None or session is None:
        return False
    request[_SESSION] = session
    request[_ACTOR] = session.actor
    return _refusal(request, route, session.actor) is None


@web.middleware
async def check_permission(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find out who asks and refuse what their roles nowhere allow."""
    route = route_of(request)
    if route is None:
        return await _handle_undeclared(request, handler)
    if route.permission is Permission.PUBLIC:
        return await handler(request)
    async with AsyncExitStack() as checks:
        for check in request.app[EARLY_CHECKS]:
            await checks.enter_async_context(check(request))
        return await _answer(request, route, handler)


async def _answer(request: web.Request, route: Route, handler: Handler) -> web.StreamResponse:
    actor = await _find_actor(request, route, touch=not _is_automatic(request))
    if actor is None:
        return _ask_for_login(request)
    request[_ACTOR] = actor
    refusal = _refusal(request, route, actor)
    if refusal is None:
        return await handler(request)
    if refusal.code == "password.change_required" and not wants_json(request):
        return _redirect(request, PASSWORD_PATH)
    raise refusal


async def _handle_undeclared(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Nothing matched, or a route came in by another way than `Routes`, which is not answered."""
    if request.match_info.http_exception is None:
        raise web.HTTPNotFound
    if cookie_of(request) and not wants_json(request):
        # So that the page that says so can show the frame they know.
        try:
            await _find_session(request, touch=False)
        except request.app[UNAVAILABLE_WHEN]:
            pass
    return await handler(request)


async def _find_actor(request: web.Request, route: Route, *, touch: bool) -> Actor | None:
    if route.api and hdrs.AUTHORIZATION in request.headers:
        scheme, _, bearer = request.headers[hdrs.AUTHORIZATION].partition(" ")
        if scheme.lower() != "bearer":
            return None
        return await request.app[SERVICES].api_tokens.actor_of(
            bearer.strip(), address=address_of(request)
        )
    return await _find_session(request, touch=touch)


async def _find_session(request: web.Request, *, touch: bool) -> Actor | None:
    cookie = cookie_of(request)
    if not cookie:
        return None
    session = await request.app[SERVICES].logins.session(
        cookie, address=address_of(request), touch=touch
    )
    if session is None:
        return None
    request[_SESSION] = session
    request[_ACTOR] = session.actor
    return session.actor


def _refusal(request: web.Request, route: Route, actor: Actor) -> UserError | None:
    if actor.must_change_password and request.path not in (PASSWORD_PATH, LOGOUT_PATH):
        return NotAllowed(
            "password.change_required", "Choose a password of your own in the console first."
        )
    if not actor.may_anywhere(route.permission):
        return NotAllowed(
            "not_allowed",
            "Your role does not allow this; it needs the permission “%(permission)s”.",
            permission=route.permission.value,
        )
    if route.on_all and not actor.may(route.permission):
        return NotAllowed(
            "not_allowed",
            "Your role does not allow this; it needs the permission “%(permission)s” for all"
            " executors.",
            permission=route.permission.value,
        )
    if route.in_person and actor.token_id is not None:
        return not_in_person()
    return None


def _is_automatic(request: web.Request) -> bool:
    """Whether a page fetches this by itself: that must not keep an unattended session alive."""
    return (
        "X-Automatic" in request.headers or request.headers.get(hdrs.ACCEPT) == "text/event-stream"
    )


def _ask_for_login(request: web.Request) -> web.StreamResponse:
    if wants_json(request):
        raise _login_required()
    if request.headers.get("Sec-Fetch-Dest", "document") == "empty" and not _is_htmx(request):
        raise _login_required()  # a script's own fetch, such as an event stream
    if request.method == hdrs.METH_GET and not _is_htmx(request) and request.path_qs != "/":
        return _redirect(request, f"{LOGIN_PATH}?next={quote(request.path_qs, safe='/')}")
    return _redirect(request, LOGIN_PATH)


def _redirect(request: web.Request, path: str) -> web.Response:
    if _is_htmx(request):
        # A redirect would be followed by the script and its page put into a block of this one.
        return web.Response(status=401, headers={"HX-Redirect": path})
    return web.Response(status=303, headers={hdrs.LOCATION: path})


def _is_htmx(request: web.Request) -> bool:
    return "HX-Request" in request.headers or "X-Block" in request.headers


def _login_required() -> NotLoggedIn:
    return NotLoggedIn("login.required", "Log in first, or send a valid API token.")
