"""The way of a run through claim, send, record and sweep, on every database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, add_run, change, get_run, in_use, now
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import NO_HANDLER, RunState
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import (
    Cancel,
    CancelReason,
    Held,
    Level,
    LogChunk,
    LogReceipt,
    Outcome,
    Progress,
    Query,
    ReceiptCode,
    Refusal,
    Refused,
    ResultReceipt,
    RunKey,
    WireLine,
)

pytestmark = pytest.mark.every_database


async def test_a_run_goes_from_queued_to_succeeded(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, parameters='{"big":12345678901234567890}')
    run_id = await add_run(database, job_id)

    [request] = await admin.dispatch(node)
    dispatched = await get_run(database, run_id)
    assert dispatched.state is RunState.DISPATCHED
    assert (dispatched.attempt, dispatched.node_id) == (1, node.node_id)
    assert bytes(request.parameters) == b'{"big":12345678901234567890}'
    assert await in_use(database, node.node_id) == 1

    await admin.say(node, accepted(request))
    running = await get_run(database, run_id)
    assert (running.state, running.tries) == (RunState.RUNNING, 1)

    await admin.say(node, result(request, value={"汉": "字"}))
    done = await get_run(database, run_id)
    assert (done.state, done.result) == (RunState.SUCCEEDED, '{"汉":"字"}')
    assert done.deadline_at is None
    assert await in_use(database, node.node_id) == 0
    [receipt] = node.take(ResultReceipt)
    assert receipt.receipt is ReceiptCode.RECORDED


async def test_accepted_and_result_in_one_batch(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    run_id = await add_run(database, await add_job(database))
    [request] = await admin.dispatch(node)

    await admin.say(node, accepted(request), result(request), result(request))

    done = await get_run(database, run_id)
    assert (done.state, done.tries) == (RunState.SUCCEEDED, 1)
    assert [r.receipt for r in node.take(ResultReceipt)] == [
        ReceiptCode.RECORDED,
        ReceiptCode.ALREADY_RECORDED,
    ]


async def test_a_result_that_overtakes_accepted_counts_one_try(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    run_id = await add_run(database, await add_job(database))
    [request] = await admin.dispatch(node)

    await admin.say(node, result(request))
    await admin.say(node, accepted(request))

    done = await get_run(database, run_id)
    assert (done.state, done.tries) == (RunState.SUCCEEDED, 1)
    [stop] = node.take(Cancel)  # "accepted" of an attempt that is over: the node is told so
    assert stop.reason is CancelReason.STALE


async def test_a_run_that_is_not_due_stays_queued(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    later = await now(database) + 60_000
    run_id = await add_run(database, await add_job(database), due_at=later)

    assert await admin.dispatch(node) == []
    assert (await get_run(database, run_id)).state is RunState.QUEUED


async def test_retries_wait_and_then_end(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, retry=RetryPolicy(retries=1, delay_ms=60_000))
    run_id = await add_run(database, job_id)
    [request] = await admin.dispatch(node)
    before = await now(database)
    await admin.say(
        node, accepted(request), result(request, Outcome.FAILED, message="ValueError: no")
    )

    waiting = await get_run(database, run_id)
    assert (waiting.state, waiting.reason) == (RunState.QUEUED, "retry_after_failed")
    assert waiting.due_at >= before + 60_000
    assert await in_use(database, node.node_id) == 0

    await change(database, tables.run, run_id, due_at=before)
    [again] = await admin.dispatch(node)
    assert (again.attempt, again.try_number, again.max_tries) == (2, 2, 2)
    await admin.say(node, accepted(again), result(again, Outcome.FAILED, message="ValueError: no"))

    done = await get_run(database, run_id)
    assert (done.state, done.tries, done.message) == (RunState.FAILED, 2, "ValueError: no")
    archived = await database.read(
        lambda conn: conn.execute(
            sa.select(tables.run_attempt.c.attempt, tables.run_attempt.c.state)
        ).all()
    )
    assert [tuple(row) for row in archived] == [(1, "failed")]


@pytest.mark.parametrize("reason", list(Refusal))
async def test_a_refusal_costs_no_try(
    database: Database, admin: Admin, node: FakeSession, reason: Refusal
) -> None:
    run_id = await add_run(database, await add_job(database))
    [request] = await admin.dispatch(node)
    refused = Refused(run=request.run, attempt=request.attempt, token=request.token, reason=reason)

    await admin.say(node, refused)

    queued = await get_run(database, run_id)
    assert (queued.state, queued.tries, queued.attempt) == (RunState.QUEUED, 0, 1)
    assert await in_use(database, node.node_id) == 0
    await admin.say(node, result(request))  # a refused attempt cannot end the run any more
    assert (await get_run(database, run_id)).state is RunState.QUEUED
    assert [r.receipt for r in node.take(ResultReceipt)] == [ReceiptCode.REFUSED]


async def test_wrong_token_attempt_and_executor_change_nothing(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    stranger = await admin.add_node(2)
    run_id = await add_run(database, await add_job(database))
    [request] = await admin.dispatch(node)
    await admin.say(node, accepted(request))

    await admin.say(node, result(request, token="forged"), result(request, attempt=7))
    await admin.say(stranger, result(request))
    progress = Progress(run=run_id, attempt=1, token="forged", fraction=0.5)
    lines = [WireLine(1, Level.INFO, "forged")]
    chunk = LogChunk(run=run_id, attempt=1, token="forged", first_seq=1, lines=lines)
    await admin.say(node, progress, chunk)

    assert (await get_run(database, run_id)).state is RunState.RUNNING
    assert {r.reason for r in node.take(ResultReceipt)} == {"wrong_token", "old_attempt"}
    assert [r.reason for r in stranger.take(ResultReceipt)] == ["unknown_run"]
    stored = await database.read(
        lambda conn: conn.execute(sa.select(sa.func.count()).select_from(tables.run_log)).scalar()
    )
    assert stored == 0


async def test_log_chunks_are_stored_once(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    run_id = await add_run(database, await add_job(database))
    [request] = await admin.dispatch(node)
    lines = [WireLine(1, Level.INFO, "hello"), WireLine(2, Level.ERROR, "汉字")]
    chunk = LogChunk(run=run_id, attempt=1, token=request.token, first_seq=1, lines=lines)

    await admin.say(node, chunk, chunk)
    await admin.say(node, result(request), chunk)

    stored = await database.read(lambda conn: conn.execute(sa.select(tables.run_log)).all())
    assert [(row.first_seq, row.line_count) for row in stored] == [(1, 2)]
    assert len(node.take(LogReceipt)) == 3


async def test_an_unconfirmed_dispatch_is_asked_about(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    run_id = await add_run(database, await add_job(database))
    [request] = await admin.dispatch(node)
    await change(database, tables.run, run_id, deadline_at=await now(database) - 1)

    await admin.engine.sweeper.run_once()
    [query] = node.take(Query)
    assert (query.run, query.attempt, query.token) == (run_id, 1, request.token)
    await admin.engine.sweeper.run_once()
    assert node.take(Query) == []  # asked again only after the next deadline

    never = Refused(run=run_id, attempt=1, token=query.token, reason=Refusal.NEVER_SEEN)
    await admin.say(node, never)
    [again] = await admin.dispatch(node)
    assert again.attempt == 2


async def test_cancel_is_delivered_until_the_node_confirms(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, retry=RetryPolicy(retries=3))
    run_id = await add_run(database, job_id)
    [request] = await admin.dispatch(node)
    await admin.say(node, accepted(request))
    at = await now(database)

    for _ in range(2):
        await change(database, tables.run, run_id, cancel_requested_at=at, deadline_at=at)
        await admin.engine.sweeper.run_once()
        [cancel] = node.take(Cancel)
        assert cancel.reason is CancelReason.OPERATOR
    await admin.say(node, result(request, Outcome.CANCELLED))

    assert (await get_run(database, run_id)).state is RunState.CANCELLED


async def test_a_dead_node_loses_its_runs_and_a_late_result_still_counts(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, retry=RetryPolicy(retries=1, delay_ms=60_000))
    run_id = await add_run(database, job_id)
    [request] = await admin.dispatch(node)
    await admin.say(node, accepted(request))
    await change(database, tables.node, node.node_id, state="dead")

    await admin.engine.sweeper.run_once()

    waiting = await get_run(database, run_id)
    assert (waiting.state, waiting.reason) == (RunState.QUEUED, "retry_after_lost")
    assert await in_use(database, node.node_id) == 0

    successor = await admin.add_node(1, name="successor")
    await admin.say(successor, result(request))
    done = await get_run(database, run_id)
    assert (done.state, done.tries) == (RunState.SUCCEEDED, 1)
    assert [r.receipt for r in successor.take(ResultReceipt)] == [ReceiptCode.RECORDED]


async def test_a_late_result_after_the_retry_was_claimed_is_refused(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, retry=RetryPolicy(retries=1, delay_ms=0))
    run_id = await add_run(database, job_id)
    [request] = await admin.dispatch(node)
    await change(database, tables.node, node.node_id, state="dead")
    await admin.engine.sweeper.run_once()
    other = await admin.add_node(1, name="other")
    [retried] = await admin.dispatch(other)

    await admin.say(node, result(request))
    await admin.say(other, result(retried, Outcome.FAILED, message="x"))

    assert [r.receipt for r in node.take(ResultReceipt)] == [ReceiptCode.REFUSED]
    assert (await get_run(database, run_id)).state is RunState.FAILED


async def test_held_attempts_go_on_and_stale_ones_are_stopped(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    run_id = await add_run(database, await add_job(database))
    [request] = await admin.dispatch(node)
    stale = RunKey(run=run_id, attempt=9, token="old")
    current = RunKey(run=run_id, attempt=1, token=request.token)
    node.is_open = False

    await admin.say(node, Held(runs=[stale, current]))

    assert (await get_run(database, run_id)).state is RunState.RUNNING
    [stop] = node.take(Cancel)
    assert (stop.attempt, stop.reason) == (9, CancelReason.STALE)
    assert node.is_open


async def test_slots_bound_what_is_claimed(database: Database, admin: Admin) -> None:
    small = await admin.add_node(1, name="small", slots=2)
    job_id = await add_job(database)
    for _ in range(5):
        await add_run(database, job_id)

    first = await admin.dispatch(small)
    assert len(first) == 2
    assert await admin.dispatch(small) == []
    await admin.say(small, result(first[0]))
    assert len(await admin.dispatch(small)) == 1


async def test_a_handler_nobody_offers_hides_no_other_run(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    strange = await add_run(database, await add_job(database, handler="strange"), priority=1)
    known = await add_run(database, await add_job(database))

    requests = await admin.dispatch(node)

    assert [request.run for request in requests] == [known]
    waiting = await get_run(database, strange)
    assert (waiting.state, waiting.reason) == (RunState.QUEUED, NO_HANDLER)


async def test_round_robin_turns_and_failover_stays(database: Database, admin: Admin) -> None:
    nodes = [await admin.add_node(1, name=name) for name in ("a", "b", "c")]
    for routing, expected in (
        (Routing.ROUND_ROBIN, [1, 1, 1]),
        (Routing.FAILOVER, [3, 0, 0]),
        (Routing.LEAST_BUSY, [0, 2, 1]),
    ):
        job_id = await add_job(database, routing=RoutingPolicy(strategy=routing))
        for _ in range(3):
            await add_run(database, job_id)
            await admin.engine.dispatcher.run_once()
        counts = [
            len([m for m in node.sent if getattr(m, "job_id", 0) == job_id]) for node in nodes
        ]
        assert counts == expected, routing


@pytest.mark.every_database(but=["sqlite"])
async def test_a_job_that_is_being_edited_does_not_hold_up_claims(database: Database) -> None:
    admin = Admin(database)
    nodes = [await admin.add_node(1, name=name) for name in ("a", "b")]
    job_id = await add_job(database, routing=RoutingPolicy(strategy=Routing.ROUND_ROBIN))
    run_id = await add_run(database, job_id)

    with database.engine.begin() as editor:
        editor.execute(sa.select(tables.job).where(tables.job.c.id == job_id).with_for_update())
        await admin.engine.dispatcher.run_once()

    assert (await get_run(database, run_id)).state is RunState.DISPATCHED
    assert sum(len(node.sent) for node in nodes) == 1
    await database.close()


async def test_two_admins_never_share_the_last_slot(database: Database) -> None:
    one, two = Admin(database, admin_id=1), Admin(database, admin_id=2)
    node = await one.add_node(1, slots=1)
    two.links.sessions[node.node_id] = FakeSession(node.node_id, 1)
    job_id = await add_job(database)
    for _ in range(4):
        await add_run(database, job_id)

    for admin in (one, two, one, two):
        await admin.engine.dispatcher.run_once()

    assert await in_use(database, node.node_id) == 1
