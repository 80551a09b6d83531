"""Pauses of executors and of everything, and missed fires (guarantees G1, G9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.engine import Admin, FakeSession, new_executor_id
from tests.admin.kit.messages import result
from tests.admin.kit.rows import add_job, ask, change, now, runs_of
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.spec import MisfirePolicy, TriggerSpec
from tickwheel_admin.engine.dispatcher.claim import ClaimResult, claim_queued_runs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.triggers.pauses import pause_everything, pause_executor, read_pauses
from tickwheel_admin.store.triggers.planning import ensure_buckets

pytestmark = [pytest.mark.turned_clock, pytest.mark.usefixtures("entered")]


SECOND = 1_000
MINUTE = 60_000


@pytest.fixture
async def node(admin: Admin) -> FakeSession:
    node = await admin.add_node(1, slots=1_000)
    await change(admin.database, tables.node, node.node_id, lease_expires_at=NOW * 2)
    return node


def every(ms: int, **changes: Any) -> TriggerSpec:
    return FixedRateSpec(every_ms=ms, **changes)


async def pause(database: Database, what: str, *, at: int | None) -> None:
    if what == "everything":
        await database.run(pause_everything, at=at)
    else:
        await database.run(pause_executor, 1, at=at)


async def fires(database: Database, job_id: int) -> list[tuple[int, str]]:
    """(instant after NOW in ms, state and reason) of the job's runs, oldest first."""
    return [
        (run.scheduled_at - NOW, " ".join(filter(None, (run.state.value, run.reason))))
        for run in await runs_of(database, job_id)
    ]


async def next_fire(database: Database, job_id: int) -> int:
    wanted = sa.select(tables.trigger.c.next_fire_at).where(tables.trigger.c.job_id == job_id)
    return int(await database.read(lambda conn: conn.execute(wanted).scalar_one()))


async def plan(admin: Admin) -> None:
    while await admin.engine.planner.run_once():
        pass


# --- pauses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["executor", "everything"])
async def test_a_pause_skips_what_was_planned_and_plans_nothing_more(
    database: Database, admin: Admin, node: FakeSession, clock: Clock, what: str
) -> None:
    job_id = await add_job(database, triggers=[(every(SECOND), NOW)])
    await plan(admin)
    assert [at for at, _ in await fires(database, job_id)] == [0, 1_000, 2_000]
    await pause(database, what, at=NOW + 500)

    clock.advance(10)
    await plan(admin)
    started = await admin.dispatch_all(node)

    # What was due before the pause runs, be it claimed only now.
    assert await fires(database, job_id) == [
        (0, "dispatched"),
        (1_000, "skipped paused"),
        (2_000, "skipped paused"),
    ]
    assert [request.scheduled_at for request in started] == [NOW]
    assert await next_fire(database, job_id) == NOW + 11_000

    clock.advance(0.5)
    await pause(database, what, at=None)
    await plan(admin)
    # What the pause held back is skipped; the schedule goes on where it stands now.
    assert [at for at, _ in (await fires(database, job_id))[3:]] == [11_000, 12_000]


@pytest.mark.parametrize("what", ["executor", "everything"])
async def test_fires_from_before_a_pause_are_not_lost(
    database: Database, admin: Admin, clock: Clock, what: str
) -> None:
    """No admin planned for an hour; the pause began in the middle of it."""
    spec = every(10 * MINUTE, misfire=MisfirePolicy.FIRE_ALL)
    job_id = await add_job(database, triggers=[(spec, NOW)])
    await pause(database, what, at=NOW + 25 * MINUTE)
    clock.advance(3_600)

    await plan(admin)

    assert [(at, run) for at, run in await fires(database, job_id)] == [
        (0, "queued"),
        (10 * MINUTE, "queued"),
        (20 * MINUTE, "queued"),
    ]
    assert {run.due_at for run in await runs_of(database, job_id)} == {clock.now}
    assert await next_fire(database, job_id) == NOW + 70 * MINUTE


@pytest.mark.every_database
@pytest.mark.turned_clock(False)
async def test_pauses_hold_on_every_database(database: Database) -> None:
    admin = Admin(database)
    await database.run(ensure_buckets)
    paused, runs = new_executor_id(), new_executor_id()
    start = await now(database)
    jobs = {
        executor_id: await add_job(
            database, executor_id=executor_id, triggers=[(every(500), start)]
        )
        for executor_id in (paused, runs)
    }
    nodes = {executor_id: await admin.add_node(executor_id, slots=50) for executor_id in jobs}
    await database.run(pause_executor, paused, at=start)
    assert (await database.read(read_pauses)).executors == {paused: start}
    assert (await database.read(read_pauses, [runs])).executors == {}

    for _ in range(2):
        await plan(admin)
    while await admin.engine.dispatcher.run_once():
        pass

    held = await runs_of(database, jobs[paused])
    assert [run.scheduled_at for run in held] == [start]
    assert held[0].state is RunState.DISPATCHED  # the pause began at its very instant
    assert len(await runs_of(database, jobs[runs])) >= 4
    assert len(nodes[paused].sent) == 1

    await database.run(pause_everything, at=start + 5)
    found = await database.read(read_pauses)
    assert (found.everything, found.of(paused), found.of(runs)) == (start + 5, start, start + 5)
    await database.run(pause_everything, at=None)
    await database.run(pause_executor, paused, at=None)
    found = await database.read(read_pauses)
    assert (found.everything, found.of(paused)) == (None, None)


