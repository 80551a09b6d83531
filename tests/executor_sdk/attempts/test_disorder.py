"""Messages that come twice, late by up to 300 s, and in any order, over sockets that break."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from random import Random

import msgspec
import pytest

from tests.executor_sdk.scripted_admin import (
    MemorySpool,
    ScriptedAdmin,
    connect,
    make_node,
    request,
    value,
)
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Run
from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    Message,
    Outcome,
    Query,
    Refused,
    Result,
    RunRequest,
)

Claim = tuple[int, int]
RUNS = 40


class World:
    """One node, two admins, and a network that does what it likes with what admins send."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.admins = [ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")]
        self.spool = MemorySpool()
        self.started: list[Claim] = []
        self.refused_before: list[Claim] = []  # started although refused
        self.node = make_node(
            *self.admins, handlers={"work": self.work}, spool=self.spool, slots=12, seed=seed
        )

    async def work(self, run: Run) -> list[int]:
        claim = (run.id, run.attempt)
        if claim in {(m.run, m.attempt) for m in self.said(Refused)}:
            self.refused_before.append(claim)
        self.started.append(claim)
        await asyncio.sleep(self.random.choice((0, 0.5, 20)))
        return [run.id, run.attempt]

    def said(self, kind: type[Message]) -> list[Message]:
        return [m for admin in self.admins for m in admin.journal if isinstance(m, kind)]

    def messages(self) -> list[Message]:
        sent: list[Message] = []
        for run in range(1, RUNS + 1):
            for attempt in range(1, self.random.randint(1, 3) + 1):
                message = request(run, attempt)
                sent += [message] * self.random.randint(1, 3)
                key = {"run": run, "attempt": attempt, "token": message.token}
                if self.random.random() < 0.5:
                    sent.append(Query(**key))
                if self.random.random() < 0.3:
                    sent.append(Cancel(**key, reason=self.random.choice(list(CancelReason))))
        return sent

    async def carry(self, message: Message) -> None:
        """Like a frame that waited in some buffer; on a broken socket it is lost."""
        await asyncio.sleep(self.random.choice((0, self.random.uniform(0, 200), 300)))
        session = self.random.choice(self.admins).sessions[-1]
        if session.channel.closed is None:
            session.send(message)

    async def break_sockets(self) -> None:
        for _ in range(10):
            await asyncio.sleep(self.random.uniform(0, 60))
            admin = self.random.choice(self.admins)
            admin.gives_receipts = self.random.random() < 0.7
            admin.sessions[-1].close()


@pytest.mark.parametrize("seed", range(25))
def test_every_attempt_starts_at_most_once_and_is_answered_for(seed: int) -> None:
    @virtual_time
    async def play() -> None:
        world = World(seed)
        await world.node.start()
        for admin in world.admins:
            await admin.session()
        sent = world.messages()
        world.random.shuffle(sent)
        await asyncio.gather(world.break_sockets(), *(world.carry(message) for message in sent))
        for admin in world.admins:
            admin.gives_receipts = True
        await asyncio.sleep(120)

        assert [claim for claim, times in Counter(world.started).items() if times > 1] == []
        assert world.refused_before == []
        assert world.node.in_use == 0
        assert world.spool.disk == {}
        ends: defaultdict[Claim, set[tuple[Outcome, str]]] = defaultdict(set)
        for result in world.said(Result):
            assert isinstance(result, Result)
            claim = (result.run, result.attempt)
            assert result.token == f"token-{result.run}-{result.attempt}"
            ends[claim].add((result.outcome, result.token))
            if result.outcome is Outcome.SUCCEEDED and result.message != "delivered before":
                assert value(result) == list(claim)
        # A claim that is cancelled before its first step has a result and no start.
        assert set(world.started) <= set(ends)
        assert all(len(outcomes) == 1 for outcomes in ends.values())  # told alike every time
        refused = {(m.run, m.attempt) for m in world.said(Refused)}  # type: ignore[attr-defined]
        assert not refused & set(ends)
        assert len(world.started) > RUNS / 2
        assert await world.node.drain(1)

    play()


@virtual_time
async def test_a_result_whose_accepted_was_lost_with_its_socket_comes_by_another() -> None:
    gate = asyncio.Event()

    async def work(run: Run) -> str:
        await gate.wait()
        return "done"

    admins = [ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")]
    node = make_node(*admins, handlers={"work": work})
    await node.start()
    first, second = [await admin.session() for admin in admins]
    first.send(request())
    first.close()  # the frame is read, and nothing can be answered any more
    gate.set()
    assert value(await second.expect(Result)) == "done"
    assert [m for admin in admins for m in admin.journal if isinstance(m, Accepted)] == []
    await node.drain(1)


@virtual_time
async def test_a_whole_frame_that_comes_twice_is_one_start_each() -> None:
    started: list[int] = []

    async def work(run: Run) -> None:
        started.append(run.id)
        await asyncio.sleep(1)

    _, node, session = await connect({"work": work}, slots=100)
    frame: list[RunRequest] = [request(run) for run in range(1, 51)]
    session.send_raw(msgspec.json.encode(frame))
    session.send_raw(msgspec.json.encode(frame))
    await asyncio.sleep(0.5)
    assert len(session.all(Accepted)) == 100  # "holds it", the second time
    await asyncio.sleep(2)
    session.send_raw(msgspec.json.encode(frame))
    await asyncio.sleep(2)
    assert started == list(range(1, 51))
    assert Counter(result.run for result in session.all(Result)) == dict.fromkeys(started, 2)
    await node.drain(1)
