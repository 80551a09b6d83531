"""Certificates of nodes: whether one came, and whether it expires soon.

Only certificates of the authorities in `tls_client_ca` come so far: OpenSSL refuses others, and
expired ones, in the handshake.
"""

from __future__ import annotations

import ssl
import time

import structlog
from aiohttp import web

from tickwheel_admin.web.client import address_of
from tickwheel_admin.web.keys import CONFIG
from tickwheel_shared.protocol import CERTIFICATE_MISSING, ERROR_HEADER

log = structlog.get_logger(__name__)

_MESSAGE = "This admin lets nodes in only with a client certificate."
EXPIRES_SOON_SECONDS = 14 * 86_400


def refuse_without_certificate(request: web.Request) -> web.Response | None:
    """The answer to a node that needs a certificate and showed none; None: let it in."""
    if request.app[CONFIG].tls_client_ca is None:
        return None
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        log.warning("node.certificate_missing", address=address_of(request))
        # The header, too: clients of WebSockets do not see the body of a refusal.
        return web.json_response(
            {"error": {"code": CERTIFICATE_MISSING, "message": _MESSAGE}},
            status=403,
            headers={ERROR_HEADER: CERTIFICATE_MISSING},
        )
    expires_at = ssl.cert_time_to_seconds(certificate["notAfter"])
    if expires_at < time.time() + EXPIRES_SOON_SECONDS:
        log.warning(
            "node.certificate_expires",
            subject=", ".join(
                f"{key}={value}" for part in certificate["subject"] for key, value in part
            ),
            expires_at=certificate["notAfter"],
            address=address_of(request),
        )
    return None
