"""Nodes that nobody hears: whose runs are lost now, and whose keep their place (G8, G3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.engine import Admin, FakeSession, admin_with_node
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change, get_run, in_use, node_of, now, states
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.executors.node import (
    ANY_HANDLER,
    CLOSED_LEASE_MS,
    LEASE_MS,
    NodeTargets,
)
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy, WhenCutOff
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.node_leases import end_sessions, expire_nodes, renew_leases
from tickwheel_admin.store.executors.nodes import say_goodbye
from tickwheel_shared.protocol import (
    Cancel,
    CancelReason,
    Held,
    Outcome,
    Query,
    ReceiptCode,
    Refusal,
    Refused,
    ResultReceipt,
    RunKey,
    RunRequest,
)

pytestmark = pytest.mark.turned_clock


HOLD_MS = 60_000
FAR = NOW + 30_000  # a lease that outlives a test, but not by so much that it is cut
PARALLEL = BlockingPolicy()
STOP = BlockingPolicy(strategy=Blocking.SERIAL, hold_lost_ms=HOLD_MS)
CONTINUE = BlockingPolicy(
    strategy=Blocking.SERIAL, when_cut_off=WhenCutOff.CONTINUE, hold_lost_ms=HOLD_MS
)
LATER = RetryPolicy(retries=1, delay_ms=3_600_000)


@pytest.fixture
async def admin(database: Database) -> Admin:
    admin = Admin(database)
    await admin.engine.membership.enter()
    return admin


async def start(admin: Admin, node: FakeSession, job_id: int) -> RunRequest:
    """A run of the job that its node has accepted."""
    await ask(admin.database, job_id)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, accepted(request))
    return request


async def vanish(admin: Admin, node: FakeSession, clock: Clock, *, after_ms: int) -> None:
    """Nobody hears the node any more, and its lease ends."""
    clock.advance(after_ms / 1000)
    assert await admin.database.run(expire_nodes) == [node.node_id]
    node.is_open = False


async def come_back(admin: Admin, node: FakeSession, *held: RunKey) -> None:
    """The same process is heard again, after its hello."""
    await change(
        admin.database,
        tables.node,
        node.node_id,
        state="live",
        ended_at=None,
        lease_expires_at=FAR,
        full_lease_at=FAR,
    )
    await admin.say(node, Held(runs=list(held)))


def key_of(request: RunRequest) -> RunKey:
    return RunKey(run=request.run, attempt=request.attempt, token=request.token)


async def sweep(admin: Admin) -> None:
    await admin.engine.sweeper.run_once()


# --- what nodes are told --------------------------------------------------------------------------


async def test_the_next_pass_of_the_sweeper_meets_the_end_of_the_next_lease(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a killed node would wait for a whole interval more."""
    aims: list[float | None] = []
    monkeypatch.setattr(admin.engine.sweeper, "aim_at", aims.append)
    monkeypatch.setattr(admin.engine.leases, "may_expire", lambda: True)
    node = await admin.add_node(1)
    at = await now(admin.database)
    await change(admin.database, tables.node, node.node_id, lease_expires_at=at + 700)

    began = asyncio.get_running_loop().time()
    await admin.engine.sweeper.run_once()

    [aim] = aims
    assert aim is not None
    assert began + 0.7 <= aim <= asyncio.get_running_loop().time() + 0.7


@pytest.mark.parametrize(
    ("blocking", "unstoppable", "stops"),
    [
        (PARALLEL, "", False),
        (STOP, "", True),
        (STOP, "hello", False),
        (STOP, ANY_HANDLER, False),
        (CONTINUE, "", False),
    ],
)
async def test_a_request_says_whether_it_ends_when_cut_off(
    admin: Admin, blocking: BlockingPolicy, unstoppable: str, stops: bool
) -> None:
    node = await admin.add_node(1, unstoppable=unstoppable)
    request = await start(admin, node, await add_job(admin.database, blocking=blocking))
    assert request.stop_when_cut_off is stops


# --- how long a place is kept ---------------------------------------------------------------------


async def test_closed_sockets_shorten_only_the_lease(database: Database, admin: Admin) -> None:
    node = await admin.add_node(1)
    await admin.engine.membership.disconnected(node_id=node.node_id, session_id=1)
    row = await node_of(database, node.node_id)
    assert row.lease_expires_at == NOW + CLOSED_LEASE_MS
    assert row.full_lease_at == NOW + LEASE_MS


