"""A node's socket from the admin's side: what is refused, how it ends, what it may not do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import NoReturn

import msgspec
import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, add_run, change, get_run
from tests.support.polling import wait_until_async
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.links.frame_budget import MAX_BYTES, SMALL_BYTES, FrameBudget
from tickwheel_admin.links.hub import LinkHub
from tickwheel_admin.links.session import NodeSession
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable
from tickwheel_shared.protocol import (
    MAX_FRAME_BYTES,
    Admins,
    Cancel,
    FromAdmin,
    HeartbeatAck,
    Rejected,
    ResultReceipt,
    RunRequest,
    Welcome,
    decode_from_admin,
    encode_frames,
)

KEY = "0123456789abcdef" * 2
HELLO = {
    "type": "hello",
    "versions": [1],
    "executor": "executor-1",
    "node_key": KEY,
    "name": "node-1",
    "sdk": "test/1",
    "slots": 4,
    "handlers": ["hello"],
}


class Pipe:
    """A channel whose other end is the test."""

    def __init__(self) -> None:
        self.to_admin: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.from_admin: list[FromAdmin] = []
        self.closed: tuple[int, str] | None = None

    async def send(self, frame: bytes) -> None:
        if self.closed is not None:
            raise ConnectionResetError
        self.from_admin += decode_from_admin(frame)

    async def receive(self) -> bytes | None:
        return await self.to_admin.get()

    @property
    def is_gone(self) -> bool:
        return self.closed is not None

    async def close(self, code: int, reason: str) -> None:
        self.closed = self.closed or (code, reason)
        self.to_admin.put_nowait(None)

    def say(self, *messages: object) -> None:
        self.to_admin.put_nowait(json.dumps(messages).encode())


class Node:
    """A socket to the admin under test, driven by hand."""

    def __init__(self, admin: Admin, hub: LinkHub) -> None:
        self.pipe = Pipe()
        self.session = NodeSession(
            self.pipe,
            executor_id=1,
            executor_name="executor-1",
            token_hash="hash-1",
            address="192.0.2.1",
            hub=hub,
            membership=admin.engine.membership,
            recorder=admin.engine.recorder,
        )
        self.serving = asyncio.create_task(self.session.serve())

    async def heard(self, kind: type, *, within: float = 5.0) -> FromAdmin:
        """The next message of a kind."""
        async with asyncio.timeout(within):
            while True:
                for message in self.pipe.from_admin:
                    if isinstance(message, kind):
                        self.pipe.from_admin.remove(message)
                        return message
                await asyncio.sleep(0.005)  # the session works in threads and other tasks

    async def ended(self) -> tuple[int, str]:
        async with asyncio.timeout(5):
            await self.serving
        assert self.pipe.closed is not None
        return self.pipe.closed


Connect = Callable[[], Node]


@pytest.fixture
def hub() -> LinkHub:
    return LinkHub()


@pytest.fixture
async def admin(database: Database, hub: LinkHub) -> Admin:
    admin = Admin(database, hub=hub)
    await admin.engine.membership.enter()
    return admin


@pytest.fixture
async def connect(admin: Admin, hub: LinkHub) -> AsyncIterator[Connect]:
    nodes: list[Node] = []

    def new_node() -> Node:
        nodes.append(Node(admin, hub))
        return nodes[-1]

    yield new_node
    for node in nodes:
        node.session.close(1001, "the test is over")
        await asyncio.wait_for(node.serving, 5)


async def open_node(admin: Admin, connect: Connect) -> Node:
    node = connect()
    node.pipe.say(HELLO, {"type": "held", "runs": []})
    await node.heard(Welcome)
    await admin.engine.recorder.run_once()
    return node


async def stored_nodes(database: Database) -> int:
    count = sa.select(sa.func.count()).select_from(tables.node)
    return int(await database.read(lambda conn: conn.execute(count).scalar_one()))


@pytest.mark.parametrize(
    ("hello", "agreed"),
    [({"versions": [1]}, 1), ({"versions": [3, 2], "region": "of version 3"}, 2)],
)
async def test_a_node_gets_runs_only_after_what_it_holds_is_recorded(
    admin: Admin, connect: Connect, database: Database, hello: dict[str, object], agreed: int
) -> None:
    run_id = await add_run(database, await add_job(database), jitter_ms=700)
    node = connect()
    node.pipe.say(HELLO | hello)
    welcome = await node.heard(Welcome)
    assert isinstance(welcome, Welcome)
    assert (welcome.version, welcome.admin) == (agreed, "admin-1")
    await admin.engine.dispatcher.run_once()
    assert (await get_run(database, run_id)).state is RunState.QUEUED

    node.pipe.say({"type": "held", "runs": []})
    async with asyncio.timeout(5):
        while not node.session.is_open:
            await admin.engine.recorder.run_once()
            await asyncio.sleep(0.005)
    await admin.engine.dispatcher.run_once()

    request = await node.heard(RunRequest)
    assert isinstance(request, RunRequest)
    assert request.run == run_id
    known = msgspec.UNSET if agreed == 1 else request.scheduled_at + 700
    assert request.due_at == known  # a field of version 2


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"not json", "malformed"),
        (b'{"type":"hello"}', "array"),
        (b'[{"type":"shell","command":"id"}]', "shell"),
        (b'[{"type":"heartbeat","seq":1}]', "in_use"),
        (b'[{"type":"heartbeat","seq":1,"in_use":0,"x":1}]', "x"),
        (b'[{"type":"heartbeat","seq":1,"in_use":0}]', "hello"),
        (b"[" + b" " * MAX_FRAME_BYTES + b"]", "limit"),
        (json.dumps([HELLO | {"slots": 0}]).encode(), "slots"),
        (json.dumps([HELLO | {"slots": 10**30}]).encode(), "slots"),
        (json.dumps([HELLO | {"node_key": "../../etc"}]).encode(), "node_key"),
        (json.dumps([HELLO | {"name": "a\nb"}]).encode(), "name"),
        (json.dumps([HELLO | {"name": "a\u200bb"}]).encode(), "U+200B ZERO WIDTH SPACE"),
        (json.dumps([HELLO | {"labels": {"zone": "\u3164"}}]).encode(), "U+3164 HANGUL FILLER"),
        (json.dumps([HELLO | {"handlers": [""]}]).encode(), "handlers"),
        (json.dumps([HELLO | {"handlers": ["h"] * 3000}]).encode(), "handlers"),
        (json.dumps([HELLO | {"handlers": ["*"]}]).encode(), "cannot be named “*”"),
        (json.dumps([HELLO | {"unstoppable": ["*"]}]).encode(), "cannot be named “*”"),
        (b"[" * 100_000, ""),
        (b"\xff\xfe", ""),
    ],
)
async def test_a_bad_first_frame_closes_with_the_place_and_stores_nothing(
    connect: Connect, database: Database, frame: bytes, reason: str
) -> None:
    node = connect()
    node.pipe.to_admin.put_nowait(frame)

    code, said = await node.ended()

    assert code == 1008
    assert reason in said
    assert await stored_nodes(database) == 0


@pytest.mark.parametrize(
    ("hello", "code", "text"),
    [
        ({"executor": "payroll"}, "wrong_executor", "not to “payroll”"),
        ({"versions": [7]}, "version", "upgrade the admin"),
        ({"versions": [7], "region": "west"}, "version", "upgrade the admin"),
        ({"versions": [0]}, "version", "upgrade the SDK"),
    ],
)
async def test_a_node_that_cannot_be_served_is_told_why_for_good(
    connect: Connect, database: Database, hello: dict[str, object], code: str, text: str
) -> None:
    node = connect()
    node.pipe.say(HELLO | hello)

    rejected = await node.heard(Rejected)

    assert isinstance(rejected, Rejected)
    assert (rejected.code, rejected.fatal) == (code, True)
    assert rejected.message.endswith(text)
    assert (await node.ended())[0] == 1008
    assert await stored_nodes(database) == 0


@pytest.mark.parametrize(("said", "stored"), [({}, 1), ({"weight": 5}, 5)])
async def test_a_node_says_its_weight(
    connect: Connect, database: Database, said: dict[str, int], stored: int
) -> None:
    node = connect()
    node.pipe.say(HELLO | said)
    await node.heard(Welcome)
    weight = sa.select(tables.node.c.weight)
    assert await database.read(lambda conn: conn.execute(weight).scalar_one()) == stored


async def test_hello_twice_is_refused(admin: Admin, connect: Connect) -> None:
    node = await open_node(admin, connect)
    node.pipe.say(HELLO)

    assert await node.ended() == (1008, "hello came twice")


async def test_a_newer_socket_of_the_same_node_takes_over(
    admin: Admin, connect: Connect, database: Database
) -> None:
    first = await open_node(admin, connect)
    second = await open_node(admin, connect)

    assert (await first.ended())[0] == 1001
    assert second.session.is_open
    assert await stored_nodes(database) == 1
    sessions = sa.select(sa.func.count()).select_from(tables.node_session)
    assert await database.read(lambda conn: conn.execute(sessions).scalar_one()) == 1


async def test_heartbeats_are_acknowledged_after_the_renewal(
    admin: Admin, connect: Connect
) -> None:
    node = await open_node(admin, connect)
    node.pipe.say({"type": "heartbeat", "seq": 5, "in_use": 0})
    await wait_until_async(lambda: node.session.heartbeat == 5)
    assert not any(isinstance(m, HeartbeatAck) for m in node.pipe.from_admin)

    await admin.engine.leases.run_once()

    ack = await node.heard(HeartbeatAck)
    assert isinstance(ack, HeartbeatAck)
    assert ack.seq == 5


async def test_a_revoked_token_ends_the_socket(
    admin: Admin, connect: Connect, database: Database
) -> None:
    await add_job(database)  # brings its executor
    node = await open_node(admin, connect)
    await admin.engine.leases.run_once()
    assert node.session.is_open

    await change(database, tables.executor, 1, token_hash="another")
    await admin.engine.leases.run_once()

    code, reason = await node.ended()
    assert (code, reason) == (1001, "the executor token was revoked")


async def test_closing_shortens_the_lease(
    admin: Admin, connect: Connect, database: Database
) -> None:
    node = await open_node(admin, connect)
    lease = sa.select(tables.node.c.lease_expires_at)
    before = await database.read(lambda conn: conn.execute(lease).scalar_one())

    node.pipe.to_admin.put_nowait(None)
    await node.ended()

    after = await database.read(lambda conn: conn.execute(lease).scalar_one())
    assert after <= before - 9_000


async def test_nul_and_oversized_reports_are_made_storable(
    admin: Admin, connect: Connect, database: Database
) -> None:
    run_id = await add_run(database, await add_job(database))
    node = await open_node(admin, connect)
    await admin.engine.dispatcher.run_once()
    request = await node.heard(RunRequest)
    assert isinstance(request, RunRequest)
    huge = result(request, value="x" * 70_000, message="a\0b")

    for frame in encode_frames([accepted(request), huge]):
        node.pipe.to_admin.put_nowait(frame)
    async with asyncio.timeout(5):
        while (await get_run(database, run_id)).state is not RunState.FAILED:
            await admin.engine.recorder.run_once()

    run = await get_run(database, run_id)
    assert run.result == "null"
    assert "larger than 65536 bytes" in (run.message or "")


async def test_a_result_has_a_receipt_only_when_it_is_committed(
    admin: Admin, connect: Connect, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_args: object, **_rest: object) -> NoReturn:
        raise DatabaseUnavailable

    run_id = await add_run(database, await add_job(database))
    node = await open_node(admin, connect)
    await admin.engine.dispatcher.run_once()
    request = await node.heard(RunRequest)
    assert isinstance(request, RunRequest)
    node.pipe.to_admin.put_nowait(next(iter(encode_frames([result(request)]))))
    await wait_until_async(lambda: admin.engine.recorder.backlog > 0, what="the result to arrive")

    with monkeypatch.context() as patch:
        patch.setattr(database, "run", unavailable)
        with pytest.raises(DatabaseUnavailable):
            await admin.engine.recorder.run_once()
    last = Cancel(run=1, attempt=1, token="t", reason="stale")  # type: ignore[arg-type]
    node.session.send([last])
    await node.heard(Cancel)  # whatever was sent before it is here as well
    assert not [each for each in node.pipe.from_admin if isinstance(each, ResultReceipt)]

    await admin.engine.recorder.run_once()
    await node.heard(ResultReceipt)
    assert (await get_run(database, run_id)).state is RunState.SUCCEEDED


async def test_a_node_that_does_not_read_is_cut_off(admin: Admin, connect: Connect) -> None:
    node = await open_node(admin, connect)
    cancel = Cancel(run=1, attempt=1, token="t", reason="stale")  # type: ignore[arg-type]

    node.session.send([cancel] * 60_000)

    assert (await node.ended())[0] == 1013


async def test_a_node_hears_of_an_admin_that_starts_later_and_of_one_that_has_gone(
    admin: Admin, connect: Connect, database: Database
) -> None:
    await add_job(database)  # of the executor whose token it shows
    node = connect()
    node.pipe.say(HELLO, {"type": "held", "runs": []})
    welcome = await node.heard(Welcome)
    assert isinstance(welcome, Welcome)
    assert welcome.admins == ["http://admin-1"]
    later = Admin(database, admin_id=2)
    await later.engine.membership.enter()

    await admin.engine.leases.run_once()
    await admin.engine.leases.run_once()
    await node.heard(HeartbeatAck)
    assert await node.heard(Admins) == Admins(urls=["http://admin-1", "http://admin-2"])
    assert not [each for each in node.pipe.from_admin if isinstance(each, Admins)]  # told once

    await later.engine.membership.leave()
    await admin.engine.leases.run_once()
    assert await node.heard(Admins) == Admins(urls=["http://admin-1"])


async def test_a_session_that_is_to_be_closed_is_not_opened_any_more(
    admin: Admin, connect: Connect, hub: LinkHub
) -> None:
    node = connect()
    node.pipe.say(HELLO, {"type": "held", "runs": []})
    await node.heard(Welcome)
    await wait_until_async(lambda: admin.engine.recorder.backlog > 0, what="held to arrive")
    node.session.close(1001, "the executor token was revoked")

    await admin.engine.recorder.run_once()

    assert not node.session.is_open
    assert dict(hub.connected()) == {}


async def test_a_node_that_claims_to_hold_more_than_anybody_has_slots_is_closed(
    connect: Connect,
) -> None:
    node = connect()
    node.pipe.say(HELLO)
    await node.heard(Welcome)
    node.pipe.say(
        {
            "type": "held",
            "runs": [{"run": run, "attempt": 1, "token": ""} for run in range(1, 10_002)],
        }
    )
    assert await node.ended() == (1008, "held: no node has more than 10000 slots")


async def test_a_frame_may_say_goodbye_a_thousand_times_and_is_heard_once(
    connect: Connect, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []

    async def goodbye(*, node_id: int) -> None:
        heard.append(node_id)

    monkeypatch.setattr(admin.engine.membership, "goodbye", goodbye)
    node = connect()
    node.pipe.say(HELLO)
    await node.heard(Welcome)
    node.pipe.say(*[{"type": "goodbye"}] * 1_000)
    node.pipe.say(HELLO)
    await node.ended()
    assert len(heard) == 1


async def test_large_frames_of_one_executor_wait_for_each_other_and_for_nobody_else() -> None:
    budget = FrameBudget()
    order: list[str] = []

    async def take(name: str, executor_id: int, size: int) -> None:
        async with budget.reserved(executor_id, size):
            order.append(name)

    async with budget.reserved(1, MAX_BYTES):
        waiting = asyncio.create_task(take("mine", 1, SMALL_BYTES + 1))
        await asyncio.sleep(0)
        await take("small", 1, SMALL_BYTES)
        await take("another's", 2, MAX_BYTES)
        assert order == ["small", "another's"]
    await waiting
    assert order[2:] == ["mine"]
    assert not budget._taken


async def test_a_node_that_does_not_read_is_not_listened_to(
    connect: Connect, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.links.session.MAX_UNREAD", 2)
    node = connect()
    node.pipe.say(HELLO)
    await node.heard(Welcome)
    reads, send = asyncio.Event(), node.pipe.send

    async def blocked(frame: bytes) -> None:
        await reads.wait()
        await send(frame)

    monkeypatch.setattr(node.pipe, "send", blocked)
    node.session.send([HeartbeatAck(seq=1)])
    await asyncio.sleep(0)  # the writer has it, and is stuck with it
    node.session.send([HeartbeatAck(seq=n) for n in range(2, 6)])
    node.pipe.say({"type": "held", "runs": []})
    for _ in range(20):
        await asyncio.sleep(0)
    assert admin.engine.recorder.backlog == 0
    reads.set()
    await wait_until_async(lambda: admin.engine.recorder.backlog == 1, what="held to arrive")


async def test_what_a_node_that_went_has_not_said_yet_is_not_kept(
    connect: Connect, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not acknowledged, so it comes again; and who never listens must not fill the memory."""
    monkeypatch.setattr("tickwheel_admin.links.session.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("tickwheel_admin.engine.recorder.inbox.MAX_OF_NODE", 1)
    node = connect()
    node.pipe.say(HELLO)
    await node.heard(Welcome)
    node.pipe.say({"type": "held", "runs": []})
    node.pipe.say({"type": "held", "runs": []})  # there is no room for this one
    await wait_until_async(lambda: admin.engine.recorder.backlog == 1, what="held to arrive")
    await node.pipe.close(1006, "gone")
    await node.ended()
    assert admin.engine.recorder.backlog == 1
