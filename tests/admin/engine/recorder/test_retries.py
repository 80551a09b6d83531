"""Retries: as many as asked for, as late as asked for, and what comes too late (G6, G7)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.engine import Admin, FakeSession, admin_with_node
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change, get_run, now, states
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import MAX_RETRY_AFTER_MS, Origin, RunState
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import Outcome, ReceiptCode, Refusal, Refused, ResultReceipt

pytestmark = pytest.mark.turned_clock


async def attempts_of(database: Database, run_id: int) -> list[Any]:
    attempt = tables.run_attempt
    wanted = sa.select(attempt).where(attempt.c.run_id == run_id).order_by(attempt.c.attempt)
    return await database.read(lambda conn: list(conn.execute(wanted)))


# --- delays ---------------------------------------------------------------------------------------


def test_delays_grow_up_to_their_cap() -> None:
    policy = RetryPolicy(retries=100, delay_ms=1_000, factor=3.0, max_delay_ms=20_000)
    assert [policy.delay_after(tries) for tries in range(1, 6)] == [
        1_000,
        3_000,
        9_000,
        20_000,
        20_000,
    ]
    assert policy.delay_after(100) == 20_000
    assert RetryPolicy(delay_ms=700, factor=1.0).delay_after(50) == 700
    assert RetryPolicy(delay_ms=0).delay_after(100) == 0


def test_jitter_adds_its_share_at_most_and_the_same_for_the_same_try() -> None:
    source = random.Random(7)
    seen = set()
    for _ in range(500):
        run_id, tries = source.randrange(1, 2**53), source.randrange(1, 20)
        policy = RetryPolicy(delay_ms=60_000, factor=1.5, jitter=source.random())
        plain = replace(policy, jitter=0.0).delay_after(tries, run_id)
        delay = policy.delay_after(tries, run_id)
        assert plain <= delay <= plain * (1 + policy.jitter), (run_id, tries)
        assert delay == policy.delay_after(tries, run_id)
        seen.add(round((delay - plain) / plain / policy.jitter, 1))
    assert len(seen) == 11  # from none of it to all of it


def test_many_runs_that_fail_at_once_part_again() -> None:
    policy = RetryPolicy(delay_ms=10_000, jitter=0.5)
    delays = {policy.delay_after(1, run_id) for run_id in range(1_000)}
    assert len(delays) > 800


# --- how often ------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_a_run_is_tried_as_often_as_its_job_says(
    database: Database, admin: Admin, node: FakeSession, clock: Clock, retries: int
) -> None:
    policy = RetryPolicy(retries=retries, delay_ms=1_000, factor=2.0)
    run_id = await ask(database, await add_job(database, retry=policy))

    for number in range(retries + 1):
        [request] = await admin.dispatch_all(node)
        assert (request.try_number, request.max_tries) == (number + 1, retries + 1)
        # What costs no try does not shorten the line of tries either.
        if number == 0:
            key: Any = {"run": run_id, "attempt": request.attempt, "token": request.token}
            await admin.say(node, Refused(**key, reason=Refusal.NEVER_SEEN))
            [request] = await admin.dispatch_all(node)
            assert request.try_number == 1
        await admin.say(node, accepted(request), result(request, Outcome.FAILED, message="no"))
        run = await get_run(database, run_id)
        if number < retries:
            assert (run.state, run.reason) == (RunState.QUEUED, "retry_after_failed")
            assert run.due_at == clock.now + 1_000 * 2**number
            assert await admin.dispatch_all(node) == []
            clock.now = run.due_at

    assert await states(database, run_id) == ["failed"]
    assert (await get_run(database, run_id)).tries == retries + 1
    assert len(await attempts_of(database, run_id)) == retries


@pytest.mark.parametrize(
    ("outcomes", "on_lost", "outcome", "again"),
    [
        ((RunState.FAILED,), True, Outcome.FAILED, True),
        ((RunState.FAILED,), True, Outcome.TIMED_OUT, False),
        ((RunState.TIMED_OUT,), True, Outcome.TIMED_OUT, True),
        ((RunState.TIMED_OUT,), True, Outcome.FAILED, False),
        ((), True, Outcome.CUT_OFF, True),
        ((RunState.FAILED,), False, Outcome.CUT_OFF, False),
        ((RunState.FAILED, RunState.TIMED_OUT), True, Outcome.SUCCEEDED, False),
        ((RunState.FAILED, RunState.TIMED_OUT), True, Outcome.CANCELLED, False),
        ((RunState.FAILED, RunState.TIMED_OUT), True, Outcome.SKIPPED, False),
    ],
)
async def test_only_chosen_outcomes_are_tried_again(
    database: Database,
    admin: Admin,
    node: FakeSession,
    outcomes: tuple[RunState, ...],
    on_lost: bool,
    outcome: Outcome,
    again: bool,
) -> None:
    policy = RetryPolicy(retries=1, outcomes=outcomes, on_lost=on_lost)
    run_id = await ask(database, await add_job(database, retry=policy))
    [request] = await admin.dispatch_all(node)

    await admin.say(node, accepted(request), result(request, outcome))

    assert ((await get_run(database, run_id)).state is RunState.QUEUED) is again


# --- what a handler asks for ----------------------------------------------------------------------


async def test_a_handler_chooses_when_it_is_tried_again(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    policy = RetryPolicy(retries=2, delay_ms=10_000, outcomes=())
    run_id = await ask(database, await add_job(database, retry=policy))
    for asked_ms, given_ms in ((0, 0), (2**50, MAX_RETRY_AFTER_MS)):
        [request] = await admin.dispatch_all(node)
        await admin.say(node, result(request, Outcome.FAILED, retry_after_ms=asked_ms))
        run = await get_run(database, run_id)
        assert (run.state, run.due_at) == (RunState.QUEUED, clock.now + given_ms)
        clock.now = run.due_at

    await change(database, tables.node, node.node_id, lease_expires_at=NOW * 2)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, result(request, Outcome.FAILED, retry_after_ms=1))
    assert await states(database, run_id) == ["failed"]  # it had two retries, and no more


async def test_a_handler_says_that_another_try_would_not_help(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    run_id = await ask(database, await add_job(database, retry=RetryPolicy(retries=5)))
    [request] = await admin.dispatch_all(node)

    await admin.say(node, result(request, Outcome.FAILED, final=True, message="no such customer"))

    run = await get_run(database, run_id)
    assert (run.state, run.message, run.tries) == (RunState.FAILED, "no such customer", 1)


async def test_a_handler_finds_nothing_to_do(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    run_id = await ask(database, await add_job(database, retry=RetryPolicy(retries=5)))
    [request] = await admin.dispatch_all(node)

    await admin.say(node, accepted(request), result(request, Outcome.SKIPPED, message="no files"))

    run = await get_run(database, run_id)
    assert (run.state, run.reason, run.message) == (RunState.SKIPPED, "by_handler", "no files")


# --- start-by deadlines ---------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [Origin.MANUAL, Origin.MISFIRE])
async def test_a_refusal_leaves_the_start_by_deadline_as_it_was(
    database: Database, admin: Admin, node: FakeSession, origin: Origin
) -> None:
    """A missed fire is due when it is made up for, an hour after its instant."""
    job_id = await add_job(database, start_within_ms=60_000)
    at = NOW - 3_600_000 if origin is Origin.MISFIRE else NOW
    run_id = await ask(database, job_id, origin=origin, scheduled_at=at)
    assert (await get_run(database, run_id)).deadline_at == NOW + 60_000
    [request] = await admin.dispatch_all(node)
    key: Any = {"run": run_id, "attempt": 1, "token": request.token}

    await admin.say(node, Refused(**key, reason=Refusal.FULL))

    assert (await get_run(database, run_id)).deadline_at == NOW + 60_000
    await admin.engine.sweeper.run_once()
    assert await states(database, run_id) == ["queued refused_full"]


async def test_what_was_tried_is_not_too_late_any_more(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    policy = RetryPolicy(retries=1, delay_ms=120_000)
    job_id = await add_job(database, start_within_ms=60_000, retry=policy)
    run_id = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, accepted(request), result(request, Outcome.FAILED))
    assert (await get_run(database, run_id)).deadline_at is None

    clock.advance(120)
    await admin.engine.sweeper.run_once()
    [request] = await admin.dispatch_all(node)
    key: Any = {"run": run_id, "attempt": 2, "token": request.token}
    await admin.say(node, Refused(**key, reason=Refusal.NEVER_SEEN))
    assert (await get_run(database, run_id)).deadline_at is None
    [request] = await admin.dispatch_all(node)
    assert request.try_number == 2


async def test_a_run_that_is_too_late_is_not_claimed(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    run_id = await ask(database, await add_job(database, start_within_ms=60_000))
    clock.advance(60.001)
    assert await admin.dispatch_all(node) == []
    assert await states(database, run_id) == ["skipped expired"]


# --- what comes too late --------------------------------------------------------------------------


@pytest.mark.every_database
@pytest.mark.turned_clock(False)
async def test_a_result_of_an_older_attempt_is_kept_beside_it(database: Database) -> None:
    admin, node = await admin_with_node(database)
    policy = RetryPolicy(retries=1, delay_ms=0)
    run_id = await ask(
        database, await add_job(database, executor_id=node.executor_id, retry=policy)
    )
    [lost] = await admin.dispatch_all(node)
    await admin.say(node, accepted(lost))
    await change(database, tables.node, node.node_id, state="gone")
    await admin.engine.sweeper.run_once()
    await change(database, tables.node, node.node_id, state="live")
    [second] = await admin.dispatch_all(node)
    before = await now(database)

    late = result(lost, Outcome.FAILED, message="disk full")
    await admin.say(node, replace_token(late), late, late)

    [archived] = await attempts_of(database, run_id)
    assert (archived.state, archived.late_outcome) == ("lost", "failed")
    assert archived.late_message == "disk full"
    assert archived.late_at >= before
    assert [each.receipt for each in node.take(ResultReceipt)] == [ReceiptCode.REFUSED] * 3
    assert (await get_run(database, run_id)).state is RunState.DISPATCHED

    await admin.say(node, result(second))
    await admin.say(node, result(lost))  # and once more, when all is over
    assert await states(database, run_id) == ["succeeded"]
    assert await attempts_of(database, run_id) == [archived]


def replace_token(late: Any) -> Any:
    """The same, from somebody who was never given the attempt."""
    return type(late)(
        run=late.run,
        attempt=late.attempt,
        token="guessed",
        outcome=Outcome.SUCCEEDED,
        duration_ms=1,
    )


async def test_a_result_that_was_recorded_in_time_is_not_late(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    policy = RetryPolicy(retries=1, delay_ms=0)
    run_id = await ask(database, await add_job(database, retry=policy))
    [first] = await admin.dispatch_all(node)
    await admin.say(node, result(first, Outcome.FAILED))
    await admin.dispatch_all(node)

    await admin.say(node, result(first, Outcome.FAILED))  # its receipt was lost

    [archived] = await attempts_of(database, run_id)
    assert (archived.late_outcome, archived.late_at) == (None, None)
