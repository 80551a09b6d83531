"""The application that pages, endpoints and sockets are added to, with all it does for them."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.config import Config
from tickwheel_admin.web import health
from tickwheel_admin.web.body import MAX_BODY_BYTES
from tickwheel_admin.web.csrf import check_origin
from tickwheel_admin.web.errors import answer_errors, note_begun
from tickwheel_admin.web.headers import add_security_headers
from tickwheel_admin.web.identity import EARLY_CHECKS, check_permission
from tickwheel_admin.web.keys import CONFIG, UNAVAILABLE_WHEN
from tickwheel_admin.web.pace import PACE, Pace, keep_pace
from tickwheel_admin.web.probe import add_probe
from tickwheel_admin.web.request_log import log_request


def create_web_application(
    config: Config, *, unavailable_when: tuple[type[Exception], ...]
) -> web.Application:
    """An application with limits, identity, errors and headers, and /healthz alone.

    Args:
        unavailable_when: what the layers below raise when the database is away.
    """
    app = web.Application(
        client_max_size=MAX_BODY_BYTES,
        # From the outside in: the log sees every answer, errors are answered whoever raises them,
        # nobody unknown gets as far as having a body read.
        middlewares=[log_request, keep_pace, answer_errors, check_permission, check_origin],
    )
    app[CONFIG] = config
    app[UNAVAILABLE_WHEN] = unavailable_when
    app[health.CHECKS] = {}
    app[EARLY_CHECKS] = []
    app[PACE] = Pace()
    app.on_response_prepare.append(add_security_headers)
    app.on_response_prepare.append(note_begun)
    health.routes.add_to(app)
    add_probe(app)
    return app
