"""Response headers that keep a browser from doing more than the console needs."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import hdrs, web

from tickwheel_admin.web.client import is_secure
from tickwheel_admin.web.request_log import correlation_id_of

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)


SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    hdrs.SERVER: "tickwheel",  # not which versions of what are in use
}
NO_STORE = "no-store"
"""Pages and answers hold what the person may see now: neither disk nor proxy may keep them."""


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    """For `app.on_response_prepare`, so that static files, streams and errors have them as well."""
    headers = response.headers
    headers.update(SECURITY_HEADERS)
    if correlation_id := correlation_id_of(request):
        headers["X-Correlation-Id"] = correlation_id
    headers.setdefault(hdrs.CACHE_CONTROL, NO_STORE)
    if is_secure(request):
        headers["Strict-Transport-Security"] = "max-age=31536000"
