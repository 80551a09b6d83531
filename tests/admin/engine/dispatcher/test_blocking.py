"""Blocking strategies through claim, record and sweep (guarantee G8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, admin_with_node, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change, get_run, in_use, now, states
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import PARKED_AT, Run, RunState
from tickwheel_admin.engine.sweeper.stalled import repair_stalled
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_shared.protocol import Cancel, CancelReason, Outcome, Refusal, Refused, RunRequest

pytestmark = pytest.mark.usefixtures("no_second_look")

SERIAL = BlockingPolicy(strategy=Blocking.SERIAL)
DISCARD = BlockingPolicy(strategy=Blocking.DISCARD_LATER)
COVER = BlockingPolicy(strategy=Blocking.COVER_EARLY)


async def end(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await admin.say(node, accepted(request), result(request))


async def live_runs(database: Database, executor_id: int) -> list[Run]:
    live = sa.select(tables.run.c.id).where(
        tables.run.c.state.in_(("dispatched", "running")), tables.run.c.executor_id == executor_id
    )
    ids = await database.read(lambda conn: list(conn.execute(live).scalars()))
    return [await get_run(database, run_id) for run_id in ids]


# --- on every database ---------------------------------------------------------------------------


@pytest.mark.every_database
async def test_serial_runs_take_turns_by_instant(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(database, executor_id=node.executor_id, blocking=SERIAL)
    third, first, second = [await ask(database, job_id, after=after) for after in (30, 10, 20)]
    other = await ask(
        database, await add_job(database, executor_id=node.executor_id, blocking=SERIAL), after=99
    )

    requests = await admin.dispatch_all(node)
    assert {request.run for request in requests} == {first, other}
    waiting = await get_run(database, second)
    assert (waiting.is_parked, waiting.reason, waiting.attempt) == (True, "blocked", 0)
    assert await states(database, third) == ["queued blocked"]

    order = [first]
    request = next(request for request in requests if request.run == first)
    for _ in range(2):
        await end(admin, node, request)
        [request] = await admin.dispatch_all(node)
        order.append(request.run)
        assert (await get_run(database, request.run)).due_at <= await now(database)
    assert order == [first, second, third]
    await end(admin, node, request)
    assert await states(database, first, second, third) == ["succeeded"] * 3
    assert [(await get_run(database, run_id)).blocking_key for run_id in order] == [None] * 3
    assert (await get_run(database, other)).blocking_key is not None


@pytest.mark.every_database
async def test_as_many_run_at_once_as_the_job_says(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(
        database,
        executor_id=node.executor_id,
        blocking=BlockingPolicy(strategy=Blocking.SERIAL, concurrency=3, max_waiting=2),
    )
    runs = [await ask(database, job_id, after=after) for after in range(7)]

    requests = await admin.dispatch_all(node)
    assert [request.run for request in requests] == runs[:3]
    assert (
        await states(database, *runs[3:])
        == ["queued blocked"] * 2 + ["skipped too_many_waiting"] * 2
    )

    await admin.say(node, result(requests[0]), result(requests[2]))  # two places at once
    assert [request.run for request in await admin.dispatch_all(node)] == runs[3:5]


@pytest.mark.every_database
async def test_later_ones_are_discarded(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(
        database,
        executor_id=node.executor_id,
        blocking=BlockingPolicy(strategy=Blocking.DISCARD_LATER, concurrency=2),
    )
    runs = [await ask(database, job_id, after=after) for after in (2, 0, 3, 1)]

    requests = await admin.dispatch_all(node)
    assert sorted(request.run for request in requests) == sorted([runs[1], runs[3]])
    assert await states(database, runs[0], runs[2]) == ["skipped discarded"] * 2

    await end(admin, node, requests[0])
    later = await ask(database, job_id, after=9)
    assert [request.run for request in await admin.dispatch_all(node)] == [later]


@pytest.mark.every_database
async def test_the_newest_waits_until_the_covered_one_has_ended(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(
        database,
        executor_id=node.executor_id,
        blocking=COVER,
        retry=RetryPolicy(retries=5, delay_ms=0),
    )
    live = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, accepted(request))

    older = await ask(database, job_id, after=1)
    assert await admin.dispatch_all(node) == []
    newest = await ask(database, job_id, after=2)
    assert await admin.dispatch_all(node) == []
    assert await states(database, older, newest) == ["skipped covered", "queued blocked"]
    asked = await get_run(database, live)
    assert (asked.state, asked.cancel_reason) == (RunState.RUNNING, "covered")

    await admin.engine.sweeper.run_once()
    [cancel] = node.take(Cancel)
    assert (cancel.run, cancel.reason) == (live, CancelReason.COVERED)
    assert await admin.dispatch_all(node) == []  # not before the end is confirmed

    await admin.say(node, result(request, Outcome.CANCELLED))
    assert await states(database, live) == ["cancelled covered"]
    assert [request.run for request in await admin.dispatch_all(node)] == [newest]


@pytest.mark.every_database
async def test_two_admins_never_start_two_of_a_serial_job(database: Database) -> None:
    one, two = Admin(database, admin_id=1), Admin(database, admin_id=2)
    executor_id = new_executor_id()
    node = await one.add_node(executor_id)
    two.links.sessions[node.node_id] = node
    jobs = [await add_job(database, executor_id=executor_id, blocking=SERIAL) for _ in range(3)]
    runs = [await ask(database, job_id, after=n) for job_id in jobs for n in range(4)]

    ended: list[int] = []
    for _ in range(40):
        await asyncio.gather(one.engine.dispatcher.run_once(), two.engine.dispatcher.run_once())
        live = await live_runs(database, executor_id)
        assert len({run.job_id for run in live}) == len(live)
        requests = node.take(RunRequest)
        assert {request.run for request in requests} == {run.id for run in live}
        await asyncio.gather(
            *(
                admin.say(node, result(request))
                for admin, request in zip((one, two, one), requests, strict=False)
            )
        )
        ended += [request.run for request in requests]
        if len(ended) == len(runs):
            break

    for first in range(0, len(runs), 4):
        of_job = [run_id for run_id in ended if run_id in runs[first : first + 4]]
        assert of_job == runs[first : first + 4]


# --- every end makes room ------------------------------------------------------------------------


async def succeed(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await admin.say(node, accepted(request), result(request))


async def fail(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await admin.say(node, accepted(request), result(request, Outcome.FAILED, final=True))


async def fail_and_wait_for_a_retry(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await admin.say(node, accepted(request), result(request, Outcome.FAILED))


async def lose(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    node_id = node.node_id
    await admin.say(node, accepted(request))
    await change(admin.database, tables.node, node_id, state="gone")
    await admin.engine.sweeper.run_once()
    await change(admin.database, tables.node, node_id, state="live")


async def cancel(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await services(admin).cancel(ADMIN, request.run)
    await admin.engine.sweeper.run_once()
    assert [message.run for message in node.take(Cancel)] == [request.run]
    await admin.say(node, result(request, Outcome.CANCELLED))


async def never_start(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    """Cancelled before its node has seen it."""
    await services(admin).cancel(ADMIN, request.run)
    key = {"run": request.run, "attempt": request.attempt, "token": request.token}
    await admin.say(node, Refused(**key, reason=Refusal.NEVER_SEEN))


def services(admin: Admin) -> Runs:
    return Runs(admin.database, Ids(admin.database), admin.events)


@pytest.mark.parametrize(
    "how", [succeed, fail, fail_and_wait_for_a_retry, lose, cancel, never_start]
)
async def test_every_end_lets_the_next_one_start(
    database: Database,
    admin: Admin,
    node: FakeSession,
    how: Callable[[Admin, FakeSession, RunRequest], Awaitable[None]],
) -> None:
    retry = RetryPolicy(retries=1, delay_ms=3_600_000)
    job_id = await add_job(database, blocking=SERIAL, retry=retry)
    first, second, third = [await ask(database, job_id, after=after) for after in range(3)]
    [request] = await admin.dispatch_all(node)

    await how(admin, node, request)

    assert [request.run for request in await admin.dispatch_all(node)] == [second]
    assert await states(database, third) == ["queued blocked"]
    assert (await get_run(database, first)).state is not RunState.RUNNING
    assert await in_use(database, node.node_id) == 1


async def test_a_refused_run_keeps_its_turn(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=SERIAL)
    first, second = [await ask(database, job_id, after=after) for after in range(2)]
    [request] = await admin.dispatch_all(node)
    key = {"run": request.run, "attempt": request.attempt, "token": request.token}
    await admin.say(node, Refused(**key, reason=Refusal.FULL))

    assert await admin.dispatch_all(node) == []
    assert await states(database, first, second) == ["queued refused_full", "queued blocked"]

    # The refused one is cancelled meanwhile: its turn passes on.
    other = await admin.add_node(1, name="other")  # the one that refused is passed over a while
    await services(admin).cancel(ADMIN, first)
    assert [request.run for request in await admin.dispatch_all(other)] == [second]


async def test_a_retry_waits_for_room_and_then_comes_first(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(
        database, blocking=SERIAL, retry=RetryPolicy(retries=1, delay_ms=3_600_000)
    )
    first, second, third = [await ask(database, job_id, after=after) for after in range(3)]
    [request] = await admin.dispatch_all(node)
    await fail_and_wait_for_a_retry(admin, node, request)
    [request] = await admin.dispatch_all(node)
    assert request.run == second

    await change(database, tables.run, first, due_at=await now(database))
    assert await admin.dispatch_all(node) == []
    retried = await get_run(database, first)
    assert (retried.is_parked, retried.tries) == (True, 1)

    await succeed(admin, node, request)
    [request] = await admin.dispatch_all(node)
    assert (request.run, request.try_number) == (first, 2)
    await succeed(admin, node, request)
    assert [request.run for request in await admin.dispatch_all(node)] == [third]


async def test_an_older_run_that_was_woken_does_not_wait_for_a_retry_that_was_not(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(
        database, blocking=SERIAL, retry=RetryPolicy(retries=1, delay_ms=3_600_000)
    )
    retried = await ask(database, job_id, after=1)
    [request] = await admin.dispatch_all(node)
    await fail_and_wait_for_a_retry(admin, node, request)
    live = await ask(database, job_id, after=2)
    [request] = await admin.dispatch_all(node)
    assert request.run == live
    older = await ask(database, job_id, after=0)
    await change(database, tables.run, retried, due_at=await now(database))
    assert await admin.dispatch_all(node) == []
    assert (await get_run(database, retried)).is_parked
    assert (await get_run(database, older)).is_parked

    for expected in (older, retried):  # none of them waits for the other for ever
        await succeed(admin, node, request)
        [request] = await admin.dispatch_all(node)
        assert request.run == expected


@pytest.mark.parametrize("blocking", [DISCARD, COVER])
async def test_a_retry_that_is_due_while_a_newer_run_is_live(
    database: Database, admin: Admin, node: FakeSession, blocking: BlockingPolicy
) -> None:
    job_id = await add_job(
        database, blocking=blocking, retry=RetryPolicy(retries=1, delay_ms=3_600_000)
    )
    first = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await fail_and_wait_for_a_retry(admin, node, request)
    newer = await ask(database, job_id, after=1)
    [request] = await admin.dispatch_all(node)
    assert request.run == newer

    await change(database, tables.run, first, due_at=await now(database))
    assert await admin.dispatch_all(node) == []

    # An older run never ends a newer one; to discard it would be to break the retry's promise.
    assert (await get_run(database, newer)).cancel_requested_at is None
    expected = "queued blocked" if blocking is DISCARD else "skipped covered"
    assert await states(database, first) == [expected]
    await succeed(admin, node, request)
    started = [request.run for request in await admin.dispatch_all(node)]
    assert started == ([first] if blocking is DISCARD else [])


async def test_a_covered_run_that_succeeds_first_has_succeeded(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=COVER)
    live = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    newest = await ask(database, job_id, after=1)
    assert await admin.dispatch_all(node) == []

    await succeed(admin, node, request)

    assert (await get_run(database, live)).state is RunState.SUCCEEDED
    assert [request.run for request in await admin.dispatch_all(node)] == [newest]


async def test_a_covered_run_that_fails_is_not_tried_again(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=COVER, retry=RetryPolicy(retries=3, delay_ms=0))
    live = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    newest = await ask(database, job_id, after=1)
    assert await admin.dispatch_all(node) == []

    await admin.say(node, accepted(request), result(request, Outcome.FAILED))

    assert (await get_run(database, live)).state is RunState.FAILED
    assert [request.run for request in await admin.dispatch_all(node)] == [newest]


# --- what waits, and how it may end --------------------------------------------------------------


async def test_a_long_line_hides_no_other_run(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=SERIAL)
    for after in range(300):
        await ask(database, job_id, after=after, priority=1)
    other = await ask(database, await add_job(database), priority=9)

    requests = await admin.dispatch_all(node)

    assert [request.run for request in requests][1:] == [other]
    parked = await database.read(
        lambda conn: conn.execute(
            sa.select(sa.func.count()).where(tables.run.c.due_at == PARKED_AT)
        ).scalar_one()
    )
    assert parked == 299


async def test_full_nodes_do_not_keep_runs_from_being_skipped(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1, slots=1)
    job_id = await add_job(database, blocking=DISCARD)
    await ask(database, job_id)
    await admin.dispatch_all(node)

    late = await ask(database, job_id, after=1)
    await admin.dispatch_all(node)

    assert await states(database, late) == ["skipped discarded"]


async def test_a_parked_run_expires_and_the_line_goes_on(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=SERIAL, start_within_ms=60_000)
    first, second, third = [await ask(database, job_id, after=after) for after in range(3)]
    [request] = await admin.dispatch_all(node)
    waiting = await get_run(database, second)
    assert waiting.deadline_at is not None
    assert waiting.deadline_at > await now(database) + 50_000

    await change(database, tables.run, second, deadline_at=await now(database))
    await admin.engine.sweeper.run_once()

    assert await states(database, first, second, third) == [
        "dispatched",
        "skipped expired",
        "queued blocked",
    ]
    await succeed(admin, node, request)
    assert [request.run for request in await admin.dispatch_all(node)] == [third]


async def test_a_run_that_expires_at_its_turn_passes_it_on(
    database: Database, admin: Admin
) -> None:
    """It waits for a slot, others wait behind it, and then it is too late."""
    job_id = await add_job(database, blocking=SERIAL, start_within_ms=60_000)
    node = await admin.add_node(1, slots=1)
    busy = await ask(database, await add_job(database), priority=1)
    [request] = await admin.dispatch_all(node)
    assert request.run == busy
    first, second = [await ask(database, job_id, after=after) for after in range(2)]
    await admin.dispatch_all(node)
    assert await states(database, first, second) == ["queued", "queued blocked"]

    await change(database, tables.run, first, deadline_at=1)
    await admin.engine.sweeper.run_once()
    await succeed(admin, node, request)

    assert [request.run for request in await admin.dispatch_all(node)] == [second]
    assert await states(database, first) == ["skipped expired"]


async def test_nothing_is_discarded_for_a_run_that_is_too_late_to_start(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    """Less urgent, it is decided after the newer run, and stands before it until then."""
    job_id = await add_job(database, blocking=DISCARD, start_within_ms=60_000)
    late = await ask(database, job_id, priority=6)
    newer = await ask(database, job_id, after=1, priority=5)
    await change(database, tables.run, late, deadline_at=1)

    assert [request.run for request in await admin.dispatch_all(node)] == [newer]
    assert await states(database, late) == ["skipped expired"]


async def test_a_parked_run_can_be_cancelled(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=SERIAL)
    first, second, third = [await ask(database, job_id, after=after) for after in range(3)]
    [request] = await admin.dispatch_all(node)

    await services(admin).cancel(ADMIN, second)

    assert await states(database, second, third) == ["cancelled cancelled", "queued blocked"]
    await succeed(admin, node, request)
    assert [request.run for request in await admin.dispatch_all(node)] == [third]
    assert (await get_run(database, first)).state is RunState.SUCCEEDED


@pytest.mark.every_database
async def test_a_line_that_nobody_moves_is_set_going(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(database, executor_id=node.executor_id, blocking=SERIAL)
    first, second = [await ask(database, job_id, after=after) for after in range(2)]
    [request] = await admin.dispatch_all(node)
    assert (await database.run(repair_stalled, after=0)).followed.queued == 0  # one is live
    # It ends on another server of the cluster, which does not see yet that the next one waits.
    await change(database, tables.run, second, blocking_key=None)
    await succeed(admin, node, request)
    await change(database, tables.run, second, blocking_key=job_id * 2)
    assert await admin.dispatch_all(node) == []

    await database.run(repair_stalled, after=0)

    assert [request.run for request in await admin.dispatch_all(node)] == [second]
    assert (await get_run(database, first)).state is RunState.SUCCEEDED


@pytest.mark.every_database(but=["sqlite"])
async def test_nothing_is_decided_while_somebody_moves_a_live_run(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(database, executor_id=node.executor_id, blocking=DISCARD)
    first = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    later = await ask(database, job_id, after=1)

    with database.engine.begin() as recorder:
        row = sa.select(tables.run).where(tables.run.c.id == first)
        recorder.execute(row.with_for_update())
        assert await admin.dispatch_all(node) == []
        # It may be ending right now: to discard the later one would be too early.
        assert await states(database, later) == ["queued"]

    await succeed(admin, node, request)
    assert [each.run for each in await admin.dispatch_all(node)] == [later]
