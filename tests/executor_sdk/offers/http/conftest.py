"""A misbehaving server, and the handler that may call it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import Any

import pytest

from tests.executor_sdk.offers.registry import handler_of
from tickwheel_executor.offers.http import Http
from tickwheel_executor.testing import HandlerEnd, run_handler

from .server import ScriptedServer

Call = Callable[..., Awaitable[HandlerEnd]]


@cache
def offer_with(*private: str) -> Http:
    """Made once: to read the system's certificate authorities takes 150 ms."""
    return Http(private=private)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def call(server: ScriptedServer) -> Call:
    """Runs `http` with these parameters, by default against the server, which is allowed."""

    async def run(
        offer: Http | None = None, *, traceparent: str | None = None, **parameters: Any
    ) -> HandlerEnd:
        return await run_handler(
            handler_of(offer or offer_with("127.0.0.1"), "http"),
            "http",
            parameters={"url": server.url, **parameters},
            traceparent=traceparent,
        )

    return run
