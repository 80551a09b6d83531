"""`/metrics`: for people and tokens that may see everything, and for scrapers on a port of its own.

That port has nothing else. It takes no logins: whoever reaches it may read, unless the setting
`metrics_token` demands a token of its own.
"""

from __future__ import annotations

import hmac

from aiohttp import hdrs, web

from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.metrics.exposition import MetricsPage
from tickwheel_admin.web.headers import NO_STORE, SECURITY_HEADERS
from tickwheel_admin.web.routes import Routes

PATH = "/metrics"
METRICS: web.AppKey[MetricsPage] = web.AppKey("metrics", MetricsPage)
_TOKEN: web.AppKey[str | None] = web.AppKey("metrics_token")

routes = Routes()


# On all executors: their names are labels, and many figures are of everything together.
@routes.get(PATH, permission=Permission.VIEW, api=True, on_all=True)
async def show(request: web.Request) -> web.Response:
    """The page for whoever may see everything."""
    return await _page(request)


def create_metrics_application(page: MetricsPage, token: str | None) -> web.Application:
    """An application with the page and nothing else.

    Args:
        token: that scrapers must send; None: none.
    """
    app = web.Application(client_max_size=1)
    app[METRICS] = page
    app[_TOKEN] = token
    app.router.add_get(PATH, _show_to_scraper)
    app.on_response_prepare.append(_add_headers)
    return app


async def _show_to_scraper(request: web.Request) -> web.Response:
    token = request.app[_TOKEN]
    if token is not None and not hmac.compare_digest(_bearer(request), token.encode()):
        return web.Response(
            status=401,
            text="The bearer token is missing or wrong; the setting metrics_token has it.\n",
            headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
        )
    return await _page(request)


async def _page(request: web.Request) -> web.Response:
    body, media_type = await request.app[METRICS].render(request.headers.get(hdrs.ACCEPT, ""))
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: media_type})


def _bearer(request: web.Request) -> bytes:
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    return token.strip().encode(errors="replace") if scheme.lower() == "bearer" else b""


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)
    response.headers[hdrs.CACHE_CONTROL] = NO_STORE
