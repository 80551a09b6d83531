"""Calls to executors: bounded in time, size and number, and exact about what was sent.

Whether an unanswered call may have reached the executor decides whether its run may be given to
another: only where it is known that nothing was sent does a call end as `ConnectionRefused` or
`NotSent`. Nothing is sent a second time.

A run costs one call or two, so they are kept cheap: a request's head is made once, and an answer is
read without a stream, a task or a timeout of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from tickwheel_admin.xxl_job.addresses import (
    AddressGuard,
    ForbiddenAddress,
    GuardedResolver,
    InvalidAddress,
    check_literal,
    join,
)
from tickwheel_admin.xxl_job.dialects import Call
from tickwheel_admin.xxl_job.http.connections import KEPT_SECONDS as KEPT_SECONDS
from tickwheel_admin.xxl_job.http.connections import (
    ConnectionBroken,
    ConnectionPool,
    Endpoint,
    NobodyListens,
)
from tickwheel_admin.xxl_job.http.host_names import HostNames
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
    is_new_connection: bool = field(
        default=False, compare=False
    )  # no earlier call of its kind left one


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
        self._names = HostNames(resolver or GuardedResolver(guard))
        self._nodes: dict[str, _Node] = {}
        self._is_closed = False
        self._beats = ConnectionPool(MAX_BEATS, self._names)
        self._orders = ConnectionPool(MAX_ORDERS, self._names)
        self._logs = ConnectionPool(MAX_LOGS, self._names)
        self._silent = ConnectionPool(MAX_SILENT, self._names)

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
        if self._is_closed:
            raise NotSent("this admin stops")
        node = self._node(address)
        places = node.places
        request = node.request(call, headers)
        is_urgent = call.path in _URGENT
        if not places.enter(is_urgent=is_urgent):
            try:
                seconds -= await places.wait(is_urgent=is_urgent, seconds=_connect_seconds(seconds))
            except NoPlace:
                raise NotSent("too many calls to this node are under way") from None
        try:
            pool = self._pool(places, call)
            reply = await self._call(pool, node.endpoint, request, seconds, max_bytes)
        except NoAnswer:
            places.is_silent = True
            raise
        except NotSent:
            # A call for a log may have waited for others' logs.
            places.is_silent = places.is_silent or call.path != _LOG
            raise
        else:
            places.is_silent = False
            return reply
        finally:
            places.leave()

    async def close(self) -> None:
        """Break off what is under way."""
        self._is_closed = True
        for pool in (self._beats, self._orders, self._logs, self._silent):
            pool.close()
        await self._names.close()

    def _pool(self, places: NodePlaces, call: Call) -> ConnectionPool:
        if places.is_silent:
            return self._silent
        if call.path == _BEAT:
            return self._beats
        return self._logs if call.path == _LOG else self._orders

    def _node(self, address: str) -> _Node:
        node = self._nodes.get(address)
        if node is None:
            try:
                check_literal(self._guard, address)
                node = _Node(address)
            except (ForbiddenAddress, InvalidAddress, ValueError) as error:
                raise NotSent(str(error)) from None
            if len(self._nodes) >= _MAX_NODES:
                self._nodes = {
                    key: kept for key, kept in self._nodes.items() if kept.places.is_in_use
                }
            self._nodes[address] = node
        return node

    async def _call(
        self,
        pool: ConnectionPool,
        endpoint: Endpoint,
        request: bytes,
        seconds: float,
        max_bytes: int,
    ) -> Reply:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        try:
            # Ends before the whole does: where that ends, something may have been sent.
            connection = await pool.take(endpoint, seconds=_connect_seconds(seconds))
        except NobodyListens as error:
            raise ConnectionRefused(str(error)) from None
        except TimeoutError:
            raise NotSent("no connection in time") from None
        except (OSError, ValueError) as error:
            raise NotSent((str(error) or type(error).__name__)[:300]) from None
        is_new = connection.is_new
        try:
            answer = await connection.call(
                request, seconds=until - loop.time(), max_bytes=max_bytes
            )
        except TimeoutError:
            raise NoAnswer(f"no answer within {seconds:g} s") from None
        except ConnectionBroken as error:
            raise NoAnswer(str(error)) from None
        finally:
            pool.leave(endpoint, connection)
        return Reply(answer.status, answer.body, answer.is_truncated, is_new)


class _Node:
    """One executor's process, as calls need it. Raises ValueError when the address has no host."""

    __slots__ = ("_address", "_heads", "endpoint", "places")

    def __init__(self, address: str) -> None:
        self.endpoint = Endpoint.of(address)
        self.places = NodePlaces()
        self._address = address
        self._heads: dict[str, tuple[Mapping[str, str], bytes]] = {}  # by path

    def request(self, call: Call, headers: Mapping[str, str]) -> bytes:
        """What is sent. Raises NotSent: it would not be what was meant."""
        kept = self._heads.get(call.path)
        if kept is None or kept[0] != headers:
            kept = self._heads[call.path] = (dict(headers), self._head(call.path, headers))
        return b"%b%d\r\n\r\n%b" % (kept[1], len(call.body), call.body)

    def _head(self, path: str, headers: Mapping[str, str]) -> bytes:
        """Everything before the length of the body."""
        url = urlsplit(join(self._address, path))
        default_port = 443 if self.endpoint.is_tls else 80
        host = url.netloc
        if url.port == default_port:
            host = host.removesuffix(f":{default_port}")
        lines = [
            f"POST {url.path} HTTP/1.1",
            f"Host: {host}",
            "Accept: application/json",
            "Accept-Encoding: identity",  # a packed answer could unpack to a huge one
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        if any(char < " " or char == "\x7f" for line in lines for char in line):
            raise NotSent("a header of the call holds a control character")
        return "\r\n".join([*lines, "Content-Length: "]).encode()


def _connect_seconds(seconds: float) -> float:
    return min(CONNECT_SECONDS, seconds * 0.95)
