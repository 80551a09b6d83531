"""Why a WebSocket to an admin did not open, with a hint where to look."""

from __future__ import annotations

import os
import ssl

import aiohttp

from tickwheel_executor.errors import ConnectError, UnauthorizedError
from tickwheel_shared.protocol import CERTIFICATE_MISSING, ERROR_HEADER

_AWAY = (500, 502, 503, 504)  # an admin, or a proxy before it, that is starting or broken


def explain(error: Exception, url: str) -> ConnectError:
    """The error to raise for an error of aiohttp, ssl or the system at this base URL."""
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return _answered(error)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return ConnectError(f"the name of its host cannot be resolved ({_system(error.os_error)})")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", error.certificate_error)
        return ConnectError(
            f"its certificate is not trusted ({reason}); if it comes from an authority of your "
            "own, name its file in ca_file or TICKWHEEL_CA_FILE"
        )
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return ConnectError(
            f"no TLS connection ({_tls(error.os_error)}); is its URL http:// and not https://?"
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        return ConnectError(f"it cannot be reached ({_system(error.os_error)})")
    if isinstance(error, aiohttp.ServerDisconnectedError):
        hint = "" if url.startswith("https:") else "; is its URL https://?"
        return ConnectError(f"it closed the connection without an answer{hint}")
    if isinstance(error, aiohttp.ClientResponseError):
        return ConnectError("what answers there does not speak HTTP; is the port right?")
    return ConnectError(str(error) or type(error).__name__)


def _answered(error: aiohttp.WSServerHandshakeError) -> ConnectError:
    status = error.status
    if error.headers is not None and error.headers.get(ERROR_HEADER) == CERTIFICATE_MISSING:
        return ConnectError(
            "it lets nodes in only with a client certificate, and none came; set client_cert, and "
            "connect without a proxy that ends TLS"
        )
    if status in (401, 403):
        return UnauthorizedError(f"it answered {status}")
    if status in _AWAY:
        return ConnectError(f"it answered {status}: it is starting, or in trouble")
    if status == 404:
        return ConnectError(
            "it answered 404: at this URL is no Tickwheel admin, or one so much older or newer "
            "that it does not know this SDK's protocol"
        )
    return ConnectError(
        f"it answered {status} in place of a WebSocket: what is there is no Tickwheel admin, or a "
        "proxy before it that does not let WebSockets through"
    )


def _system(error: OSError) -> str:
    """The message of the system, such as "Connection refused"."""
    number = error.errno
    if number is not None and number > 0:
        return os.strerror(number)  # asyncio's own text repeats the address
    return error.strerror or str(error) or type(error).__name__


def _tls(error: OSError) -> str:
    reason = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else None
    return str(reason or error).lower().replace("_", " ")