@pytest.mark.parametrize("what", ["executor", "everything"])
async def test_requests_are_not_paused(
    database: Database, admin: Admin, node: FakeSession, what: str
) -> None:
    job_id = await add_job(database)
    await pause(database, what, at=NOW - 5_000)
    wanted = [
        await ask(database, job_id, scheduled_at=NOW, origin=origin)
        for origin in (Origin.MANUAL, Origin.API, Origin.CHILD, Origin.RETRY)
    ]

    assert {request.run for request in await admin.dispatch_all(node)} == set(wanted)


async def test_other_executors_go_on(database: Database, admin: Admin, clock: Clock) -> None:
    job_id = await add_job(database, executor_id=2, triggers=[(every(SECOND), NOW)])
    await add_job(database)
    await pause(database, "executor", at=NOW - 1)
    await plan(admin)
    assert len(await fires(database, job_id)) == 3


async def test_shards_of_a_fire_that_has_begun_go_on(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    """Half a broadcast is worse than a late one."""
    job_id = await add_job(
        database,
        triggers=[(every(MINUTE), NOW)],
        routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2),
    )
    await plan(admin)
    await change(database, tables.node, node.node_id, slots=1)
    [one] = await admin.dispatch_all(node)
    await pause(database, "executor", at=NOW - 1)
    await admin.say(node, result(one))

    [two] = await admin.dispatch_all(node)
    await admin.say(node, result(two))
    assert {state for _, state in await fires(database, job_id)} == {
        "succeeded",
        "succeeded shards",
    }


