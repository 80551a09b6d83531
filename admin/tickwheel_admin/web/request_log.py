"""One event per request, and a correlation id that ties answer and log together."""

from __future__ import annotations

import secrets
import time

import structlog
from aiohttp import web
from structlog.contextvars import bound_contextvars

from tickwheel_admin.web.client import address_of
from tickwheel_admin.web.routes import Handler

log = structlog.get_logger(__name__)

_CORRELATION_ID: web.RequestKey[str] = web.RequestKey("correlation_id", str)
_QUIET_PREFIXES = ("/static/", "/healthz")  # a probe every second is no news
# Executors of XXL-JOB post there for every few runs; what is refused has a warning of its own.
_QUIET_PATHS = frozenset(
    f"{base}/api/{what}"
    for base in ("", "/xxl-job-admin")
    for what in ("callback", "registry", "registryRemove")
)


def correlation_id_of(request: web.Request) -> str:
    """What a person quotes and the log is searched for."""
    return str(request.get(_CORRELATION_ID, ""))


@web.middleware
async def log_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Outermost, so that it sees what became of every request."""
    correlation_id = secrets.token_hex(8)
    request[_CORRELATION_ID] = correlation_id
    started = time.monotonic()
    with bound_contextvars(correlation_id=correlation_id):
        response = await handler(request)
        # The path only: a query may hold what somebody typed. As it was sent: decoded, it could
        # hold line ends and what steers a terminal.
        path = request.path
        quiet = path.startswith(_QUIET_PREFIXES) or path in _QUIET_PATHS
        emit = log.debug if quiet else log.info
        emit(
            "http.request",
            method=request.method,
            path=request.rel_url.raw_path,
            status=response.status,
            duration_ms=round((time.monotonic() - started) * 1000, 1),
            address=address_of(request),
        )
        return response
