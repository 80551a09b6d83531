"""What a node at an address tells the cluster's books of itself, also while they do not answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tests.admin.xxl_job.test_uncertain_runs import ADDRESS, EXECUTOR
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.caller import NodeCaller, Reply
from tickwheel_admin.xxl_job.node import XxlNode

LEAVING = replace(ADDRESS, is_leaving=True)


class Caller(NodeCaller):
    """Every executor lives."""

    async def call(self, *args: Any, **other: Any) -> Reply:
        return Reply(200, dialects.answer(200, ""), truncated=False)


class Books:
    """Of the nodes, of the runs, and of the links: all that a node writes to."""

    def __init__(self) -> None:
        self.written: list[bool] = []
        self.are_closed = False
        self.error: Exception | None = None

    async def admit(self, arrival: object) -> SimpleNamespace:
        return SimpleNamespace(node_id=7, session_id=1)

    async def drain(self, *, node_id: int, draining: bool) -> bool:
        await asyncio.sleep(0.01 if draining else 0)
        if not self.are_closed:
            self.written.append(draining)
        return not self.are_closed

    async def disconnected(self, *, node_id: int, session_id: int) -> None:
        if self.error is not None:
            raise self.error

    async def live_runs(self, node_id: int) -> list[object]:
        return []

    def ignore(self, *args: object) -> None:
        pass

    add = update = remove = receive = ignore


def node_of(books: Any) -> XxlNode:
    return XxlNode(
        ADDRESS,
        EXECUTOR,
        caller=Caller(),
        nodes=books,
        membership=books,
        recorder=books,
        hub=books,
    )


async def beat(node: XxlNode) -> None:
    node._beat_at = 0.0
    node.beat_if_due(asyncio.get_running_loop().time())
    await asyncio.gather(*node._tasks)


async def test_a_drain_that_was_not_stored_is_written_again() -> None:
    books = Books()
    node = node_of(books)
    await beat(node)
    assert books.written == [False]
    books.are_closed = True
    node.update(LEAVING, EXECUTOR)
    await beat(node)
    assert books.written == [False]
    books.are_closed = False
    node.update(LEAVING, EXECUTOR)
    await beat(node)
    await beat(node)
    assert books.written == [False, True]


async def test_the_last_of_two_drains_counts() -> None:
    books = Books()
    node = node_of(books)
    await beat(node)
    for address in (LEAVING, ADDRESS):
        node.update(address, EXECUTOR)
        node.beat_if_due(asyncio.get_running_loop().time())
        await asyncio.sleep(0.001)
    await asyncio.gather(*node._tasks)
    await beat(node)
    assert books.written[-1] is False
    assert node.is_restarted


async def test_a_node_whose_parting_fails_can_be_stopped() -> None:
    books = Books()
    node = node_of(books)
    await beat(node)
    books.error = RuntimeError("broken")
    async with asyncio.timeout(5):
        await node.stop()
    assert not node.is_admitted
