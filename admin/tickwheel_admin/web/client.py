"""Where a request came from and how, also behind proxies, and whether its client is there."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiohttp import hdrs, web

from tickwheel_admin.config import Network
from tickwheel_admin.web.keys import CONFIG

T = TypeVar("T")

LOOK_SECONDS = 0.25  # between two looks at the connection


def address_of(request: web.Request) -> str:
    """The client's address: the nearest one in the chain that is not a trusted proxy."""
    address = request.remote or ""
    trusted = request.app[CONFIG].trusted_proxies
    # From the right: what stands further left was written by whoever is not trusted.
    hops = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",")]
    while hops and _is_within(address, trusted):
        hop = hops.pop()
        if _parsed(hop) is None:
            break
        address = hop
    return address


def user_agent_of(request: web.Request) -> str:
    """What the client says of itself, as text that can be stored: it may have sent any bytes."""
    sent = request.headers.get(hdrs.USER_AGENT, "").encode(errors="replace").decode()
    return "".join(char if char.isprintable() else "?" for char in sent)


def is_secure(request: web.Request) -> bool:
    """Whether the browser came by TLS, to this admin or to a trusted proxy before it."""
    config = request.app[CONFIG]
    if request.secure or config.is_public_over_tls:
        return True
    if not _is_within(request.remote or "", config.trusted_proxies):
        return False
    return request.headers.get("X-Forwarded-Proto", "").strip().lower() == "https"


def _is_within(address: str, networks: tuple[Network, ...]) -> bool:
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in networks)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


async def while_present(request: web.Request, work: Coroutine[Any, Any, T]) -> T:
    """What the work returns or raises; it is cancelled when the client has closed the connection.

    Raises:
        ConnectionResetError: the client has gone.
    """
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK_SECONDS)
            transport = request.transport
            if not task.done() and (transport is None or transport.is_closing()):
                raise ConnectionResetError("the client has gone")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
