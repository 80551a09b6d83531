"""Answers to what never becomes a request: in our own words, with nothing of what runs here.

aiohttp answers by itself what its parser refuses, and what it refuses before our middleware has its
turn. It would name its version and Python's, quote the parser, and write a trace into the log for
every line of rubbish that somebody sends.
"""

from __future__ import annotations

import secrets

import structlog
from aiohttp import hdrs, web
from aiohttp.http_exceptions import LineTooLong

from tickwheel_admin.web.errors import json_refusal
from tickwheel_admin.web.headers import NO_STORE, SECURITY_HEADERS
from tickwheel_admin.web.i18n import negotiate

log = structlog.get_logger(__name__)


def refuse_broken(
    request: web.BaseRequest, status: int, error: BaseException | None
) -> web.Response:
    """The answer to a request that none of our handlers saw; its connection closes.

    Always JSON: whether a program or a person asked cannot be known, and both can read it.

    Args:
        status: what aiohttp would answer.
        error: why; None when it is an answer of aiohttp's own.
    """
    correlation_id = secrets.token_hex(8)
    if isinstance(error, LineTooLong):
        status = web.HTTPRequestHeaderFieldsTooLarge.status_code
    if status >= 500:
        # The last resort, as in `answer_errors`: the log has the trace.
        log.error("http.failed", correlation_id=correlation_id, exc_info=error)
    else:
        log.info(
            "http.broken",
            correlation_id=correlation_id,
            status=status,
            # Its text quotes the request, and with it what somebody typed.
            reason=type(error).__name__ if error is not None else "",
            address=request.remote or "",
        )
    language = negotiate(request.headers.get(hdrs.ACCEPT_LANGUAGE, ""))
    response = json_refusal(status, correlation_id, language)
    response.headers.update(SECURITY_HEADERS)
    response.headers["X-Correlation-Id"] = correlation_id
    response.headers[hdrs.CACHE_CONTROL] = NO_STORE
    response.force_close()
    return response
