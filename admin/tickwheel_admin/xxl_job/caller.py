"""Calls to executors: bounded in time, size and number, and exact about what was sent.

Whether an unanswered call may have reached the executor decides whether its run may be given to
another: only where it is known that nothing was sent does a call end as `ConnectionRefused` or
`NotSent`. Nothing is sent a second time; aiohttp repeats only requests that it knows to be
idempotent, of which POST is none.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import aiohttp
from yarl import URL

from tickwheel_admin.xxl_job.addresses import (
    AddressGuard,
    ForbiddenAddress,
    GuardedResolver,
    InvalidAddress,
    join,
)
from tickwheel_admin.xxl_job.dialects import Call

MAX_ANSWER_BYTES = 256 * 1024
CONNECT_SECONDS = 3.0
MAX_CALLS = 600  # at the same time, to all executors
MAX_CALLS_PER_NODE = 20
_RESERVED = 4  # of those for calls that must come through: is it there, end that run
_URGENT = frozenset(("/beat", "/idleBeat", "/kill"))
_MAX_CALLS_WHILE_SILENT = 2  # besides the urgent ones, to a node that let a call time out
_KEPT_SECONDS = 4.0  # Node closes idle connections after 5 s, and we must not meet that
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
        self._nodes: dict[str, _Node] = {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MAX_CALLS,
                keepalive_timeout=_KEPT_SECONDS,
                resolver=self._resolver,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Packed answers are refused as unreadable: a small one must not unpack to a large one.
            auto_decompress=False,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            skip_auto_headers=("User-Agent",),
        )

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
        if self._session.closed:
            raise NotSent("this admin stops")
        node = self._node(address)
        is_urgent = call.path in _URGENT
        if not node.enter(is_urgent=is_urgent):
            seconds -= await node.wait(is_urgent=is_urgent, seconds=_connect_seconds(seconds))
        try:
            reply = await self._call(node.url(call.path), call.body, headers, seconds, max_bytes)
        except NoAnswer:
            node.is_silent = True
            raise
        else:
            node.is_silent = False
            return reply
        finally:
            node.leave()

    async def close(self) -> None:
        """Break off what is under way."""
        await self._session.close()
        await self._resolver.close()

    def _node(self, address: str) -> _Node:
        node = self._nodes.get(address)
        if node is None:
            try:
                self._guard.check_literal(address)
            except (ForbiddenAddress, InvalidAddress, ValueError) as error:
                raise NotSent(str(error)) from None
            if len(self._nodes) >= _MAX_NODES:
                self._nodes = {key: kept for key, kept in self._nodes.items() if kept.is_in_use}
            node = self._nodes[address] = _Node(address)
        return node

    async def _call(
        self, url: URL, body: bytes, headers: Mapping[str, str], seconds: float, max_bytes: int
    ) -> Reply:
        timeout = aiohttp.ClientTimeout(
            total=seconds,
            # Ends before the whole does: where that ends, something may have been sent.
            connect=_connect_seconds(seconds),
            ceil_threshold=3600,  # else times beyond 5 s are rounded to whole seconds
        )
        try:
            async with self._session.post(
                url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                return await _read(response, max_bytes)
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


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> Reply:
    content = response.content
    body = await content.read(max_bytes + 1)
    while len(body) <= max_bytes:
        piece = await content.read(max_bytes + 1 - len(body))
        if not piece:
            return Reply(response.status, body, truncated=False)
        body += piece
    response.close()  # not read on to its end, which may be far
    return Reply(response.status, body[:max_bytes], truncated=True)


class _Node:
    """The calls that one executor's process has at the moment."""

    __slots__ = ("_address", "_count", "_ordinary", "_urgent", "_urls", "is_silent")

    def __init__(self, address: str) -> None:
        self._address = address
        self._urls: dict[str, URL] = {}
        self._count = 0
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._ordinary: deque[asyncio.Future[None]] = deque()
        self.is_silent = False  # its last answer did not come

    @property
    def is_in_use(self) -> bool:
        return bool(self._count or self._urgent or self._ordinary)

    def url(self, path: str) -> URL:
        """Of one of its paths."""
        found = self._urls.get(path)
        if found is None:
            found = self._urls[path] = URL(join(self._address, path), encoded=True)
        return found

    def enter(self, *, is_urgent: bool) -> bool:
        """Take a place, if one is free."""
        if self._count >= self._places(is_urgent):
            return False
        self._count += 1
        return True

    async def wait(self, *, is_urgent: bool, seconds: float) -> float:
        """Wait for a place; returns for how many seconds.

        Raises:
            NotSent: none came free in time.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        place: asyncio.Future[None] = loop.create_future()
        waiting = self._urgent if is_urgent else self._ordinary
        waiting.append(place)
        try:
            async with asyncio.timeout(seconds):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.leave()  # it came free in the same moment
            elif place in waiting:
                waiting.remove(place)
            if isinstance(error, TimeoutError):
                raise NotSent("too many calls to this node are under way") from None
            raise
        return loop.time() - began

    def leave(self) -> None:
        """Give the place back."""
        self._count -= 1
        for is_urgent, waiting in ((True, self._urgent), (False, self._ordinary)):
            while waiting and self._count < self._places(is_urgent):
                place = waiting.popleft()
                if not place.done():  # else its call was given up
                    self._count += 1
                    place.set_result(None)

    def _places(self, is_urgent: bool) -> int:
        if is_urgent:
            return MAX_CALLS_PER_NODE
        return _MAX_CALLS_WHILE_SILENT if self.is_silent else MAX_CALLS_PER_NODE - _RESERVED
