"""A database that was restored from a backup hands out attempts once more, with other tokens.

What became of an old claim must not pass for what became of a new one: that would be a run which
nobody executed and everybody believes done.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.executor_sdk.scripted_admin import (
    MemorySpool,
    ScriptedAdmin,
    Session,
    connect,
    receipt,
    request,
)
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Run
from tickwheel_executor.spool.file_spool import FileSpool
from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    Outcome,
    Query,
    ReceiptCode,
    Refusal,
    Refused,
    Result,
)

NEW = "of the restored database"


class Bench:
    def __init__(self) -> None:
        self.started: list[str] = []
        self.gate = asyncio.Event()

    async def work(self, run: Run) -> None:
        self.started.append(run.log.token)
        await self.gate.wait()


async def refused_in_every_way(session: Session) -> None:
    """The new claim is neither started nor answered for."""
    results = len(session.all(Result))
    for message in (
        request(1, token=NEW),
        Query(run=1, attempt=1, token=NEW),
        Cancel(run=1, attempt=1, token=NEW, reason=CancelReason.OPERATOR),
        request(1, token=NEW),
    ):
        session.send(message)
        refused = await session.expect(Refused)
        assert (refused.token, refused.reason) == (NEW, Refusal.NEVER_SEEN)
    assert len(session.all(Result)) == results


@virtual_time
async def test_another_claim_of_what_is_held_pending_or_over_is_refused_and_the_next_one_runs() -> (
    None
):
    admin, bench = ScriptedAdmin(), Bench()
    admin.gives_receipts = False
    _, node, session = await connect({"work": bench.work}, admin=admin)
    session.send(request(1))
    await session.expect(Accepted)
    await refused_in_every_way(session)  # held
    bench.gate.set()
    result = await session.expect(Result)
    assert result.token == "token-1-1"
    await refused_in_every_way(session)  # its result waits for a receipt
    session.send(receipt(result, ReceiptCode.REFUSED, reason="wrong_token"))
    await asyncio.sleep(0.1)
    await refused_in_every_way(session)  # over

    session.send(Query(run=1, attempt=1, token="token-1-1"))  # that claim is still answered for
    assert (await session.expect(Result)).outcome is Outcome.SUCCEEDED
    session.send(request(1, 2, token="of the next claim"))
    assert (await session.expect(Accepted)).attempt == 2
    await session.expect(Result)
    assert bench.started == ["token-1-1", "of the next claim"]
    admin.gives_receipts = True
    assert await node.drain(10)


@virtual_time
async def test_a_refused_claim_stays_refused_for_as_long_as_any() -> None:
    admin, bench = ScriptedAdmin(), Bench()
    bench.gate.set()
    _, node, session = await connect({"work": bench.work}, admin=admin)
    session.send(request(1))
    await session.expect(Result)
    await asyncio.sleep(14 * 60)
    await refused_in_every_way(session)
    await asyncio.sleep(14 * 60)  # the old claim ended long ago, the refusal did not
    await refused_in_every_way(session)
    assert bench.started == ["token-1-1"]
    await node.drain(1)


def left_behind(token: str) -> Result:
    return Result(run=1, attempt=1, token=token, outcome=Outcome.SUCCEEDED, duration_ms=1)


@virtual_time
async def test_results_of_two_claims_are_delivered_and_cleared_one_by_one() -> None:
    admin, spool, bench = ScriptedAdmin(), MemorySpool(), Bench()
    admin.gives_receipts = False
    bench.gate.set()
    _, node, session = await connect({"work": bench.work}, spool=spool, admin=admin)
    session.send(request(1, token=NEW))
    new = await session.expect(Result)
    spool.left_over = [left_behind("old")]  # of a neighbour that died before the restore
    old = await session.expect(Result, within=60)
    while old.token == NEW:  # sent again meanwhile
        old = await session.expect(Result, within=60)
    assert set(spool.disk) == {(1, 1, NEW), (1, 1, "old")}
    session.send(receipt(old, ReceiptCode.REFUSED, reason="wrong_token"))
    session.send(receipt(old, ReceiptCode.REFUSED, reason="wrong_token"))  # it was sent twice
    await asyncio.sleep(0.1)
    assert set(spool.disk) == {(1, 1, NEW)}
    assert (await session.expect(Result)).token == NEW  # and this one goes on being sent
    session.send(receipt(new))
    await asyncio.sleep(20)
    assert spool.disk == {}
    session.seen = len(session.received)
    session.send(Query(run=1, attempt=1, token=NEW))
    assert (await session.expect(Result)).message == "delivered before"
    assert await node.drain(1)


async def test_the_file_spool_keeps_two_claims_of_one_attempt_apart(tmp_path: Path) -> None:
    async def opened(process: str) -> FileSpool:
        spool = FileSpool(tmp_path, process * 32)
        await spool.open()
        return spool

    first, second = await opened("a"), await opened("b")
    await first.write([left_behind("old")])
    await second.write([left_behind(NEW)])
    await first.close()
    await second.close()
    third = await opened("c")
    assert [result.token for result in await third.adopt()] == ["old", NEW]
    third.remove(left_behind("old"))
    await third.close()
    fourth = await opened("d")
    assert [result.token for result in await fourth.adopt()] == [NEW]
    await fourth.close()


@pytest.mark.parametrize("reason", list(CancelReason))
def test_a_cancel_of_another_claim_stops_nothing(reason: CancelReason) -> None:
    @virtual_time
    async def run() -> None:
        bench = Bench()
        _, node, session = await connect({"work": bench.work})
        session.send(request(1))
        await session.expect(Accepted)
        session.send(Cancel(run=1, attempt=1, token=NEW, reason=reason))
        await session.expect(Refused)
        bench.gate.set()
        assert (await session.expect(Result)).outcome is Outcome.SUCCEEDED
        await node.drain(1)

    run()
