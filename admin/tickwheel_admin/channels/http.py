"""Calls of webhooks and bots: guarded, bounded in time and size, and judged by their answer."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from tickwheel_admin.channels.masking import told
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.network_guard import AddressGuard, ForbiddenAddress
from tickwheel_admin.engine.alarms.ports import Undelivered

CALL_SECONDS = 10.0
CONNECT_SECONDS = 5.0
MAX_ANSWER_BYTES = 64 * 1024
MAX_RETRY_AFTER_SECONDS = 3_600.0
_MAX_CONNECTIONS = 50
_MOVED = (301, 308)
# Refusals that may be none a moment later; every other 4xx stays what it is.
_PASSING = (408, 409, 423, 425, 429)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer that is no refusal by its status."""

    status: int
    body: bytes  # the first 64 KiB

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


class ChannelHttp:
    """One session for all channels; made when it is first used, in the running loop.

    Args:
        guard: which addresses may be called.
        resolver: of names; gives only addresses that may be called. Closed with this.
        tls: whom to trust; None: the system's authorities.
    """

    def __init__(
        self,
        guard: AddressGuard,
        resolver: AbstractResolver,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._resolver = resolver
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, channel: Channel, url: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> HttpReply | Undelivered:
        """Send JSON once; nothing is followed or sent again."""
        try:
            target = URL(url)
            self._check_literal(target)
            return await self._post(channel, target, body, headers or {})
        except ForbiddenAddress as error:  # another admin's configuration may allow it
            return Undelivered(why=told(f"Not called: {error}", channel))
        except aiohttp.ClientConnectorCertificateError as error:  # a ValueError as well
            return Undelivered(why=told(f"The certificate is refused: {error}", channel))
        except (ValueError, aiohttp.InvalidURL):
            return Undelivered(why="The URL cannot be read.", permanent=True)
        except TimeoutError:
            return Undelivered(why=f"No answer within {CALL_SECONDS:.0f} s.")
        except aiohttp.ClientConnectorError as error:
            cause = error.os_error
            if isinstance(cause, ForbiddenAddress):
                return Undelivered(why=told(f"Not called: {cause}", channel))
            return Undelivered(why=told(f"No connection: {cause}", channel))
        except (aiohttp.ClientError, OSError) as error:
            return Undelivered(why=told(f"{type(error).__name__}: {error}", channel))

    async def close(self) -> None:
        """End connections and the resolver."""
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    def _check_literal(self, url: URL) -> None:
        """An IP address in the URL is not resolved, so it is checked here."""
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError("no URL of http")
        try:
            ip = ip_address(url.host.partition("%")[0])
        except ValueError:
            return
        self._guard.check(ip)

    async def _post(
        self, channel: Channel, url: URL, body: bytes, headers: Mapping[str, str]
    ) -> HttpReply | Undelivered:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=_MAX_CONNECTIONS,
                resolver=self._resolver,
                use_dns_cache=False,  # who may be called is decided at each connection
                force_close=True,
                ssl=self._tls if self._tls is not None else True,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS),
                auto_decompress=False,
            )
        own = {
            "Content-Type": "application/json; charset=utf-8",
            "Accept-Encoding": "identity",
            "User-Agent": "Tickwheel",
        }
        async with self._session.post(
            url, data=body, headers={**own, **headers}, allow_redirects=False
        ) as answer:
            reply = HttpReply(answer.status, await _read(answer))
            if answer.status // 100 == 2:
                return reply
            return _refusal(channel, reply, answer.headers)


def retry_after(text: str) -> float | None:
    """Seconds of a Retry-After header, at most an hour; None: there is none that can be read."""
    text = text.strip()
    try:
        seconds = (
            float(text)
            if text.isascii() and text.replace(".", "", 1).isdigit()
            else (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        )
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The first 64 KiB; whatever else there is goes with the connection."""
    found = bytearray()
    while len(found) < MAX_ANSWER_BYTES:
        piece = await answer.content.read(MAX_ANSWER_BYTES - len(found))
        if not piece:
            break
        found += piece
    return bytes(found)


def _refusal(channel: Channel, reply: HttpReply, headers: Mapping[str, str]) -> Undelivered:
    status = reply.status
    if 300 <= status < 400:
        return Undelivered(
            why=f"Answered {status}: redirects are not followed.", permanent=status in _MOVED
        )
    return Undelivered(
        why=told(
            f"Answered {status}: {reply.text}" if reply.body else f"Answered {status}", channel
        ),
        retry_after_seconds=retry_after(headers.get("Retry-After", "")),
        permanent=400 <= status < 500 and status not in _PASSING,
    )
