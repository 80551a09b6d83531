"""What a thousand runs through the bridge cost: statements and commits, and calls for their logs.

Counted and not timed. The budgets are about a quarter above what it takes.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.rows import add_job, create_schema, now
from tests.admin.kit.work_counter import Work, counted
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.xxl_job.bridge import ClientKind, ExpectedLog, XxlAddress
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_admin.xxl_job import ended_logs
from tickwheel_admin.xxl_job.attempts import RemoteAttempts
from tickwheel_admin.xxl_job.callbacks import Callbacks
from tickwheel_admin.xxl_job.caller import NoAnswer, Reply
from tickwheel_admin.xxl_job.calls import NodeCalls
from tickwheel_admin.xxl_job.dialects import (
    Call,
    Callback,
    Dialect,
    LogPage,
    log_id,
    read_log,
    read_log_id,
)
from tickwheel_admin.xxl_job.ended_logs import XxlLogs
from tickwheel_admin.xxl_job.log_keeper import LogKeeper
from tickwheel_admin.xxl_job.log_reader import LogReader
from tickwheel_admin.xxl_job.registrar import XxlRegistrar

RUNS = 1_000
PER_POST = 10  # results in one request of Java
LINES = 3  # of each run's log
MOST_STATEMENTS = {"results": 23, "logs": 34}
MOST_COMMITS = {"results": 4, "logs": 5}


class Node:
    """A process that has the logs of all runs, or answers nothing."""

    def __init__(self, node_id: int, executor_id: int) -> None:
        self.node_id = node_id
        self.executor_id = executor_id
        self.attempts = RemoteAttempts()
        self.runs = SimpleNamespace(is_busy=False)
        self.calls = self
        self.dialect = Dialect.A
        self.address = XxlAddress(
            executor_id=executor_id, address="http://10.0.0.1:9999", client=ClientKind.JAVA
        )
        self.hangs = False
        self.broken: set[int] = set()  # runs instead of whose log comes something else
        self.is_admitted = True
        self.answers = asyncio.Event()  # unset: calls wait for it
        self.answers.set()
        self.line = "line"
        self.asked: Counter[int] = Counter()  # for the log of which run

    async def read(self, call: Call, *, max_bytes: int) -> Reply:
        said = json.loads(call.body)
        found = read_log_id(said["logId"])
        assert found is not None
        self.asked[found.run] += 1
        await asyncio.sleep(0)
        await self.answers.wait()
        if self.hangs:
            raise NoAnswer("no answer")
        if found.run in self.broken:
            return Reply(200, b"<html>", truncated=False)
        begin = said["fromLineNum"]
        content = "".join(f"{self.line}\n" for _ in range(begin, LINES + 1))
        page = {"fromLineNum": begin, "toLineNum": LINES, "logContent": content, "isEnd": False}
        return Reply(200, json.dumps({"code": 200, "content": page}).encode(), truncated=False)

    async def log_page(
        self, log_id: int, time_ms: int, from_line: int, *, max_bytes: int
    ) -> LogPage:
        calls = cast("NodeCalls", self)
        return await NodeCalls.log_page(calls, log_id, time_ms, from_line, max_bytes=max_bytes)


class Registrar:
    """What the registrar knows."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.executors = {1: object()}

    def __iter__(self) -> Any:
        return iter(self.nodes)


class Bridge:
    """Results and logs of one admin, over a real database; runs are sent to a socket's node."""

    def __init__(
        self, database: Database, admin: Admin, nodes: list[Node], cipher: Cipher | None = None
    ) -> None:
        self.database = database
        self.admin = admin
        registrar = cast("XxlRegistrar", Registrar(nodes))
        recorder = admin.engine.recorder
        xxl = XxlNodes(database, admin.events, cipher or Cipher())
        self.callbacks = Callbacks(xxl, recorder, registrar)
        reader = LogReader(recorder, wall_clock_ms=lambda: 1)
        self.logs = XxlLogs(xxl, registrar, reader, LogKeeper(recorder))

    async def end_runs(self, posts: list[list[Callback]]) -> None:
        """Report, in so many requests at once."""
        await asyncio.gather(
            *(self.callbacks.take(post, executors={1}, client=ClientKind.JAVA) for post in posts)
        )

    async def read_logs(self) -> None:
        while await self.logs.run_once():
            pass


