"""A plain reverse proxy: each request goes to the next admin, whoever sends it."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import aiohttp
from aiohttp import hdrs, web
from aiohttp.test_utils import TestServer
from multidict import CIMultiDict

# What belongs to one connection (RFC 9110 §7.6.1); the length is that of the body as it is sent on.
_HOP_BY_HOP = frozenset(
    {hdrs.CONNECTION, hdrs.KEEP_ALIVE, hdrs.TRANSFER_ENCODING, hdrs.TE, hdrs.TRAILER, hdrs.UPGRADE}
)


class RoundRobin:
    """Hands requests on in turn; an admin that refuses the connection is passed over."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self.answered: list[str] = []  # by which admin, request by request
        self._turns = itertools.count()
        self._session: aiohttp.ClientSession | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Ask the next admin and pass its answer on as it comes."""
        assert self._session is not None
        body = await request.read()
        headers = CIMultiDict(
            (name, value) for name, value in request.headers.items() if name not in _HOP_BY_HOP
        )
        headers[hdrs.X_FORWARDED_FOR] = request.remote or ""
        headers[hdrs.X_FORWARDED_PROTO] = "http"
        turn = next(self._turns)
        for offset in range(len(self.urls)):
            url = self.urls[(turn + offset) % len(self.urls)]
            try:
                asked = await self._session.request(
                    request.method,
                    f"{url}{request.raw_path}",
                    data=body or None,
                    headers=headers,
                    allow_redirects=False,
                )
            except aiohttp.ClientConnectorError:
                continue
            self.answered.append(url)
            return await self._pass_on(request, asked)
        return web.Response(status=502)

    async def _pass_on(
        self, request: web.Request, asked: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        async with asked:
            headers = CIMultiDict(
                (name, value) for name, value in asked.headers.items() if name not in _HOP_BY_HOP
            )
            response = web.StreamResponse(status=asked.status, headers=headers)
            await response.prepare(request)
            # Either side may go away at any time; the other one is told by the closed connection.
            with suppress(aiohttp.ClientError, ConnectionError):
                async for piece in asked.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
        return response

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """Answer, at the address that this yields."""
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self.handle)
        timeout = aiohttp.ClientTimeout(total=None, connect=5)
        async with (
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout, auto_decompress=False
            ) as self._session,
            TestServer(app, port=port) as server,
        ):
            yield str(server.make_url("/")).rstrip("/")


async def _serve(port: int, urls: Sequence[str]) -> None:
    async with RoundRobin(urls).serving(port) as url:
        print(f"proxy at {url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":  # for browser tests, whose process has no event loop to spare
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2:]))
