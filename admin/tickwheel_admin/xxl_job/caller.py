"""Calls to executors: bounded in time, size and number, and exact about what was sent.

Whether an unanswered call may have reached the executor decides whether its run may be given to
another: only where it is known that nothing was sent does a call end as `ConnectionRefused` or
`NotSent`. Nothing is sent a second time; aiohttp repeats only requests that it knows to be
idempotent, of which POST is none.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from yarl import URL

from tickwheel_admin.xxl_job.addresses import (
    AddressGuard,
    ForbiddenAddress,
    GuardedResolver,
    InvalidAddress,
)
from tickwheel_admin.xxl_job.dialects import Call
from tickwheel_admin.xxl_job.places import NodePlaces, NoPlace

MAX_ANSWER_BYTES = 256 * 1024
CONNECT_SECONDS = 3.0
# Connections to all executors at the same time, of each kind. Whatever one kind does, the others
# find theirs: logs hold up no beat, and nodes that are silent hold up nobody but each other.
MAX_BEATS = 400
MAX_ORDERS = 400  # to run something, to end it, and questions whether it runs
MAX_LOGS = 100
MAX_SILENT = 200  # of any kind, to nodes whose last call was not answered
_BEAT, _LOG = "/beat", "/log"
_URGENT = frozenset((_BEAT, "/idleBeat", "/kill"))
KEPT_SECONDS = 4.0  # Node closes idle connections after 5 s, and we must not meet that
_MAX_NODES = 4096  # remembered ones


class ConnectionRefused(Exception):
    """Nobody listens there: nothing was sent."""


class NotSent(Exception):
    """No connection came about: nothing was sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NoAnswer(Exception):
    """Sent, perhaps, and no answer came in time, or the connection broke."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, as it came."""

    status: int  # of HTTP; redirects are not followed
    body: bytes
    truncated: bool  # there was more of it
    is_new_connection: bool = False  # of a beat: none was left of the last one


class NodeCaller(Protocol):
    """A way to call executors."""

    async def call(
        self,
        address: str,
        call: Call,
        headers: Mapping[str, str],
        *,
        seconds: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Reply:
        """Make the call once.

        Args:
            address: normalised.
            call: what is said.
            headers: of the executor.
            seconds: for all of it, from the name's resolution to the answer's last byte.
            max_bytes: of the answer, at which it is cut.

        Raises:
            ConnectionRefused: nobody listens there; nothing was sent.
            NotSent: nothing was sent, for another reason.
            NoAnswer: it is not known what became of it.
        """
        ...


class HttpCaller(NodeCaller):
    """Calls over HTTP; to be made and used in one event loop.

    Args:
        guard: which addresses may be called.
        resolver: of names; the system's, guarded, when not given.
    """

    def __init__(self, guard: AddressGuard, *, resolver: GuardedResolver | None = None) -> None:
        self._guard = guard
        self._resolver = resolver or GuardedResolver(guard)
        self._nodes: dict[str, NodePlaces] = {}
        self._beats = self._made(MAX_BEATS, trace_configs=[_noting_new_connections()])
        self._orders = self._made(MAX_ORDERS)
        self._logs = self._made(MAX_LOGS)
        self._silent = self._made(MAX_SILENT)

    async def call(
        self,
        address: str,
        call: Call,
        headers: Mapping[str, str],
        *,
        seconds: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Reply:
        """Make the call once; see `NodeCaller.call`."""
        if self._orders.closed:
            raise NotSent("this admin stops")
        node = self._node(address)
        is_urgent = call.path in _URGENT
        if not node.enter(is_urgent=is_urgent):
            try:
                seconds -= await node.wait(is_urgent=is_urgent, seconds=_connect_seconds(seconds))
            except NoPlace:
                raise NotSent("too many calls to this node are under way") from None
        try:
            reply = await self._call(
                self._session(node, call),
                node.url(call.path),
                call.body,
                headers,
                seconds,
                max_bytes,
            )
        except NoAnswer:
            node.is_silent = True
            raise
        except NotSent:
            # A call for a log may have waited for others' logs.
            node.is_silent = node.is_silent or call.path != _LOG
            raise
        else:
            node.is_silent = False
            return reply
        finally:
            node.leave()

    async def close(self) -> None:
        """Break off what is under way."""
        for session in (self._beats, self._orders, self._logs, self._silent):
            await session.close()
        await self._resolver.close()

    def _made(self, limit: int, **more: Any) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=limit,
                keepalive_timeout=KEPT_SECONDS,
                resolver=self._resolver,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Packed answers are refused as unreadable: a small one must not unpack to a large one.
            auto_decompress=False,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            skip_auto_headers=("User-Agent",),
            **more,
        )

    def _session(self, node: NodePlaces, call: Call) -> aiohttp.ClientSession:
        if node.is_silent:
            return self._silent
        if call.path == _BEAT:
            return self._beats
        return self._logs if call.path == _LOG else self._orders

    def _node(self, address: str) -> NodePlaces:
        node = self._nodes.get(address)
        if node is None:
            try:
                self._guard.check_literal(address)
            except (ForbiddenAddress, InvalidAddress, ValueError) as error:
                raise NotSent(str(error)) from None
            if len(self._nodes) >= _MAX_NODES:
                self._nodes = {key: kept for key, kept in self._nodes.items() if kept.is_in_use}
            node = self._nodes[address] = NodePlaces(address)
        return node

    async def _call(
        self,
        session: aiohttp.ClientSession,
        url: URL,
        body: bytes,
        headers: Mapping[str, str],
        seconds: float,
        max_bytes: int,
    ) -> Reply:
        noted = _Noted()
        timeout = aiohttp.ClientTimeout(
            total=seconds,
            # Ends before the whole does: where that ends, something may have been sent.
            connect=_connect_seconds(seconds),
            ceil_threshold=3600,  # else times beyond 5 s are rounded to whole seconds
        )
        try:
            async with session.post(
                url,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                trace_request_ctx=noted,
            ) as response:
                body, truncated = await _read(response, max_bytes)
                return Reply(response.status, body, truncated, noted.is_new_connection)
        except aiohttp.ClientConnectorError as error:
            if error.errno == errno.ECONNREFUSED:
                raise ConnectionRefused(str(error)) from None
            raise NotSent(str(error.os_error) or type(error).__name__) from None
        except aiohttp.ConnectionTimeoutError:
            raise NotSent("no connection in time") from None
        except (aiohttp.InvalidURL, aiohttp.ClientSSLError) as error:
            raise NotSent(f"{type(error).__name__}: {error}"[:300]) from None
        except TimeoutError:
            raise NoAnswer(f"no answer within {seconds:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}"[:300]) from None


def _connect_seconds(seconds: float) -> float:
    return min(CONNECT_SECONDS, seconds * 0.95)


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    """The answer's body, and whether there was more of it."""
    content = response.content
    body = await content.read(max_bytes + 1)
    while len(body) <= max_bytes:
        piece = await content.read(max_bytes + 1 - len(body))
        if not piece:
            return body, False
        body += piece
    response.close()  # not read on to its end, which may be far
    return body[:max_bytes], True


@dataclass(slots=True)
class _Noted:
    """What a call met on its way."""

    is_new_connection: bool = False


def _noting_new_connections() -> aiohttp.TraceConfig:
    config = aiohttp.TraceConfig()

    async def note(_session: object, context: Any, _parameters: object) -> None:
        context.trace_request_ctx.is_new_connection = True

    config.on_connection_create_end.append(note)
    return config