async def test_a_fixed_delay_waits_for_the_end_of_the_pause(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    spec = FixedDelaySpec(every_ms=MINUTE)
    job_id = await add_job(database, triggers=[(spec, NOW)])
    await plan(admin)
    [request] = await admin.dispatch_all(node)
    await pause(database, "executor", at=NOW + SECOND)
    clock.advance(5)
    await admin.say(node, result(request))

    for _ in range(3):
        armed = await next_fire(database, job_id)
        assert armed == clock.now + MINUTE
        clock.now = armed
        await plan(admin)
    assert [at for at, _ in await fires(database, job_id)] == [0]

    await pause(database, "executor", at=None)
    clock.now = await next_fire(database, job_id)
    await plan(admin)
    assert [request.scheduled_at for request in await admin.dispatch_all(node)] == [clock.now]


async def test_a_fixed_delay_that_was_planned_ahead_is_skipped_and_armed(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    spec = FixedDelaySpec(every_ms=MINUTE)
    job_id = await add_job(database, triggers=[(spec, NOW + SECOND)])
    await plan(admin)
    await pause(database, "everything", at=NOW)
    clock.advance(2)
    assert await admin.dispatch_all(node) == []

    assert await fires(database, job_id) == [(SECOND, "skipped paused")]
    assert await next_fire(database, job_id) == clock.now + MINUTE


async def test_a_paused_fire_holds_no_turn(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    serial = BlockingPolicy(strategy=Blocking.SERIAL)
    job_id = await add_job(database, triggers=[(every(SECOND), NOW)], blocking=serial)
    await plan(admin)
    [first] = await admin.dispatch_all(node)
    clock.advance(1)
    await admin.dispatch_all(node)  # the second stands in line
    by_hand = await ask(database, job_id, scheduled_at=NOW + 1_500)
    await admin.dispatch_all(node)
    await pause(database, "executor", at=NOW + 100)
    await admin.say(node, result(first))

    assert [request.run for request in await admin.dispatch_all(node)] == [by_hand]
    assert (await fires(database, job_id))[1] == (SECOND, "skipped paused")


# --- missed fires ---------------------------------------------------------------------------------


def told(run: Run) -> dict[str, int]:
    found: dict[str, int] = json.loads(run.message or "{}")
    return found


@pytest.mark.parametrize(
    ("threshold_ms", "missed"), [(1_000, True), (5_000, True), (60_000, False)]
)
async def test_a_trigger_says_how_late_is_missed(
    database: Database, admin: Admin, clock: Clock, threshold_ms: int, missed: bool
) -> None:
    spec = every(MINUTE, misfire=MisfirePolicy.SKIP, misfire_threshold_ms=threshold_ms)
    job_id = await add_job(database, triggers=[(spec, NOW)])
    clock.advance(30)

    await plan(admin)

    assert await fires(database, job_id) == [(0, "skipped misfire" if missed else "queued")]


async def test_catching_up_makes_up_for_the_latest(
    database: Database, admin: Admin, clock: Clock
) -> None:
    spec = every(MINUTE, misfire=MisfirePolicy.FIRE_ALL, catch_up_limit=3)
    job_id = await add_job(database, triggers=[(spec, NOW)], priority=9)
    clock.now = NOW + 10 * MINUTE + 30 * SECOND

    await plan(admin)

    summary, *caught_up = await runs_of(database, job_id)
    assert (summary.state, told(summary)) == (
        RunState.SKIPPED,
        {
            "missed": 8,
            "from": NOW,
            "to": NOW + 7 * MINUTE,
            "policy": "fire_all",
            "made_up": 3,
        },
    )
    assert [run.scheduled_at - NOW for run in caught_up] == [n * MINUTE for n in (8, 9, 10)]
    assert {(run.due_at, run.origin, run.priority) for run in caught_up} == {
        (clock.now, Origin.MISFIRE, 9)  # there is no priority behind the last one
    }
    assert await next_fire(database, job_id) == NOW + 11 * MINUTE


async def test_missed_fires_run_behind_what_is_on_time(
    database: Database, admin: Admin, clock: Clock
) -> None:
    node = await admin.add_node(1, slots=3)
    await change(database, tables.node, node.node_id, lease_expires_at=NOW * 2)
    spec = every(MINUTE, misfire=MisfirePolicy.FIRE_ALL)
    missed = await add_job(database, triggers=[(spec, NOW)])
    on_time = await add_job(database, triggers=[(every(MINUTE), NOW + 5 * MINUTE)])
    clock.now = NOW + 5 * MINUTE
    await plan(admin)

    started = await admin.dispatch(node)

    assert [request.job_id for request in started] == [on_time, missed, missed]
    assert {run.priority for run in await runs_of(database, missed)} == {6}
    assert {run.priority for run in await runs_of(database, on_time)} == {5}
    assert [request.scheduled_at for request in started[1:]] == [NOW, NOW + MINUTE]


@pytest.mark.parametrize("at_the_look", [True, False])
async def test_a_claim_goes_by_the_pause_as_it_is_then(
    database: Database,
    admin: Admin,
    node: FakeSession,
    monkeypatch: pytest.MonkeyPatch,
    at_the_look: bool,
) -> None:
    """It may come seconds after the dispatcher looked: with a slow database, or repeated."""
    job_id = await add_job(database, triggers=[(every(MINUTE), NOW)])
    await plan(admin)
    if at_the_look:
        await database.run(lambda conn: pause_everything(conn, at=NOW - 1))

    def change_first(conn: sa.Connection, *rest: Any) -> ClaimResult:
        pause_everything(conn, at=None if at_the_look else NOW - 1)
        return claim_queued_runs(conn, *rest)

    monkeypatch.setattr("tickwheel_admin.engine.dispatcher.loop.claim_queued_runs", change_first)
    started = [request.job_id for request in await admin.dispatch(node)]

    assert started == ([job_id] if at_the_look else [])
    (fire,) = await fires(database, job_id)
    assert fire[1] == ("dispatched" if at_the_look else "skipped paused")


async def test_what_is_on_time_is_planned_before_what_is_overdue(
    database: Database, admin: Admin, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much is overdue: a pass gives it a slice, and looks again."""
    monkeypatch.setattr("tickwheel_admin.engine.planner.loop.OVERDUE_SLICE_SECONDS", 0.0)
    overdue = [await add_job(database, triggers=[(every(MINUTE), NOW)]) for _ in range(32)]
    clock.now = NOW + 5 * MINUTE
    on_time = [await add_job(database, triggers=[(every(MINUTE), clock.now)]) for _ in range(32)]

    assert await admin.engine.planner.run_once()

    planned = {
        run.job_id for job_id in [*overdue, *on_time] for run in await runs_of(database, job_id)
    }
    assert planned == set(on_time)

    monkeypatch.undo()
    await plan(admin)
    assert all([await runs_of(database, job_id) for job_id in overdue])


async def test_a_fire_that_starts_too_late_is_skipped_by_its_job(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    """Planned in time, but no node was there: the start-by deadline counts from its instant."""
    job_id = await add_job(database, triggers=[(every(MINUTE), NOW)], start_within_ms=10_000)
    await plan(admin)
    clock.advance(11)
    await admin.engine.sweeper.run_once()
    assert await fires(database, job_id) == [(0, "skipped expired")]
