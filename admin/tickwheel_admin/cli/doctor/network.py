"""Whether browsers and nodes can reach the admins, and what stands between holds nothing back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import aiohttp

from tickwheel_admin.cli.doctor.finding import Finding, error, warning
from tickwheel_admin.web.probe import PAUSE_SECONDS, PIECES
from tickwheel_shared.protocol import LINK_PATH

TIMEOUT_SECONDS = 5.0
PROBE_PATH = "/healthz/stream"
_SPREAD_SECONDS = PAUSE_SECONDS * (PIECES - 1) / 2  # pieces that came closer were held back
_BEHIND = "Look at the address, the firewall and the proxy between; see docs/operations.md."


async def reachability(
    urls: Mapping[str, str], *, timeout: float = TIMEOUT_SECONDS
) -> list[Finding]:
    """What is wrong at each address (what it is, by URL), asked from this machine."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session:
        found = await asyncio.gather(
            *(_collected(_of_address(session, url, what)) for url, what in urls.items())
        )
    return [each for findings in found for each in findings]


async def _collected(findings: AsyncIterator[Finding]) -> list[Finding]:
    return [each async for each in findings]


async def _of_address(
    session: aiohttp.ClientSession, url: str, what: str
) -> AsyncIterator[Finding]:
    name = f"{what} ({url})"
    try:
        async with session.get(f"{url}/healthz") as response:
            body = await _json_of(response)
    except (aiohttp.ClientError, TimeoutError, OSError) as failure:
        told = str(failure) or "no answer in time"
        yield error("network.reach", f"{name} is not reached from here: {told}.", _BEHIND)
        return
    if "checks" not in body:
        yield error(
            "network.reach",
            f"At {name} something else than an admin answers (status {response.status}).",
            _BEHIND,
        )
        return
    for check, answer in body["checks"].items():
        if answer != "ok":
            yield error(
                "admin.health", f"At {name}, {check}: {answer}.", "Look at the admin's log."
            )
    async for finding in _of_stream(session, url, name):
        yield finding
    async for finding in _of_socket(session, url, name):
        yield finding


async def _of_stream(session: aiohttp.ClientSession, url: str, name: str) -> AsyncIterator[Finding]:
    loop = asyncio.get_running_loop()
    arrivals: list[float] = []
    try:
        async with session.get(f"{url}{PROBE_PATH}") as response:
            if response.status == 404:
                return  # an admin of an earlier version
            async for chunk in response.content.iter_any():
                arrivals += [loop.time()] * chunk.count(b"data: ")
    except (aiohttp.ClientError, TimeoutError, OSError):
        pass
    if len(arrivals) < PIECES:
        yield error(
            "network.stream",
            f"{name} does not pass streams on: {len(arrivals)} of {PIECES} pieces came.",
            "Let the proxy pass text/event-stream and wait at least 60 s for the next piece.",
        )
    elif arrivals[-1] - arrivals[0] < _SPREAD_SECONDS:
        yield error(
            "network.stream",
            f"{name} holds streams back: pages show news and logs late, or not at all.",
            "Switch response buffering off in the proxy (nginx: proxy_buffering off).",
        )


async def _of_socket(session: aiohttp.ClientSession, url: str, name: str) -> AsyncIterator[Finding]:
    remedy = (
        f"Let the proxy pass the headers Upgrade and Connection at {LINK_PATH} with HTTP/1.1; see"
        " docs/operations.md."
    )
    got = 0
    try:
        async with session.ws_connect(f"{url}{PROBE_PATH}", timeout=_ws_timeout()) as socket:
            async for _ in socket:
                got += 1
    except aiohttp.WSServerHandshakeError as failure:
        if failure.status == 404:
            return
        what = f"{name} does not pass WebSockets on (status {failure.status})"
        yield error("network.websocket", f"{what}: no node can connect there.", remedy)
        return
    except (aiohttp.ClientError, TimeoutError, OSError):
        pass
    if got < PIECES:
        yield error("network.websocket", f"{name} breaks WebSockets off after {got}.", remedy)


def _ws_timeout() -> Any:
    return aiohttp.ClientWSTimeout(ws_receive=TIMEOUT_SECONDS, ws_close=TIMEOUT_SECONDS)


async def _json_of(response: aiohttp.ClientResponse) -> dict[str, Any]:
    try:
        body = await response.json(content_type=None)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def proxies(*, console_url: str, public_url: str, trusted: Collection[object]) -> list[Finding]:
    """Whether an admin believes the proxy that its addresses tell of."""
    behind = console_url != public_url or console_url.startswith("https://")
    if not behind or trusted:
        return []
    return [
        warning(
            "network.proxies",
            f"console_url is {console_url}, so a proxy stands before the admins, and"
            " trusted_proxies is empty: all users have the proxy's address, share one limit of"
            " failed logins, and stand so in the audit.",
            "Set TICKWHEEL_TRUSTED_PROXIES to the address of the proxy; see docs/operations.md."
            " If the admin itself speaks TLS and there is no proxy, all is well.",
        )
    ]
