"""What a node at an address tells the cluster's books of itself, also while they do not answer."""

from __future__ import annotations

import asyncio
import gc
import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.admin.xxl_job.test_uncertain_runs import ADDRESS, EXECUTOR
from tests.simulation.scheduler import SimLoop
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job import node as node_module
from tickwheel_admin.xxl_job.beats import MISSING_AT_ONCE, XxlBeats
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NodeCaller, NotSent, Reply
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar
from tickwheel_admin.xxl_job.restarts import RestartSigns

LEAVING = replace(ADDRESS, is_leaving=True)


class Caller(NodeCaller):
    """Every executor lives, or answers so."""

    def __init__(self) -> None:
        self.fails: Exception | None = None
        self.is_new_connection = False
        self.beats = 0
        self.hangs = False

    async def call(self, *args: Any, **other: Any) -> Reply:
        self.beats += 1
        if self.hangs:
            await asyncio.sleep(1)
        if self.fails is not None:
            raise self.fails
        answer = dialects.answer(200, "")
        return Reply(200, answer, truncated=False, is_new_connection=self.is_new_connection)


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

    async def begin_turn(self, address: object) -> int:
        return 1

    async def live_runs(self, node_id: int) -> list[object]:
        return []

    def ignore(self, *args: object) -> None:
        pass

    add = update = remove = receive = ignore


def node_of(books: Any, caller: Caller | None = None) -> XxlNode:
    return XxlNode(
        ADDRESS,
        EXECUTOR,
        caller=caller or Caller(),
        nodes=books,
        membership=books,
        recorder=books,
        hub=books,
    )


async def beat(node: XxlNode) -> None:
    node.beat(asyncio.get_running_loop().time())
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


async def test_what_an_admin_wrote_that_knew_it_no_better_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was frozen, and wrote that the node takes no runs when another one served it already."""
    books = Books()
    node = node_of(books)
    await beat(node)
    await beat(node)
    assert books.written == [False]
    monkeypatch.setattr(node_module, "DRAIN_SECONDS", 0.0)
    await beat(node)
    assert books.written == [False, False]


async def test_a_beat_that_never_began_leaves_nothing_behind() -> None:
    """A coroutine that nobody awaits is warned of, and warnings are errors here."""
    node = node_of(Books())
    node.beat(asyncio.get_running_loop().time())
    (task,) = node._tasks
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    gc.collect()
    assert not node._tasks


async def test_the_last_of_two_drains_counts() -> None:
    books = Books()
    node = node_of(books)
    await beat(node)
    for address in (LEAVING, ADDRESS):
        node.update(address, EXECUTOR)
        if node.is_beat_due(asyncio.get_running_loop().time()):
            node.beat(asyncio.get_running_loop().time())
        await asyncio.sleep(0.001)
    await asyncio.gather(*node._tasks)
    await beat(node)
    assert books.written[-1] is False
    assert node.is_restarted


async def test_a_beat_that_ends_when_another_admin_serves_the_node_changes_nothing() -> None:
    books, caller = Books(), Caller()
    node = node_of(books, caller)
    node.update(LEAVING, EXECUTOR)
    caller.hangs = True
    node.beat(asyncio.get_running_loop().time())
    await asyncio.sleep(0)
    await node.stop()
    assert not node.is_admitted
    assert books.written == []


async def test_a_node_whose_parting_fails_can_be_stopped() -> None:
    books = Books()
    node = node_of(books)
    await beat(node)
    books.error = RuntimeError("broken")
    async with asyncio.timeout(5):
        await node.stop()
    assert not node.is_admitted


async def test_a_call_that_found_nobody_is_a_sign_of_a_new_process() -> None:
    caller = Caller()
    node = node_of(Books(), caller)
    await beat(node)
    before = asyncio.get_running_loop().time()
    caller.fails = ConnectionRefused()
    with pytest.raises(ConnectionRefused):
        await node.calls.ask(dialects.idle_beat(1))
    assert node.is_beat_due(before + 0.1)  # at once
    assert not node.is_restarted
    caller.fails = None
    await beat(node)
    assert node.is_restarted
    assert node.runs.replaced_at >= before


# Seconds after the beat before, and whether it needed a new connection; at the end, whether it
# looks like another process then.
SIGNS: list[tuple[str, list[tuple[float, bool]], bool]] = [
    ("the first beat", [(0, True)], False),
    ("one that keeps connections", [(0, True), (3, False), (3, False)], False),
    ("… and has closed one", [(0, True), (3, False), (3, True)], True),
    ("… which we may have done", [(0, True), (3, False), (4, True)], False),
    ("one that keeps none", [(0, True), (3, True), (3, True)], False),
    ("one that keeps none any more", [(0, True), (3, False), (3, True), (3, True)], False),
    ("one that closed the first", [(0, True), (3, True), (3, False)], True),
    ("… and was noticed", [(0, True), (3, True), (3, False), (3, False)], False),
    ("after silence", [(0, True), (3, False), (60, True)], False),
]


@pytest.mark.parametrize(("beats", "is_other"), [each[1:] for each in SIGNS], ids=str)
def test_signs_of_another_process(beats: list[tuple[float, bool]], is_other: bool) -> None:
    signs, now = RestartSigns(), 1_000.0
    for after, is_new_connection in beats:
        now += after
        looks_so = signs.answered(now, is_new_connection=is_new_connection)
    assert looks_so is is_other
    signs.refused()
    assert signs.answered(now + 60, is_new_connection=True)
    assert not signs.answered(now + 63, is_new_connection=False)


def test_an_address_where_nobody_answers_is_beaten_more_and_more_rarely() -> None:
    loop = SimLoop()
    loop.now = 1_000.0

    async def story() -> None:
        caller = Caller()
        node = node_of(Books(), caller)
        caller.fails = NotSent("no connection in time")
        beats = XxlBeats(cast("XxlRegistrar", [node]))
        times: list[float] = []
        while len(times) < 7:
            before = caller.beats
            await beats.run_once()
            await asyncio.sleep(0.25)
            if caller.beats > before:
                times.append(loop.now)
        gaps = [round(later - at) for at, later in itertools.pairwise(times)]
        assert gaps == [3, 6, 12, 15, 15, 15]
        # It registers, and is asked at once.
        node.update(replace(ADDRESS, registered_at=5), EXECUTOR)
        assert node.is_beat_due(loop.now)

    loop.run_until_complete(story())
    loop.close()


def test_few_addresses_of_an_executor_where_nobody_answers_are_beaten_at_once() -> None:
    loop = SimLoop()
    loop.now = 1_000.0

    async def story() -> None:
        gone, there = Caller(), Caller()
        gone.fails = NotSent("no connection in time")
        missing = [node_of(Books(), gone) for _ in range(250)]
        beats = XxlBeats(cast("XxlRegistrar", [*missing, node_of(Books(), there)]))
        await beats.run_once()
        await asyncio.sleep(0.01)
        assert (gone.beats, there.beats) == (250, 1)  # nobody is known to be missing yet
        gone.hangs = True
        asked: set[int] = set()
        for _ in range(80):
            await beats.run_once()
            under_way = {number for number, each in enumerate(missing) if each.is_beating}
            assert len(under_way) <= MISSING_AT_ONCE
            asked |= under_way
            await asyncio.sleep(0.25)
        assert len(asked) == 250  # each has its turn
        assert there.beats == 7
        await asyncio.gather(*(task for each in missing for task in each._tasks))

    loop.run_until_complete(story())
    loop.close()