async def dispatched(
    database: Database, admin: Admin, session: FakeSession, runs: int, *, first: int = 1_000
) -> list[Callback]:
    job_id = await add_job(database)
    at = await now(database)
    await database.run(insert_fires, [_queued(first + n, job_id, at) for n in range(runs)])
    requests = await admin.dispatch_all(session)
    assert len(requests) == runs
    return [
        Callback(log_id=log_id(r.run, r.attempt, 0), time_ms=None, code=200, message="")
        for r in requests
    ]


def _queued(run_id: int, job_id: int, at: int) -> Run:
    return Run(
        id=run_id,
        executor_id=1,
        job_id=job_id,
        job_revision=1,
        trigger_id=None,
        origin=Origin.API,
        scheduled_at=at,
        created_at=at,
        state=RunState.QUEUED,
        due_at=at,
    )


async def test_results_and_logs_take_few_statements_and_commits(database_url: str) -> None:
    database = Database(database_url)
    recording: asyncio.Task[None] | None = None
    try:
        await create_schema(database)
        admin = Admin(database)
        await admin.engine.membership.enter()
        session = await admin.add_node(1, slots=RUNS)
        node = Node(session.node_id, 1)
        bridge = Bridge(database, admin, [node])
        results = await dispatched(database, admin, session, RUNS)
        recording = asyncio.create_task(admin.engine.recorder.run())
        async with counted(database) as ended:
            posts = [results[at : at + PER_POST] for at in range(0, RUNS, PER_POST)]
            await bridge.end_runs(posts)
        async with counted(database) as read:
            await bridge.read_logs()
        lines, unread = await database.read(stored)
    finally:
        if recording is not None:
            recording.cancel()
        await database.close()
    works: dict[str, Work] = {"results": ended, "logs": read}
    for name, work in works.items():
        print(f"{name}: {work}")
        assert work.statements <= MOST_STATEMENTS[name], name
        assert work.commits <= MOST_COMMITS[name], name
        assert work.sets <= work.statements, f"{name}: rows are sent one by one"
    assert (lines, unread) == (RUNS * LINES, 0)
    assert set(node.asked.values()) == {1}, "one call for each log"


async def test_a_node_that_hangs_rests_and_long_logs_are_read_in_parts(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_logs, "BATCH", 20)
    monkeypatch.setattr(ended_logs, "MAX_CHARS", 100)
    database = Database(database_url)
    recording: asyncio.Task[None] | None = None
    try:
        await create_schema(database)
        admin = Admin(database)
        await admin.engine.membership.enter()
        hanging = await admin.add_node(1, slots=100)
        results = await dispatched(database, admin, hanging, 30)
        await database.run(close_node, hanging.node_id)
        other = await admin.add_node(1, name="other", slots=100)
        results += await dispatched(database, admin, other, 10, first=5_000)
        hangs, answers = Node(hanging.node_id, 1), Node(other.node_id, 1)
        hangs.hangs, answers.line = True, "x" * 90
        bridge = Bridge(database, admin, [hangs, answers])
        recording = asyncio.create_task(admin.engine.recorder.run())
        await bridge.end_runs([results])
        await bridge.read_logs()  # more than a batch of those of the first
        asked = hangs.asked.total()
        await bridge.read_logs()
        lines, unread = await database.read(stored)
        monkeypatch.setattr(ended_logs, "ORPHANS_SECONDS", 0.0)
        bridge.logs._orphans_at = 0.0
        await database.run(make_old)
        left = []
        for _ in range(ended_logs.ORPHAN_LOOKS - 1):  # the first was one of those above
            left.append((await database.read(stored))[1])
            await bridge.logs.run_once()
        after = await database.read(stored)
    finally:
        if recording is not None:
            recording.cancel()
        await database.close()
    assert hangs.asked.total() == asked <= ended_logs.READ_OF_NODE
    assert (lines, unread) == (10 * LINES, 30)
    assert left == [30] * (ended_logs.ORPHAN_LOOKS - 1), "given up for the age of its row"
    assert after == (10 * LINES, 0)


async def test_a_slow_log_holds_up_no_other(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_logs, "PASS_SECONDS", 0.1)
    database = Database(database_url)
    recording: asyncio.Task[None] | None = None
    try:
        await create_schema(database)
        admin = Admin(database)
        await admin.engine.membership.enter()
        first = await admin.add_node(1, slots=100)
        results = await dispatched(database, admin, first, 6)
        await database.run(close_node, first.node_id)
        other = await admin.add_node(1, name="other", slots=100)
        results += await dispatched(database, admin, other, 10, first=5_000)
        slow, quick = Node(first.node_id, 1), Node(other.node_id, 1)
        slow.answers.clear()
        bridge = Bridge(database, admin, [slow, quick])
        recording = asyncio.create_task(admin.engine.recorder.run())
        await bridge.end_runs([results])
        for _ in range(3):
            await bridge.logs.run_once()
        assert await database.read(stored) == (10 * LINES, 6)
        slow.answers.set()
        while (await database.read(stored))[1]:
            await bridge.logs.run_once()
        assert await database.read(stored) == (16 * LINES, 0)
    finally:
        if recording is not None:
            recording.cancel()
        await database.close()
    assert set(slow.asked.values()) == {1}, "one call for each log"


