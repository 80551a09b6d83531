"""Listening, with a time limit on request headers and answers of our own to broken requests.

aiohttp alone would keep a connection whose header never ends for as long as an idle one. A thousand
such connections are a cheap attack; here each of them is closed after ten seconds.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

from aiohttp import web

from tickwheel_admin.web.broken_requests import refuse_broken

HEADER_SECONDS = 10
IDLE_SECONDS = 75  # between requests; a little more than most proxies keep theirs


class Connection(web.RequestHandler):
    """One connection. Closed when a header that was begun is not complete in time."""

    __slots__ = ("_header_seconds", "_header_timer", "_requests_before")

    def __init__(self, *args: Any, header_seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_seconds = header_seconds
        self._header_timer: asyncio.TimerHandle | None = None
        self._requests_before = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self._header_timer is None and not self._request_in_progress:
            self._start_timer()
        super().data_received(data)
        if self._request_count != self._requests_before:
            self._stop_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what the parser refused, or what failed outside of our middleware."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client went away in the middle of its request
        if request.writer.output_size > 0:
            raise ConnectionError("failed while streaming")
        return refuse_broken(request, status, exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer. An error of aiohttp's that never came through our middleware is ours."""
        if isinstance(resp, web.HTTPException) and resp.status >= 400:
            resp = refuse_broken(request, resp.status, None)
        return await super().finish_response(request, resp, start_time)

    def _start_timer(self) -> None:
        self._requests_before = self._request_count
        self._header_timer = self._loop.call_later(self._header_seconds, self._check_header)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _check_header(self) -> None:
        self._header_timer = None
        # In progress: what came since was its body, or the frames of a socket.
        if not self._request_in_progress and self.transport is not None:
            self.transport.abort()


class _Site(web.BaseSite):
    """Makes a `Connection` of every connection, where aiohttp's sites make a `RequestHandler`."""

    def __init__(
        self,
        runner: web.AppRunner,
        sock: socket.socket,
        header_seconds: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        self._sock = sock
        self._header_seconds = header_seconds

    @property
    def name(self) -> str:
        host, port = self._sock.getsockname()[:2]
        scheme = "https" if self._ssl_context else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def start(self) -> None:
        await super().start()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept,
            sock=self._sock,
            backlog=1024,
            ssl=self._ssl_context,
            ssl_handshake_timeout=self._header_seconds if self._ssl_context else None,
        )

    def _accept(self) -> Connection:
        server = self._runner.server
        assert server is not None  # noqa: S101 - the runner was set up
        return Connection(
            server,
            loop=asyncio.get_running_loop(),
            header_seconds=self._header_seconds,
            access_log=None,  # web.request_log writes events instead
            auto_decompress=False,  # a small body must not unpack to a large one
            keepalive_timeout=IDLE_SECONDS,
        )


def bind(host: str, port: int) -> list[socket.socket]:
    """Listening sockets of every address of `host`, before any work starts.

    Raises:
        OSError: the port is taken, or the address is not this machine's.
    """
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE, proto=socket.IPPROTO_TCP
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _name, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(1024)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def create_runner(app: web.Application, *, shutdown_seconds: float = 5) -> web.AppRunner:
    """A runner whose requests under way get `shutdown_seconds` at the end."""
    return web.AppRunner(app, handle_signals=False, shutdown_timeout=shutdown_seconds)


async def serve(
    runner: web.AppRunner,
    sockets: list[socket.socket],
    *,
    header_seconds: float = HEADER_SECONDS,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Answer on the sockets until the runner is cleaned up; the runner must have been set up.

    Args:
        runner: of the application.
        sockets: bound and listening.
        header_seconds: so long may a TLS handshake take, and then the header of a request.
        tls: None: plain HTTP.
    """
    for sock in sockets:
        await _Site(runner, sock, header_seconds, tls).start()
