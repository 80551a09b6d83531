"""A node that is sent each run by a POST of its own and calls back with one: see one_by_one_admin.

python -m tests.bench.scenarios.one_by_one_node --port N --admin http://…
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec
from aiohttp import web

from tests.bench.scenarios.one_by_one_admin import CALLBACK_PATH, Done, Order
from tests.e2e.node_program import noop

HANDLERS: dict[str, Callable[[], Awaitable[None]]] = {"noop": noop}
CALLBACKS_AT_ONCE = 100  # connections to the admin


class OneByOneNode:
    """Takes a run, answers, does it, and says so."""

    def __init__(self, client: aiohttp.ClientSession, admin: str) -> None:
        self._client = client
        self._callback_url = admin + CALLBACK_PATH
        self._runs: set[asyncio.Task[None]] = set()  # which the loop alone would forget

    async def take(self, request: web.Request) -> web.Response:
        """Answer before the handler begins."""
        order = msgspec.json.decode(await request.read(), type=Order)
        task = asyncio.create_task(self._do(order))
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        return web.Response()

    async def _do(self, order: Order) -> None:
        began = time.perf_counter()
        await HANDLERS[order.handler]()
        done = Done(
            run=order.run,
            token=order.token,
            duration_ms=round((time.perf_counter() - began) * 1000),
        )
        async with self._client.post(self._callback_url, data=msgspec.json.encode(done)) as answer:
            answer.raise_for_status()
            await answer.read()


async def serve(port: int, admin: str) -> None:
    """Work until the process is ended."""
    connector = aiohttp.TCPConnector(limit=CALLBACKS_AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as client:
        app = web.Application()
        app.router.add_post("/run", OneByOneNode(client, admin).take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        print("ready", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--admin", required=True, help="its URL")
    asked = parser.parse_args()
    asyncio.run(serve(asked.port, asked.admin))


if __name__ == "__main__":
    main()