async def test_the_log_of_a_node_that_is_silent_for_minutes_is_read_when_it_is_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be read at all holds up no other of its node, and is given up."""
    loop = asyncio.get_running_loop()
    late = 0.0
    monkeypatch.setattr(ended_logs, "_now", lambda: loop.time() + late)
    database = Database(database_url)
    recording: asyncio.Task[None] | None = None
    try:
        await create_schema(database)
        admin = Admin(database)
        await admin.engine.membership.enter()
        session = await admin.add_node(1, slots=100)
        results = await dispatched(database, admin, session, 10)
        node = Node(session.node_id, 1)
        bridge = Bridge(database, admin, [node])
        recording = asyncio.create_task(admin.engine.recorder.run())
        await bridge.end_runs([results])
        node.hangs = True
        for _ in range(4):
            late += 100.0
            await bridge.logs.run_once()
            assert await database.read(stored) == (0, 10)
        node.hangs = False
        node.broken = set(range(1_000, 1_005))
        late += 30.0
        await bridge.logs.run_once()
        assert await database.read(stored) == (5 * LINES, 5)
        late += 30.0
        await bridge.logs.run_once()
        assert await database.read(stored) == (5 * LINES, 5)
        late += 35.0
        await bridge.logs.run_once()
        assert await database.read(stored) == (5 * LINES, 0)
    finally:
        if recording is not None:
            recording.cancel()
        await database.close()


class Entries:
    """The calls of an executor whose log entries have line ends inside."""

    address = XxlAddress(executor_id=1, address="http://10.0.0.1:9999", client=ClientKind.GO)

    def __init__(self, entries: list[str]) -> None:
        self.entries = entries

    async def log_page(
        self, log_id: int, time_ms: int, from_line: int, *, max_bytes: int
    ) -> LogPage:
        page = {
            "fromLineNum": from_line,
            "toLineNum": len(self.entries),
            "logContent": "\n".join(self.entries[from_line - 1 :]) + "\n",
            "isEnd": True,
        }
        body = json.dumps({"code": 200, "content": page}).encode()
        return read_log(200, body, from_line=from_line, truncated=False, whole=False)


async def test_entries_with_line_ends_inside_lose_nothing() -> None:
    entries = ["begins", "Traceback:\n  line 1\n  line 2", "ends"]
    node: Any = SimpleNamespace(calls=Entries(entries))
    recorder: Any = SimpleNamespace()
    reader = LogReader(recorder, wall_clock_ms=lambda: 1)
    wanted = ExpectedLog(run=7, attempt=1, token="t", node_id=1, log_id=log_id(7, 1, 0), time_ms=1)
    page = await reader.read_page(node, wanted, 0)
    texts = [line.text for chunk in page.chunks for line in chunk.lines]
    assert "\n".join(texts).split("\n") == "\n".join(entries).split("\n")
    assert (page.last, len(texts)) == (3, 3)  # as its executor counts
    node.calls.entries.append("one more")
    page = await reader.read_page(node, wanted, page.last)
    assert [line.text for chunk in page.chunks for line in chunk.lines] == ["one more"]


def make_old(conn: sa.Connection) -> None:
    """As if the database's clock had been set forward by an hour."""
    conn.execute(
        sa.update(tables.xxl_log).values(created_at=tables.xxl_log.c.created_at - 3_600_000)
    )


def close_node(conn: sa.Connection, node_id: int) -> None:
    """Nothing more is sent there."""
    conn.execute(sa.update(tables.node).where(tables.node.c.id == node_id).values(draining=True))


def stored(conn: sa.Connection) -> tuple[int, int]:
    """Lines that are here, and logs that are to be read."""
    lines = conn.execute(sa.select(sa.func.sum(tables.run_log.c.line_count))).scalar_one()
    unread = conn.execute(sa.select(sa.func.count()).select_from(tables.xxl_log)).scalar_one()
    return int(lines or 0), int(unread)
