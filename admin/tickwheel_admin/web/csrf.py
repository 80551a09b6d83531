"""Requests that change something must come from our own pages.

Two independent checks on everything but GET, HEAD and OPTIONS that a browser may have been tricked
into: what the browser says about the page it came from, and a token that only our pages know.
Bearer tokens are sent by programs on purpose and need neither.
"""

from __future__ import annotations

import hmac

from aiohttp import hdrs, web
from yarl import URL

from tickwheel_admin.domain.errors import NotAllowed
from tickwheel_admin.web.body import FORM_TYPES, read_form
from tickwheel_admin.web.identity import csrf_of
from tickwheel_admin.web.keys import CONFIG
from tickwheel_admin.web.routes import Handler, route_of

CSRF_FIELD = "csrf_token"
CSRF_HEADER = "X-CSRF-Token"

_SAFE_METHODS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})


@web.middleware
async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what another site's page made a browser send."""
    route = route_of(request)
    if route is None or request.method in _SAFE_METHODS:
        return await handler(request)
    if route.api and hdrs.AUTHORIZATION in request.headers:
        return await handler(request)
    if not is_from_our_page(request):
        raise NotAllowed("csrf.cross_site", "This request came from another site's page.")
    expected = csrf_of(request)
    sent = await _sent_token(request) if expected else ""
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), expected.encode()):
        raise NotAllowed(
            "csrf.token", "This page is out of date. Reload it, then do the same again."
        )
    return await handler(request)


def is_from_our_page(request: web.Request) -> bool:
    """Also for sockets, which a browser opens from any site's page."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None:
        return True  # no browser of the last years; the token remains
    if origin in (request.app[CONFIG].public_url, request.app[CONFIG].console_url):
        return True
    try:
        # The scheme is not compared: a proxy that ends TLS hides it from us.
        return URL(origin).authority == URL(f"//{request.host}").authority and origin != "null"
    except ValueError:
        return False


async def _sent_token(request: web.Request) -> str:
    if CSRF_HEADER in request.headers:
        return request.headers[CSRF_HEADER]
    if request.content_type in FORM_TYPES:
        return (await read_form(request)).get(CSRF_FIELD, "")
    return ""
