"""An admin that does each run alone: a claim and its commit, a POST, a callback and its commit.

    python -m tests.bench.scenarios.one_by_one_admin
        --url URL --port N --executor ID --node http://… …

It is a rival to measure against and no part of the product. What it leaves out (slots, pauses,
routing, lock reads, tokens of nodes) makes it quicker than an admin that had them would be.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

import aiohttp
import msgspec
import sqlalchemy as sa
from aiohttp import web

from tickwheel_admin.store.database.connections import create_engine
from tickwheel_admin.store.database.tables import run as run_table
from tickwheel_admin.store.runs.due import claimable_runs

T = TypeVar("T")

CALLBACK_PATH = "/callback"
READ_AT_ONCE = 1_000  # due runs in one look, as they are known long before they are sent
IDLE_SECONDS = 0.05


class Order(msgspec.Struct):
    """What a node is sent."""

    run: int
    attempt: int
    token: str
    handler: str


class Done(msgspec.Struct):
    """What a node calls back with."""

    run: int
    token: str
    duration_ms: int


class Store:
    """Threads with a connection each; every call is one transaction."""

    def __init__(self, url: str, *, connections: int) -> None:
        if url.startswith("sqlite"):
            self._engine = create_engine(url, connections=connections)
        else:  # as durable, and not asked before each transaction whether the connection works
            self._engine = sa.create_engine(
                url, pool_size=connections, isolation_level="READ COMMITTED"
            )
        self._threads = ThreadPoolExecutor(connections)
        # SQLite has one writer; queueing here is quicker than waiting in its busy handler.
        self._writer = threading.Lock() if url.startswith("sqlite") else nullcontext()

    async def run(self, work: Callable[[sa.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._do, work)

    def _do(self, work: Callable[[sa.Connection], T]) -> T:
        with self._writer, self._engine.begin() as conn:
            return work(conn)


class OneByOneAdmin:
    """A number of senders, each of which sees to one run at a time."""

    def __init__(
        self, store: Store, *, executor_id: int, nodes: Sequence[str], senders: int
    ) -> None:
        self._store = store
        self._executor_id = executor_id
        self._nodes: Iterator[tuple[int, str]] = itertools.cycle(enumerate(nodes, start=1))
        self._senders = senders
        self._due: asyncio.Queue[int] = asyncio.Queue()
        self._taken: set[int] = set()  # read and not yet claimed

    async def serve(self, port: int) -> None:
        """Work until the process is ended."""
        app = web.Application()
        app.router.add_post(CALLBACK_PATH, self._callback)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        connector = aiohttp.TCPConnector(limit=self._senders)
        async with aiohttp.ClientSession(connector=connector) as client:
            print("ready", flush=True)
            senders = (self._send_all(client) for _ in range(self._senders))
            await asyncio.gather(self._read(), *senders)

    async def _read(self) -> None:
        while True:
            found = []
            if self._due.qsize() < READ_AT_ONCE // 2:
                ids = await self._store.run(self._due_runs)
                found = [each for each in ids if each not in self._taken]
            for each in found:
                self._taken.add(each)
                self._due.put_nowait(each)
            if not found:
                await asyncio.sleep(IDLE_SECONDS)

    def _due_runs(self, conn: sa.Connection) -> list[int]:
        due = claimable_runs(
            conn,
            executor_id=self._executor_id,
            now=_now(),
            limit=READ_AT_ONCE,
            oldest_first=True,
        )
        return [run.id for run in due]

    async def _send_all(self, client: aiohttp.ClientSession) -> None:
        while True:
            run_id = await self._due.get()
            node_id, url = next(self._nodes)
            order = Order(run=run_id, attempt=1, token=secrets.token_hex(16), handler="noop")
            claimed = await self._store.run(partial(claim, order, node_id))
            self._taken.discard(run_id)
            if not claimed:
                continue
            async with client.post(f"{url}/run", data=msgspec.json.encode(order)) as answer:
                answer.raise_for_status()
                await answer.read()

    async def _callback(self, request: web.Request) -> web.Response:
        done = msgspec.json.decode(await request.read(), type=Done)
        await self._store.run(partial(record, done))
        return web.Response()


# One statement each, without a lock read before it: a compare-and-set is the least that keeps a run
# from being sent twice and a result from being stored twice.
_CLAIM = (
    sa.update(run_table)
    .where(run_table.c.id == sa.bindparam("run"), run_table.c.state == "queued")
    .values(
        state="dispatched",
        attempt=1,
        node_id=sa.bindparam("node"),
        claim_token=sa.bindparam("token"),
        dispatched_at=sa.bindparam("now"),
    )
)
_RECORD = (
    sa.update(run_table)
    .where(
        run_table.c.id == sa.bindparam("run"),
        run_table.c.state == "dispatched",
        run_table.c.claim_token == sa.bindparam("token"),
    )
    .values(
        state="succeeded",
        tries=1,
        started_at=sa.bindparam("started"),
        ended_at=sa.bindparam("now"),
    )
)


def claim(order: Order, node_id: int, conn: sa.Connection) -> bool:
    """Give a run to a node; whether it was still queued."""
    values = {"run": order.run, "node": node_id, "token": order.token, "now": _now()}
    return conn.execute(_CLAIM, values).rowcount == 1


def record(done: Done, conn: sa.Connection) -> None:
    """Store the result of a run."""
    now = _now()
    values = {"run": done.run, "token": done.token, "started": now - done.duration_ms, "now": now}
    conn.execute(_RECORD, values)


def _now() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--executor", type=int, required=True)
    parser.add_argument("--node", action="append", required=True, help="URL of a node")
    parser.add_argument("--senders", type=int, required=True, help="runs seen to at once")
    parser.add_argument("--connections", type=int, required=True, help="transactions at once")
    asked = parser.parse_args()
    admin = OneByOneAdmin(
        Store(asked.url, connections=asked.connections),
        executor_id=asked.executor,
        nodes=asked.node,
        senders=asked.senders,
    )
    asyncio.run(admin.serve(asked.port))


if __name__ == "__main__":
    main()