async def test_parallel_runs_are_lost_with_the_shortened_lease(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    request = await start(admin, node, await add_job(database, retry=LATER))
    await database.run(end_sessions, {1: node.node_id})
    await vanish(admin, node, clock, after_ms=CLOSED_LEASE_MS)

    await sweep(admin)

    assert await states(database, request.run) == ["queued retry_after_lost"]
    assert await in_use(database, node.node_id) == 0


async def test_what_its_node_stops_is_lost_when_the_full_lease_is_over(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database, blocking=STOP)
    request = await start(admin, node, job_id)
    other = await admin.add_node(1)
    await change(database, tables.node, other.node_id, lease_expires_at=FAR, full_lease_at=FAR)
    next_one = await ask(database, job_id, after=1)
    await database.run(end_sessions, {1: node.node_id})
    await vanish(admin, node, clock, after_ms=CLOSED_LEASE_MS)

    await sweep(admin)
    held = await get_run(database, request.run)
    assert (held.state, held.reason) == (RunState.RUNNING, "cut_off")
    assert held.deadline_at == NOW + LEASE_MS
    assert await in_use(database, node.node_id) == 1
    assert await admin.dispatch_all(other) == []

    clock.now = NOW + LEASE_MS - 1
    await sweep(admin)
    assert await states(database, request.run, next_one) == ["running cut_off", "queued blocked"]
    clock.now = NOW + LEASE_MS
    await sweep(admin)  # by an admin that does not trust its view of the clock
    assert await states(database, request.run) == ["running cut_off"]
    admin.trust_own_view()
    await sweep(admin)
    assert await states(database, request.run) == ["lost node_lost"]
    assert await in_use(database, node.node_id) == 0
    assert [each.run for each in await admin.dispatch_all(other)] == [next_one]


@pytest.mark.parametrize(("blocking", "unstoppable"), [(CONTINUE, ""), (STOP, "hello")])
async def test_what_goes_on_keeps_its_place_for_the_time_its_job_says(
    database: Database, admin: Admin, clock: Clock, blocking: BlockingPolicy, unstoppable: str
) -> None:
    admin.trust_own_view()
    node = await admin.add_node(1, name="a", unstoppable=unstoppable)
    request = await start(admin, node, await add_job(database, blocking=blocking))
    await vanish(admin, node, clock, after_ms=LEASE_MS)
    died_at = clock.now

    for _ in range(2):
        await sweep(admin)
        assert await states(database, request.run) == ["running cut_off"]
    clock.now = died_at + HOLD_MS - 1
    await sweep(admin)
    assert await states(database, request.run) == ["running cut_off"]

    clock.now = died_at + HOLD_MS
    await sweep(admin)
    assert await states(database, request.run) == ["lost node_lost"]
    assert await in_use(database, node.node_id) == 0


async def test_a_node_that_said_goodbye_held_nothing(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    request = await start(admin, node, await add_job(database, blocking=CONTINUE))
    await database.run(say_goodbye, node_id=node.node_id)

    await sweep(admin)

    assert await states(database, request.run) == ["lost node_lost"]


async def test_a_run_that_crossed_its_nodes_goodbye_was_not_started(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database)  # lost is lost: it has no tries
    run_id = await ask(database, job_id)
    assert [each.run for each in await admin.dispatch(node)] == [run_id]
    await database.run(say_goodbye, node_id=node.node_id)
    del admin.links.sessions[node.node_id]

    await sweep(admin)

    assert await states(database, run_id) == ["queued refused_draining"]
    assert await in_use(database, node.node_id) == 0
    successor = await admin.add_node(1)
    (request,) = await admin.dispatch(successor)
    assert (request.attempt, request.try_number) == (2, 1)


@pytest.mark.every_database
@pytest.mark.turned_clock(False)
async def test_parallel_and_held_runs_of_one_node(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database)
    held, lost = [
        await start(
            admin, node, await add_job(database, executor_id=node.executor_id, blocking=blocking)
        )
        for blocking in (CONTINUE, PARALLEL)
    ]
    at = (await node_of(database, node.node_id)).connected_at
    await change(database, tables.node, node.node_id, state="dead", ended_at=at)

    for _ in range(2):
        await sweep(admin)
        assert await states(database, held.run, lost.run) == ["running cut_off", "lost node_lost"]
        assert await in_use(database, node.node_id) == 1
    await admin.say(node, result(held))  # the spool of the dead process, by its successor

    assert await states(database, held.run) == ["succeeded"]
    assert await in_use(database, node.node_id) == 0


async def test_slots_that_no_run_takes_are_given_back(database: Database, admin: Admin) -> None:
    node = await admin.add_node(1)
    await change(database, tables.node, node.node_id, state="dead", ended_at=1, in_use=3)
    await sweep(admin)
    assert await in_use(database, node.node_id) == 0


# --- and back again -------------------------------------------------------------------------------


async def test_a_node_that_is_back_goes_on_with_what_it_holds(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database, blocking=CONTINUE, timeout_ms=600_000)
    request = await start(admin, node, job_id)
    started_at = clock.now
    await vanish(admin, node, clock, after_ms=LEASE_MS)
    await sweep(admin)

    await come_back(admin, node, key_of(request))

    run = await get_run(database, request.run)
    assert (run.state, run.reason, run.attempt) == (RunState.RUNNING, None, 1)
    assert run.deadline_at == started_at + 600_000 + 15_000  # its timeout holds as before
    assert node.take(Cancel) == []
    await sweep(admin)
    await admin.say(node, result(request))
    assert await states(database, request.run) == ["succeeded"]


async def test_a_dispatched_run_that_was_held_is_like_any_other_once_accepted(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database, blocking=CONTINUE, timeout_ms=1_000)
    await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await vanish(admin, node, clock, after_ms=LEASE_MS)
    await sweep(admin)
    assert await states(database, request.run) == ["dispatched cut_off"]

    await come_back(admin, node, key_of(request))
    assert await states(database, request.run) == ["running"]

    clock.advance(17)  # and its timeout is watched
    admin.trust_own_view()
    await sweep(admin)
    assert (await get_run(database, request.run)).cancel_reason == "timeout"


async def test_a_node_that_is_back_without_the_run_is_asked_at_once(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    request = await start(admin, node, await add_job(database, blocking=CONTINUE))
    await vanish(admin, node, clock, after_ms=LEASE_MS)
    await sweep(admin)

    await come_back(admin, node)
    await sweep(admin)
    assert [query.run for query in node.take(Query)] == [request.run]
    key: Any = {"run": request.run, "attempt": 1, "token": request.token}
    await admin.say(node, Refused(**key, reason=Refusal.NEVER_SEEN))

    assert await states(database, request.run) == ["lost node_lost"]


async def test_a_lost_parallel_run_that_its_node_still_holds_is_stopped_and_tried_again(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    request = await start(admin, node, await add_job(database, retry=LATER))
    await vanish(admin, node, clock, after_ms=LEASE_MS)
    await sweep(admin)

    await come_back(admin, node, key_of(request))
    [stop] = node.take(Cancel)
    assert stop.reason is CancelReason.STALE
    await admin.say(node, result(request, Outcome.CANCELLED, message="no longer current"))

    # Nobody wanted the run to end: that its old attempt was stopped is no end of it.
    assert await states(database, request.run) == ["queued retry_after_lost"]
    assert [each.receipt for each in node.take(ResultReceipt)] == [ReceiptCode.ALREADY_RECORDED]


# --- the node's own word --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retry", "after"),
    [
        (LATER, "queued retry_after_lost"),
        (RetryPolicy(retries=1, on_lost=False), "lost node_lost"),
        (RetryPolicy(), "lost node_lost"),
    ],
)
async def test_an_attempt_that_its_node_cut_off_is_lost(
    database: Database, admin: Admin, clock: Clock, retry: RetryPolicy, after: str
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database, blocking=STOP, retry=retry)
    request = await start(admin, node, job_id)
    next_one = await ask(database, job_id, after=1)
    clock.advance(13)

    await admin.say(node, result(request, Outcome.CUT_OFF, log_lines=7))
    await admin.say(node, result(request, Outcome.CUT_OFF, log_lines=7))

    assert await states(database, request.run) == [after]
    assert (await get_run(database, request.run)).log_lines == 7
    receipts = [each.receipt for each in node.take(ResultReceipt)]
    assert receipts == [ReceiptCode.RECORDED, ReceiptCode.ALREADY_RECORDED]
    assert [each.run for each in await admin.dispatch_all(node)] == [next_one]


async def test_that_it_was_cut_off_is_no_news_of_a_lost_run(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    request = await start(admin, node, await add_job(database, blocking=STOP, retry=LATER))
    admin.trust_own_view()
    await vanish(admin, node, clock, after_ms=LEASE_MS)
    await sweep(admin)
    before = await get_run(database, request.run)

    await admin.say(node, result(request, Outcome.CUT_OFF))

    assert await get_run(database, request.run) == before
    assert before.reason == "retry_after_lost"


# --- timeouts and cancels of what must not run twice ----------------------------------------------


async def test_a_parallel_run_past_its_timeout_ends_at_once(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    request = await start(admin, node, await add_job(database, timeout_ms=10_000))
    clock.advance(25)
    await sweep(admin)
    assert await states(database, request.run) == ["running"]  # our own view may be wrong
    admin.trust_own_view()
    clock.advance(6)
    await sweep(admin)

    assert await states(database, request.run) == ["timed_out timeout_not_enforced"]
    assert [cancel.reason for cancel in node.take(Cancel)] == [CancelReason.TIMEOUT]


async def test_a_serial_run_past_its_timeout_keeps_its_place_until_its_node_confirms(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    admin.trust_own_view()
    await change(database, tables.node, node.node_id, lease_expires_at=FAR)
    job_id = await add_job(database, blocking=STOP, timeout_ms=10_000, retry=LATER)
    request = await start(admin, node, job_id)
    next_one = await ask(database, job_id, after=1)
    clock.advance(24.999)
    await sweep(admin)
    assert node.take(Cancel) == []

    for seconds in (0.001, 2, 2):
        clock.advance(seconds)
        await sweep(admin)
        assert [cancel.reason for cancel in node.take(Cancel)] == [CancelReason.TIMEOUT]
        assert await admin.dispatch_all(node) == []
    assert await states(database, request.run) == ["running"]

    await admin.say(node, result(request, Outcome.TIMED_OUT))
    run = await get_run(database, request.run)
    assert (run.state, run.reason) == (RunState.QUEUED, "retry_after_timed_out")
    assert (run.cancel_requested_at, run.cancel_reason) == (None, None)
    assert [each.run for each in await admin.dispatch_all(node)] == [next_one]


async def test_a_cancel_that_no_node_confirms_is_said_to_be_so_and_can_be_released(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1, unstoppable="hello")
    await change(database, tables.node, node.node_id, lease_expires_at=FAR)
    job_id = await add_job(database, blocking=STOP, retry=LATER)
    request = await start(admin, node, job_id)
    next_one = await ask(database, job_id, after=1)
    runs = Runs(database, Ids(database), admin.events)
    await runs.cancel(ADMIN, request.run)
    for _ in range(7):
        await sweep(admin)
        assert len(node.take(Cancel)) == 1
        clock.advance(2)
    assert await states(database, request.run) == ["running"]
    clock.advance(1)
    await sweep(admin)
    assert await states(database, request.run) == ["running cancel_unconfirmed"]
    clock.advance(2)
    await sweep(admin)
    assert len(node.take(Cancel)) == 2  # and still goes on

    await runs.release(ADMIN, request.run)

    assert await states(database, request.run) == ["cancelled released"]
    assert await in_use(database, node.node_id) == 0
    assert [each.run for each in await admin.dispatch_all(node)] == [next_one]
    await admin.say(node, result(request))
    assert [each.receipt for each in node.take(ResultReceipt)] == [ReceiptCode.ALREADY_RECORDED]


async def test_a_cancel_is_delivered_by_an_admin_that_does_not_trust_its_view(
    database: Database, admin: Admin, clock: Clock
) -> None:
    """A new admin ends nothing for 15 s; what somebody wants stopped it passes on."""
    node = await admin.add_node(1)
    job_id = await add_job(database, blocking=STOP, timeout_ms=1_000)
    request = await start(admin, node, job_id)
    await Runs(database, Ids(database), admin.events).cancel(ADMIN, request.run)
    clock.advance(60)

    await sweep(admin)

    assert [cancel.reason for cancel in node.take(Cancel)] == [CancelReason.OPERATOR]


# --- leases and clocks ----------------------------------------------------------------------------


async def test_leases_are_cut_when_the_databases_clock_was_set_back(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    clock.now = NOW - 3_600_000
    assert await database.run(expire_nodes) == []
    row = await node_of(database, node.node_id)
    assert row.lease_expires_at == row.full_lease_at == clock.now + LEASE_MS

    clock.advance(LEASE_MS / 1000)
    assert await database.run(expire_nodes) == [node.node_id]


async def test_a_renewed_lease_is_whole_again(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    await change(database, tables.node, node.node_id, lease_expires_at=NOW + CLOSED_LEASE_MS)
    clock.advance(3)
    assert await database.run(renew_leases, [node.node_id], admin_id=1) == {
        node.node_id: NodeTargets()
    }
    row = await node_of(database, node.node_id)
    assert row.lease_expires_at == row.full_lease_at == clock.now + LEASE_MS


async def test_no_admin_expires_nodes_before_it_trusts_its_view(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1)
    clock.advance(60)
    await sweep(admin)
    assert (await node_of(database, node.node_id)).state == "live"
    admin.trust_own_view()
    await sweep(admin)
    assert (await node_of(database, node.node_id)).state == "dead"
