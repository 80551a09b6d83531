"""Fixtures for the tests of the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from .link_server import LinkServer


@pytest.fixture
async def server() -> AsyncIterator[LinkServer]:
    server = LinkServer()
    app = web.Application()
    app.router.add_get("/base/link/v1", server.link)
    async with TestServer(app) as running:
        server.url = f"http://127.0.0.1:{running.port}/base"
        yield server
        server.reads.set()
        for socket in server.sockets:
            await socket.close()
