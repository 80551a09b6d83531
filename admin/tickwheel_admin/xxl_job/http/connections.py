"""Connections to executors: opened, kept for a moment, and used for one call at a time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from tickwheel_admin.xxl_job.addresses import literal_ip
from tickwheel_admin.xxl_job.http.answers import AnswerReader, BadHttp
from tickwheel_admin.xxl_job.http.host_names import HostNames

KEPT_SECONDS = 4.0  # Node closes idle connections after 5 s, and we must not meet that
SWEEP_SECONDS = 1.0  # between two looks for idle connections to close


class ConnectionBroken(Exception):
    """The connection broke, or what came is no answer; something may have been sent."""


class NobodyListens(Exception):
    """Nobody listens there."""


class Endpoint(NamedTuple):
    """Where an executor listens."""

    host: str
    port: int
    is_literal: bool  # the host is an IP address, and was checked
    is_tls: bool

    @classmethod
    def of(cls, address: str) -> Endpoint:
        """Of a normalised address; raises ValueError."""
        parts = urlsplit(address)
        is_tls = parts.scheme == "https"
        port = parts.port if parts.port is not None else 443 if is_tls else 80
        return cls(parts.hostname or "", port, literal_ip(address) is not None, is_tls)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back over HTTP, as it came."""

    status: int
    body: bytes
    is_truncated: bool  # there was more of it


class HttpConnection(asyncio.Protocol):
    """Serves one call after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader: AnswerReader | None = None  # while a call is under way
        self._done: asyncio.Future[None] | None = None
        self.is_new = True  # no call was made over it yet
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether another call may be made over it."""
        return not self._transport.is_closing()

    async def call(self, request: bytes, *, seconds: float, max_bytes: int) -> HttpAnswer:
        """Send a request and read its answer; the connection is closed when that fails.

        Raises:
            ConnectionBroken: it broke, or what came is no answer.
            TimeoutError: no whole answer came in time.
        """
        reader = self._reader = AnswerReader(max_bytes)
        done = self._done = self._loop.create_future()
        self.is_new = False
        self._transport.write(request)
        timer = self._loop.call_later(seconds, _expire, done)
        try:
            await done
            return HttpAnswer(reader.status, reader.body, reader.is_truncated)
        finally:
            timer.cancel()
            self._reader = self._done = None
            if not reader.leaves_connection:
                self._transport.abort()

    def close(self) -> None:
        """Break off what is under way."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        done, reader = self._done, self._reader
        if reader is None or done is None or done.done():
            self.close()  # nobody asked for it
            return
        try:
            if reader.feed(data):
                done.set_result(None)
        except BadHttp as error:
            done.set_exception(ConnectionBroken(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        done, reader = self._done, self._reader
        if reader is None or done is None or done.done():
            return
        if exc is not None:
            done.set_exception(ConnectionBroken(f"{type(exc).__name__}: {exc}"[:300]))
            return
        try:
            reader.end()
        except BadHttp as error:
            done.set_exception(ConnectionBroken(str(error)))
        else:
            done.set_result(None)


class ConnectionPool:
    """Connections of one kind to all executors; used from one event loop.

    Args:
        limit: of those in use at the same time; who wants one more waits.
        names: resolves the executors' hosts.
    """

    def __init__(self, limit: int, names: HostNames) -> None:
        self._names = names
        self._places = asyncio.Semaphore(limit)
        self._idle: dict[Endpoint, list[HttpConnection]] = {}
        self._used: set[HttpConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def take(self, endpoint: Endpoint, *, seconds: float) -> HttpConnection:
        """A connection for one call, to be given back with `leave`.

        Raises:
            NobodyListens: nobody listens there.
            TimeoutError: none came about in time.
            OSError, ValueError: none came about, for another reason.
        """
        if not self._places.locked():
            await self._places.acquire()  # which does not wait
            found = self._kept(endpoint)
            if found is not None:
                return found
            self._places.release()
        async with asyncio.timeout(seconds):
            await self._places.acquire()
            try:
                found = self._kept(endpoint) or await self._open(endpoint, seconds)
            except BaseException:
                self._places.release()
                raise
        self._used.add(found)
        return found

    def leave(self, endpoint: Endpoint, connection: HttpConnection) -> None:
        """The call over it has ended."""
        self._used.discard(connection)
        self._places.release()
        if not connection.is_usable:
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(endpoint, []).append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(SWEEP_SECONDS, self._close_old)

    def close(self) -> None:
        """Break off what is under way."""
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in (*self._used, *(each for idle in self._idle.values() for each in idle)):
            connection.close()
        self._idle.clear()

    def _kept(self, endpoint: Endpoint) -> HttpConnection | None:
        """The one that was used last, if it is open still."""
        idle = self._idle.get(endpoint)
        if not idle:
            return None
        now = asyncio.get_running_loop().time()
        while idle:
            found = idle.pop()
            if found.is_usable and now - found.idle_since < KEPT_SECONDS:
                self._used.add(found)
                return found
            found.close()
        return None

    async def _open(self, endpoint: Endpoint, seconds: float) -> HttpConnection:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        hosts: Sequence[str] = (endpoint.host,)
        if not endpoint.is_literal:
            hosts = await self._names.addresses(endpoint.host)
        failures: list[OSError] = []
        for number, host in enumerate(hosts):
            share = (until - loop.time()) / (len(hosts) - number)  # one may not answer at all
            try:
                async with asyncio.timeout(share):
                    _, found = await loop.create_connection(
                        HttpConnection,
                        host,
                        endpoint.port,
                        ssl=_tls() if endpoint.is_tls else None,
                        server_hostname=endpoint.host if endpoint.is_tls else None,
                    )
            except OSError as error:
                failures.append(error)
                continue
            if self._is_closed:
                found.close()
                raise OSError("this admin stops")
            return found
        others = [each for each in failures if not isinstance(each, ConnectionRefusedError)]
        if not others:
            raise NobodyListens(str(failures[0]))
        raise others[0]

    def _close_old(self) -> None:
        """Connections that were idle for too long are closed, and closed ones forgotten."""
        loop = asyncio.get_running_loop()
        left: dict[Endpoint, list[HttpConnection]] = {}
        for endpoint, idle in self._idle.items():
            kept = []
            for connection in idle:
                if connection.is_usable and loop.time() - connection.idle_since < KEPT_SECONDS:
                    kept.append(connection)
                else:
                    connection.close()
            if kept:
                left[endpoint] = kept
        self._idle = left
        self._sweep = loop.call_later(SWEEP_SECONDS, self._close_old) if left else None


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _expire(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_exception(TimeoutError())
