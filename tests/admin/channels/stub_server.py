"""An HTTP server that records what it gets and answers what a test says."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass
class StubServer:
    """`answer` may be a response's text, or a function of the request."""

    answer: str | Callable[[web.Request], Awaitable[web.StreamResponse]] = "ok"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    url: str = ""  # without a slash at the end

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        if not isinstance(self.answer, str):
            return await self.answer(request)
        return web.Response(text=self.answer, status=self.status, headers=self.headers)


@asynccontextmanager
async def stub_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[StubServer]:
    """Listens on 127.0.0.1 until the end of the block."""
    stub = StubServer()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", stub.handle)
    server = TestServer(application, scheme="https" if tls else "http")
    await server.start_server(access_log=None, **({"ssl": tls} if tls else {}))
    stub.url = str(server.make_url("")).rstrip("/")
    try:
        yield stub
    finally:
        await server.close()
