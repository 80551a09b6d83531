"""A misbehaving server, and the handler that may call it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from typing import Any

import pytest

from tickwheel_executor.offers.http import Http
from tickwheel_executor.testing import HandlerEnd, run_handler

from .server import ScriptedServer

Call = Callable[..., Awaitable[HandlerEnd]]


class Registry:
    """Takes what an offer registers."""

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}

    def handler(self, name: str) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            self.functions[name] = function
            return function

        return register


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
        offer: Http | None = None, cancel_after: float | None = None, **parameters: Any
    ) -> HandlerEnd:
        registry = Registry()
        (offer or offer_with("127.0.0.1")).register(registry)
        return await run_handler(
            registry.functions["http"],
            "http",
            parameters={"url": server.url, **parameters},
            cancel_after=cancel_after,
        )

    return run
