"""Timeouts, cancels and draining: how an attempt and a node come to an end."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

from tests.executor_sdk.scripted_admin import (
    MemorySpool,
    ScriptedAdmin,
    connect,
    request,
    value,
)
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Run
from tickwheel_executor.run.context import Stop
from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    Draining,
    Goodbye,
    LogChunk,
    Outcome,
    Refusal,
    Refused,
    Result,
)


def cancel(run: int, reason: CancelReason = CancelReason.OPERATOR) -> Cancel:
    return Cancel(run=run, attempt=1, token=f"token-{run}-1", reason=reason)


async def sleep_long(run: Run) -> str:
    await asyncio.sleep(3600)
    return "slept"


@virtual_time
async def test_an_async_handler_is_stopped_at_its_timeout() -> None:
    _, node, session = await connect({"work": sleep_long})
    session.send(request(timeout_ms=2_500))
    result = await session.expect(Result)
    assert (result.outcome, result.message) == (Outcome.TIMED_OUT, "timed out after 2.5 s")
    assert result.duration_ms == 2_500
    assert await node.drain(1)


@virtual_time
async def test_each_reason_to_cancel_has_its_outcome() -> None:
    _, node, session = await connect({"work": sleep_long})
    wanted = {
        CancelReason.OPERATOR: Outcome.CANCELLED,
        CancelReason.STALE: Outcome.CANCELLED,
        CancelReason.TIMEOUT: Outcome.TIMED_OUT,
    }
    for number, (reason, outcome) in enumerate(wanted.items(), start=1):
        session.send(request(number), cancel(number, reason))  # before it took its first step
        assert (await session.expect(Result)).outcome is outcome
    assert node.in_use == 0
    session.send(cancel(1))  # ended: how it ended
    assert (await session.expect(Result)).outcome is Outcome.CANCELLED
    assert await node.drain(1)


@virtual_time
async def test_a_handler_that_swallows_cancels_keeps_its_slot_and_is_cancelled_again() -> None:
    swallowed: list[float] = []

    async def stubborn(run: Run) -> str:
        while len(swallowed) < 3:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                swallowed.append(asyncio.get_running_loop().time())
                assert run.cancelled
        return "at last"

    _, node, session = await connect({"work": stubborn}, slots=1)
    session.send(request())
    await session.expect(Accepted)
    await asyncio.sleep(1)
    session.send(cancel(1), cancel(1), request(2))
    assert (await session.expect(Accepted)).run == 1  # the further cancel
    assert (await session.expect(Refused)).reason is Refusal.FULL
    result = await session.expect(Result, within=60)

    assert result.outcome is Outcome.CANCELLED
    assert value(result) == "at last"
    assert [round(b - a) for a, b in pairwise(swallowed)] == [10, 10]
    text = [line.text for chunk in session.all(LogChunk) for line in chunk.lines]
    assert text[0] == "cancelled by an operator"
    assert "cancelling it again" in text[1]
    assert await node.drain(1)


@virtual_time
async def test_an_error_while_stopping_is_in_the_log_but_the_outcome_stays() -> None:
    async def clumsy(run: Run) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise ConnectionError("cannot roll back")

    _, node, session = await connect({"work": clumsy})
    session.send(request(timeout_ms=1000))
    result = await session.expect(Result)
    assert (result.outcome, result.message) == (Outcome.TIMED_OUT, "timed out after 1 s")
    text = "\n".join(line.text for chunk in session.all(LogChunk) for line in chunk.lines)
    assert "ConnectionError: cannot roll back" in text
    await node.drain(1)


@virtual_time
async def test_draining_finishes_refuses_says_goodbye_and_closes() -> None:
    async def work(run: Run) -> str:
        await asyncio.sleep(5)
        return "done"

    spool = MemorySpool()
    admin, node, session = await connect({"work": work}, spool=spool)
    session.send(request())
    await session.expect(Accepted)
    drained = asyncio.create_task(node.drain(30))
    await session.expect(Draining)
    session.send(request(2))
    assert (await session.expect(Refused)).reason is Refusal.DRAINING
    assert (await session.expect(Result)).outcome is Outcome.SUCCEEDED
    await session.expect(Goodbye)

    assert await drained
    assert asyncio.get_running_loop().time() < 10
    assert session.received[-1] == Goodbye()
    assert session.channel.closed == (1000, "the node is going away")
    assert (spool.disk, spool.closed) == ({}, True)
    await asyncio.sleep(300)
    assert len(admin.sessions) == 1  # it stays away
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtual_time
async def test_nothing_comes_after_goodbye() -> None:
    admin = ScriptedAdmin()
    admin.heartbeat_ms, admin.send_seconds = 10, 0.1  # many are due while the frame leaves
    _, node, session = await connect({"work": sleep_long}, admin=admin)
    assert await node.drain(1)
    assert session.received[-1] == Goodbye()
    assert session.channel.closed == (1000, "the node is going away")


@virtual_time
async def test_draining_ends_what_does_not_finish_in_time_as_failed() -> None:
    _, node, session = await connect({"work": sleep_long})
    session.send(request())
    await session.expect(Accepted)
    assert await node.drain(3)
    result = session.all(Result)[0]
    assert result.outcome is Outcome.FAILED  # a retry may follow: nobody asked to cancel it
    assert "the node was shut down" in result.message
    assert session.received[-1] == Goodbye()


@virtual_time
async def test_draining_without_admin_leaves_results_in_the_spool() -> None:
    admin, spool = ScriptedAdmin(), MemorySpool()
    admin.gives_receipts = False

    async def work(run: Run) -> str:
        await asyncio.sleep(2)
        return "done"

    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    session.send(request())
    await session.expect(Accepted)
    admin.up = False
    session.close()
    assert await node.drain(10)
    assert list(spool.disk) == [(1, 1, "token-1-1")]
    assert asyncio.get_running_loop().time() < 20


@virtual_time
async def test_a_node_without_receipt_does_not_say_goodbye() -> None:
    async def work(run: Run) -> None:
        return None

    admin, spool = ScriptedAdmin(), MemorySpool()
    admin.gives_receipts = False
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    session.send(request())
    await session.expect(Result)
    assert await node.drain(1)  # clean: the result is safe on disk
    assert session.all(Goodbye) == []
    assert list(spool.disk) == [(1, 1, "token-1-1")]


@virtual_time
async def test_abort_sends_nothing_more() -> None:
    admin, spool = ScriptedAdmin(), MemorySpool()
    spool.write_seconds = 1
    cleaned: list[str] = []

    async def work(run: Run) -> None:
        run.log.info("started")
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.append("up")

    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    session.send(request(), request(2))
    await session.expect(Accepted)
    session.send(cancel(2))
    await asyncio.sleep(0.5)
    count = len(session.received)
    node.abort()
    await asyncio.sleep(100)
    assert len(session.received) == count
    assert session.channel.closed is None  # the network is not the node's to break
    assert len(admin.connected_at) == 1
    assert cleaned == ["up", "up"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


# --- threads: real time, for a thread does not know another one -----------------------------------


async def test_plain_handlers_run_in_threads_and_carry_their_run() -> None:
    names: list[str] = []
    both = threading.Barrier(2, timeout=5)

    def work(run: Run) -> str:
        from tickwheel_executor import current_run

        names.append(threading.current_thread().name)
        both.wait()  # passes only when two run at once
        return f"run {current_run().id}"

    _, node, session = await connect({"work": work})
    session.send(request(1), request(2))
    results = [await session.expect(Result), await session.expect(Result)]
    assert {value(result) for result in results} == {"run 1", "run 2"}
    assert all(name.startswith("tickwheel-") for name in names)
    session.send(request(3), request(4))
    await session.expect(Result)
    await session.expect(Result)
    assert len(set(names)) == 2  # idle threads are used again
    assert await node.drain(1)


async def test_a_thread_polls_cancelled_and_reports_how_it_was_stopped() -> None:
    started = threading.Event()

    def work(run: Run) -> None:
        started.set()
        while True:
            run.raise_if_cancelled()
            time.sleep(0.005)

    _, node, session = await connect({"work": work})
    session.send(request(timeout_ms=50))
    result = await session.expect(Result)
    assert result.outcome is Outcome.TIMED_OUT
    text = [line.text for chunk in session.all(LogChunk) for line in chunk.lines]
    assert text[0] == "timed out after 0.05 s"
    assert "cannot be stopped from outside" in text[1]
    assert len(text) == 2  # leaving by raise_if_cancelled is no error
    assert await node.drain(1)


async def test_a_thread_that_does_not_return_keeps_its_slot() -> None:
    release = threading.Event()

    def work(run: Run) -> str:
        release.wait(10)
        return "late"

    _, node, session = await connect({"work": work}, slots=1)
    session.send(request(), cancel(1), cancel(1), request(2))
    assert (await session.expect(Accepted)).run == 1
    assert (await session.expect(Accepted)).run == 1  # the second cancel: it goes on
    assert (await session.expect(Refused)).reason is Refusal.FULL
    assert session.all(Result) == []
    release.set()
    result = await session.expect(Result)
    assert (result.outcome, value(result)) == (Outcome.CANCELLED, "late")
    assert await node.drain(1)


async def test_a_thread_that_has_ended_unreported_is_not_told_to_stop() -> None:
    def work(run: Run) -> str:
        return "done"

    _, node, session = await connect({"work": work})
    session.send(request())
    while (attempt := node._in_flight.find((1, 1))) is None:  # noqa: ASYNC110 (turn by turn)
        await asyncio.sleep(0)
    execution = attempt.execution
    assert execution is not None
    deadline = time.monotonic() + 10
    while not execution.has_ended and time.monotonic() < deadline:
        time.sleep(0.001)  # noqa: ASYNC251 (the loop must not hear of the end yet)
    node._in_flight.stop(attempt, Stop(outcome=Outcome.CANCELLED, message="a moment too late"))
    assert (await session.expect(Result)).outcome is Outcome.SUCCEEDED
    assert await node.drain(1)


async def test_a_plain_handler_that_returns_a_coroutine_or_exits_fails_clearly() -> None:
    admin = ScriptedAdmin()

    def work(run: Run) -> object:
        return sleep_long(run)

    def leave() -> None:
        raise SystemExit("no more")

    _, node, session = await connect({"work": work, "leave": leave}, admin=admin)
    session.send(request())
    assert "declare it with `async def`" in (await session.expect(Result)).message
    session.send(request(2, handler="leave"))
    assert "the handler called sys.exit('no more')" in (await session.expect(Result)).message
    assert await node.drain(1)


@virtual_time
async def test_a_spool_that_cannot_be_tidied_up_does_not_spoil_the_end() -> None:
    spool = MemorySpool()
    _, node, session = await connect({"work": sleep_long}, spool=spool)
    spool.fails = "no space left on device"

    assert await node.drain(1)

    assert spool.closed
    assert session.all(Goodbye)
