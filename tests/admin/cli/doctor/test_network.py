"""Addresses are asked as browsers and nodes use them: through proxies that hold back or refuse."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.admin.kit.served import Served
from tests.support.processes import free_port
from tickwheel_admin.cli.doctor.network import reachability


@pytest.fixture
def admin_url(site: Served) -> str:
    return str(site.client.make_url("/")).rstrip("/")


async def _serving(handle: web.Application) -> AsyncIterator[str]:
    async with TestServer(handle) as server:
        yield str(server.make_url("/")).rstrip("/")


@pytest.fixture
async def buffering(admin_url: str) -> AsyncIterator[str]:
    """A proxy before the admin that reads each answer to its end, and knows no WebSockets."""

    async def handle(request: web.Request) -> web.Response:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{admin_url}{request.path}") as answer,
        ):
            return web.Response(
                status=answer.status, body=await answer.read(), content_type=answer.content_type
            )

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    async for url in _serving(app):
        yield url


@pytest.fixture
async def stranger() -> AsyncIterator[str]:
    """Something else that listens there."""
    async for url in _serving(web.Application()):
        yield url


async def test_an_admin_without_a_proxy_has_no_findings(admin_url: str) -> None:
    assert await reachability({admin_url: "The admin a"}) == []


async def test_a_proxy_that_holds_back_is_found(buffering: str) -> None:
    found = await reachability({buffering: "The console"})
    assert [each.check for each in found] == ["network.stream", "network.websocket"]
    assert "proxy_buffering off" in found[0].remedy
    assert "no node can connect" in found[1].what


async def test_addresses_that_lead_elsewhere_or_nowhere_are_found(stranger: str) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    found = await reachability({stranger: "The console", nowhere: "The admin a"})
    assert [each.check for each in found] == ["network.reach", "network.reach"]
    assert "something else than an admin" in found[0].what
    assert "The admin a" in found[1].what


async def test_probes_are_few_at_once(site: Served) -> None:
    async with aiohttp.ClientSession() as session:
        url = site.client.make_url("/healthz/stream")
        answers = [await session.get(url) for _ in range(9)]
        assert [answer.status for answer in answers] == [200] * 8 + [503]
        for answer in answers:
            answer.close()
