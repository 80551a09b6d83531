"""A node that hears from no admin stops what must not run twice, on time, and nothing else."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from tests.executor_sdk.scripted_admin import (
    MemorySpool,
    ScriptedAdmin,
    Session,
    connect,
    make_node,
    request,
    value,
)
from tests.executor_sdk.virtual_time import VirtualLoop, virtual_time
from tickwheel_executor import Run
from tickwheel_executor.attempts.attempt import InFlightAttempt
from tickwheel_executor.run.context import Stop
from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    Heartbeat,
    HeartbeatAck,
    Held,
    LogChunk,
    Outcome,
    Query,
    Refusal,
    Refused,
    Result,
    RunRequest,
)


def alone(run: int = 1, **changes: Any) -> RunRequest:
    """A run beside which nothing may run."""
    return request(run, stop_when_cut_off=True, **changes)


def now() -> float:
    return asyncio.get_running_loop().time()


class Bench:
    """A handler that works for ever, and notes when it is stopped."""

    def __init__(self) -> None:
        self.stopped_at: list[float] = []

    async def work(self, run: Run) -> None:
        try:
            await asyncio.sleep(36_000)
        except asyncio.CancelledError:
            assert run.cancelled
            self.stopped_at.append(now())
            raise


async def started(session: Session, message: RunRequest) -> None:
    session.send(message)
    assert (await session.expect(Accepted)).run == message.run


@virtual_time
async def test_it_is_stopped_four_fifths_of_a_lease_after_what_was_acknowledged_last() -> None:
    bench = Bench()
    admin, node, session = await connect({"work": bench.work})
    await started(session, alone())
    await asyncio.sleep(3_600)
    assert bench.stopped_at == []  # for as long as it is heard
    admin.answers_heartbeats = False
    result = await session.expect(Result)

    assert bench.stopped_at == [pytest.approx(admin.acknowledged_at[-1] + 12.0, abs=1e-6)]
    assert result.outcome is Outcome.CUT_OFF
    assert "no admin has answered for 12 s" in result.message
    assert session.channel.closed is None  # 3 s are left until the sockets are broken off
    await node.drain(1)


@virtual_time
async def test_its_end_is_safe_on_disk_and_delivered_when_an_admin_is_back() -> None:
    admin, spool, bench = ScriptedAdmin(), MemorySpool(), Bench()
    _, node, session = await connect({"work": bench.work}, spool=spool, admin=admin)
    await started(session, alone())
    admin.up = False
    session.close()
    await asyncio.sleep(60)
    assert [result.outcome for result in spool.disk.values()] == [Outcome.CUT_OFF]
    assert node.in_use == 0
    admin.up = True
    second = await admin.session(1)

    assert second.all(Result)[0].outcome is Outcome.CUT_OFF
    assert second.all(Held) == [Held(runs=[])]
    assert bench.stopped_at == [pytest.approx(admin.acknowledged_at[0] + 12.0, abs=1e-6)]
    lines = [line.text for chunk in second.all(LogChunk) for line in chunk.lines]
    assert lines == [second.all(Result)[0].message]
    await started(second, alone(2))  # heard again, it works again
    await asyncio.sleep(60)
    assert node.in_use == 1
    await node.drain(1)


@virtual_time
async def test_one_admin_that_answers_is_enough() -> None:
    admins = [ScriptedAdmin(), ScriptedAdmin("admin-2", url="http://admin-2:8500")]
    bench = Bench()
    node = make_node(*admins, handlers={"work": bench.work})
    await node.start()
    session = await admins[0].session()
    await started(session, alone())
    admins[0].answers_heartbeats = False
    admins[0].up = False
    session.close()
    await asyncio.sleep(300)
    assert bench.stopped_at == []
    admins[1].answers_heartbeats = False
    await asyncio.sleep(60)
    assert bench.stopped_at == [pytest.approx(admins[1].acknowledged_at[-1] + 12.0, abs=1e-6)]
    await node.drain(1)


@virtual_time
async def test_what_may_run_twice_goes_on() -> None:
    bench = Bench()
    admin, node, session = await connect({"work": bench.work})
    await started(session, request(1))
    await started(session, alone(2))
    admin.answers_heartbeats = False
    admin.up = False
    session.close()
    await asyncio.sleep(600)
    assert len(bench.stopped_at) == 1
    admin.up = True
    second = await admin.session(1)
    assert [(key.run, key.attempt) for key in second.all(Held)[0].runs] == [(1, 1)]
    await node.drain(1)


async def test_a_plain_handler_goes_on_for_nothing_can_stop_it() -> None:
    release = threading.Event()

    def work(run: Run) -> bool:
        release.wait(30)
        return run.cancelled

    admin = ScriptedAdmin()
    admin.heartbeat_ms, admin.lease_ms, admin.answers_heartbeats = 20, 400, False
    _, node, session = await connect({"work": work}, admin=admin)
    await started(session, alone())
    second = await admin.session(1)  # the lease is over, and so was the time to stop
    assert [key.run for key in second.all(Held)[0].runs] == [1]
    admin.lease_ms, admin.answers_heartbeats = 15_000, True
    release.set()
    result = await (await admin.session(len(admin.sessions) - 1)).expect(Result)
    assert (result.outcome, value(result)) == (Outcome.SUCCEEDED, False)
    assert await node.drain(1)


@virtual_time
async def test_who_ends_in_time_reports_the_real_result() -> None:
    async def work(run: Run) -> str:
        await asyncio.sleep(11)
        return "done"

    admin, spool = ScriptedAdmin(), MemorySpool()
    admin.gives_receipts = False
    spool.write_seconds = 5  # on its way to the disk when the time is over
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    admin.answers_heartbeats = False
    session.send(alone())
    await asyncio.sleep(11.5)
    assert not node._in_flight._lease_guard._watched  # it does not remember the ended for ever
    await asyncio.sleep(10)
    (result,) = spool.disk.values()
    assert (result.outcome, value(result)) == (Outcome.SUCCEEDED, "done")
    await node.drain(1)


@virtual_time
async def test_who_has_ended_unreported_is_not_told_to_stop() -> None:
    class Through:
        has_ended = True

    nothing: Any = None
    through: Any = Through()
    attempt = InFlightAttempt(request(), nothing, nothing, nothing)
    attempt.execution = through
    attempt.request_stop(Stop(outcome=Outcome.CUT_OFF, message="too late"))
    attempt.stop_again()
    assert attempt.stop is None


@virtual_time
async def test_who_swallows_it_is_cut_off_all_the_same_and_a_stale_cancel_is_not_argued_with() -> (
    None
):
    async def stubborn(run: Run) -> str:
        try:
            await asyncio.sleep(36_000)
        except asyncio.CancelledError:
            await asyncio.sleep(9)
        return "after all"

    admin, node, session = await connect({"work": stubborn})
    await started(session, alone())
    admin.answers_heartbeats = False
    second = await admin.session(1)  # 15 s after the last acknowledgement
    stale = Cancel(run=1, attempt=1, token="token-1-1", reason=CancelReason.STALE)
    assert [key.run for key in second.all(Held)[0].runs] == [1]
    second.send(stale, stale)
    result = await second.expect(Result)
    assert (result.outcome, value(result)) == (Outcome.CUT_OFF, "after all")
    assert second.all(Accepted) == []
    await node.drain(1)


@virtual_time
async def test_after_a_freeze_it_takes_no_further_step() -> None:
    """What became ready during the freeze comes first in the loop, before any timer."""
    loop = cast("VirtualLoop", asyncio.get_running_loop())
    gates = {run: asyncio.Event() for run in (1, 2, 4)}
    broken: asyncio.Future[None] = loop.create_future()
    steps: list[str] = []

    async def work(run: Run) -> None:
        steps.append(f"{run.id} begins")
        try:
            if run.id == 3:
                await broken
            await gates[run.id].wait()
        except ConnectionError:
            steps.append(f"{run.id} sees its connection broken")
        steps.append(f"{run.id} goes on")

    spool = MemorySpool()
    admin, node, session = await connect({"work": work}, spool=spool)
    admin.answers_heartbeats = admin.gives_receipts = False
    session.send(alone(1), request(2), alone(3), alone(4))
    await session.expect(Accepted)
    await asyncio.sleep(4)
    beat = session.all(Heartbeat)[-1]
    assert beat.seq == 2  # sent, and not acknowledged
    session.send(HeartbeatAck(seq=beat.seq))  # in the buffer; says nothing about now
    gates[1].set()
    gates[2].set()
    broken.set_exception(ConnectionError("reset by peer"))
    session.send(alone(5))
    loop.now += 60
    await asyncio.sleep(0.5)

    assert steps == ["1 begins", "2 begins", "3 begins", "4 begins", "2 goes on"]
    ends = {result.run: result.outcome for result in spool.disk.values()}
    assert ends == {
        1: Outcome.CUT_OFF,
        2: Outcome.SUCCEEDED,
        3: Outcome.CUT_OFF,
        4: Outcome.CUT_OFF,
    }
    await node.drain(1)


@virtual_time
async def test_a_freeze_before_the_first_step_means_there_is_none() -> None:
    loop = cast("VirtualLoop", asyncio.get_running_loop())
    steps: list[int] = []

    async def work(run: Run) -> None:
        steps.append(run.id)

    spool = MemorySpool()
    admin, node, session = await connect({"work": work}, spool=spool)
    admin.answers_heartbeats = admin.gives_receipts = False
    session.send(alone())
    while node.in_use == 0:  # noqa: ASYNC110 (turn by turn)
        await asyncio.sleep(0)
    loop.now += 60  # accepted, and its task has not begun
    await asyncio.sleep(0.5)
    assert steps == []
    assert [result.outcome for result in spool.disk.values()] == [Outcome.CUT_OFF]
    await node.drain(1)


@virtual_time
async def test_a_run_that_comes_too_late_to_be_alone_is_not_started() -> None:
    bench = Bench()
    admin, node, session = await connect({"work": bench.work})
    admin.answers_heartbeats = False
    await asyncio.sleep(admin.acknowledged_at[-1] + 12.5 - now())
    session.send(alone(1), request(2))
    assert (await session.expect(Accepted)).run == 2  # the other is left unanswered
    session.send(Query(run=1, attempt=1, token="token-1-1"))
    refused = await session.expect(Refused)
    assert (refused.run, refused.reason) == (1, Refusal.NEVER_SEEN)
    admin.answers_heartbeats = True
    session.close()
    second = await admin.session(1)
    second.send(alone(1))
    assert (await second.expect(Refused)).run == 1  # and never will be
    await started(second, alone(3))
    await asyncio.sleep(60)
    assert bench.stopped_at == []
    await node.drain(1)


@virtual_time
async def test_a_welcome_with_a_shorter_lease_brings_the_instant_nearer() -> None:
    bench = Bench()
    admin, node, session = await connect({"work": bench.work})
    await started(session, alone())
    admin.lease_ms, admin.answers_heartbeats = 5_000, False
    session.close()
    await admin.session(1)
    welcomed_at = admin.connected_at[-1]
    await asyncio.sleep(4.5)
    assert bench.stopped_at == [pytest.approx(welcomed_at + 4.0, abs=1e-6)]
    await node.drain(1)


@virtual_time
async def test_who_is_being_stopped_already_gets_no_more_time() -> None:
    cancelled_at: list[float] = []

    async def slow_to_clean_up(run: Run) -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(36_000)
            except asyncio.CancelledError:
                cancelled_at.append(now())

    admin, node, session = await connect({"work": slow_to_clean_up})
    await started(session, alone())
    admin.answers_heartbeats = False
    await asyncio.sleep(admin.acknowledged_at[-1] + 7 - now())
    cancel = Cancel(run=1, attempt=1, token="token-1-1", reason=CancelReason.OPERATOR)
    session.send(cancel)
    result = await session.expect(Result)
    assert result.outcome is Outcome.CANCELLED  # the first reason counts
    assert [round(at - admin.acknowledged_at[-1]) for at in cancelled_at] == [7, 12]
    await node.drain(1)
