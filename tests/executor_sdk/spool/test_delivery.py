"""Results: safe on disk before they are sent, sent until a receipt comes, and a disk that fails."""

from __future__ import annotations

import asyncio

from tests.executor_sdk.scripted_admin import (
    MemorySpool,
    ScriptedAdmin,
    connect,
    make_node,
    receipt,
    request,
)
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Run
from tickwheel_shared.protocol import (
    Accepted,
    Outcome,
    ReceiptCode,
    Refusal,
    Refused,
    Result,
)


async def work(run: Run) -> int:
    return run.id


@virtual_time
async def test_a_result_is_sent_only_when_it_is_safe_and_removed_on_its_receipt() -> None:
    admin, spool = ScriptedAdmin(), MemorySpool()
    admin.gives_receipts = False
    spool.write_seconds = 2
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    session.send(request())
    await asyncio.sleep(1.9)
    assert session.all(Result) == []
    assert node.in_use == 1  # and its slot is taken until then
    result = await session.expect(Result)
    assert list(spool.disk) == [(1, 1, "token-1-1")]
    assert node.in_use == 0
    session.send(receipt(result))
    await asyncio.sleep(0.1)
    assert spool.disk == {}
    assert await node.drain(1)


@virtual_time
async def test_results_that_end_together_are_written_together() -> None:
    admin, spool = ScriptedAdmin(), MemorySpool()
    spool.write_seconds = 0.5
    _, node, session = await connect({"work": work}, spool=spool, slots=100, admin=admin)
    session.send(request(1))
    await asyncio.sleep(0.1)
    session.send(*(request(n) for n in range(2, 101)))
    await asyncio.sleep(2)
    assert [len(batch) for batch in spool.writes] == [1, 99]
    assert await node.drain(1)


@virtual_time
async def test_a_result_without_receipt_is_sent_every_five_seconds_and_on_a_new_socket() -> None:
    admin = ScriptedAdmin()
    admin.gives_receipts = False
    _, node, session = await connect({"work": work}, admin=admin)
    session.send(request())
    await asyncio.sleep(17)
    assert len(session.all(Result)) == 4  # at 0, 5, 10, 15 s
    session.close()
    second = await admin.session(1)
    assert isinstance(second.received[1], Result)
    second.send(receipt(second.received[1], ReceiptCode.REFUSED, reason="old attempt"))
    await asyncio.sleep(30)
    assert len(second.all(Result)) == 1
    assert await node.drain(1)


@virtual_time
async def test_a_node_delivers_what_neighbours_left_that_died_later() -> None:
    spool = MemorySpool()
    _, node, session = await connect({"work": work}, spool=spool)
    left = Result(run=8, attempt=2, token="x", outcome=Outcome.SUCCEEDED, duration_ms=1)
    spool.left_over = [left]
    assert (await session.expect(Result, within=40)) == left
    await asyncio.sleep(0.1)
    assert spool.disk == {}
    assert await node.drain(1)


@virtual_time
async def test_a_full_disk_refuses_new_runs_says_so_and_recovers() -> None:
    admin, spool = ScriptedAdmin(), MemorySpool()
    admin.gives_receipts = False
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    spool.fails = "/var/lib/x: No space left on device"
    session.send(request(1))
    result = await session.expect(Result)  # no safer in memory than on the wire
    assert result.outcome is Outcome.SUCCEEDED
    session.send(request(2))
    refused = await session.expect(Refused)
    assert (refused.reason, refused.message) == (Refusal.SPOOL_FAILED, spool.fails)
    spool.fails = ""
    await asyncio.sleep(12)
    assert list(spool.disk) == [(1, 1, "token-1-1")]  # made safe at last
    session.send(request(3))
    assert (await session.expect(Accepted)).run == 3
    admin.gives_receipts = True
    assert await node.drain(10)
    assert spool.disk == {}


@virtual_time
async def test_draining_with_a_full_disk_is_not_clean() -> None:
    admin, spool = ScriptedAdmin(), MemorySpool()
    admin.gives_receipts = False
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    spool.fails = "full"
    session.send(request(1))
    await session.expect(Result)
    assert not await node.drain(1)


@virtual_time
async def test_a_successor_delivers_the_results_of_a_crashed_node() -> None:
    admin, spool = ScriptedAdmin(), MemorySpool()
    admin.gives_receipts = False
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    session.send(request(1))
    await session.expect(Result)
    node.abort()
    spool.left_over = list(spool.disk.values())
    admin.gives_receipts = True
    successor = make_node(admin, handlers={"work": work}, spool=spool, seed=2)
    await successor.start()
    second = await admin.session(1)
    assert (await second.expect(Result)).token == "token-1-1"
    second.send(request(1))  # it knows the attempt: it is not started again
    await second.expect(Result)
    assert successor.key != node.key
    assert await successor.drain(1)
    assert spool.disk == {}
