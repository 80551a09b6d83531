"""Fixed delays: every end of a run sets the next fire, and nothing else does (G3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.engine import Admin, FakeSession, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, change, states, trigger_of
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin, Run
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.engine.sweeper.stalled import repair_stalled
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.runs.follow_ups import arm_fixed_delays
from tickwheel_admin.store.runs.rows import run_from_row
from tickwheel_admin.store.triggers.planning import ensure_buckets
from tickwheel_shared.protocol import Cancel, Outcome, RunRequest

pytestmark = [pytest.mark.turned_clock, pytest.mark.usefixtures("entered", "no_second_look")]


MINUTE = 60_000
DELAY = FixedDelaySpec(every_ms=MINUTE)


async def next_fire(database: Database, job_id: int) -> int | None:
    found = (await trigger_of(database, job_id)).next_fire_at
    return None if found is None else int(found)


async def runs_of(database: Database, job_id: int) -> list[Run]:
    """Whole fires only, oldest first."""
    run = tables.run
    wanted = sa.select(run).where(run.c.job_id == job_id, run.c.fire_id.is_(None))
    rows = await database.read(lambda c: c.execute(wanted.order_by(run.c.scheduled_at)).all())
    return [run_from_row(row) for row in rows]


async def fire(admin: Admin, node: FakeSession, job_id: int) -> RunRequest:
    """Plan and claim what is due."""
    await admin.engine.planner.run_once()
    assert await next_fire(admin.database, job_id) is None  # the end of its run says when
    [request] = await admin.dispatch_all(node)
    return request


@pytest.mark.every_database
@pytest.mark.turned_clock(False)
async def test_a_delay_counts_from_the_end_of_the_run(database: Database) -> None:
    admin = Admin(database)
    await database.run(ensure_buckets)
    executor_id = new_executor_id()
    node = await admin.add_node(executor_id)
    job_id = await add_job(database, executor_id=executor_id, triggers=[(DELAY, 1_000)])

    request = await fire(admin, node, job_id)
    await admin.say(node, accepted(request))
    await admin.engine.planner.run_once()
    assert len(await runs_of(database, job_id)) == 1
    await admin.say(node, result(request))

    [run] = await runs_of(database, job_id)
    assert (run.scheduled_at, run.origin) == (1_000, Origin.MISFIRE)  # late, and never left out
    armed = await next_fire(database, job_id)
    assert armed is not None
    assert run.ended_at is not None
    assert run.ended_at + MINUTE <= armed

    # The same again, and an edit or a pause meanwhile: both stand against arming.
    trigger = await trigger_of(database, job_id)
    assert await database.run(arm_fixed_delays, {(trigger.id, 1_000)}, now=5) == 0
    assert await next_fire(database, job_id) == armed


async def test_a_delay_starts_on_time(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW + 1_500)])

    await admin.engine.planner.run_once()
    assert await admin.dispatch_all(node) == []  # planned ahead, but not due
    clock.advance(1.5)
    [request] = await admin.dispatch_all(node)
    clock.advance(100)
    await admin.say(node, result(request))

    assert [(run.scheduled_at, run.origin) for run in await runs_of(database, job_id)] == [
        (NOW + 1_500, Origin.SCHEDULE)
    ]
    assert await next_fire(database, job_id) == clock.now + MINUTE


# --- every end ------------------------------------------------------------------------------------


async def succeed(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await admin.say(node, result(request))


async def fail(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await admin.say(node, accepted(request), result(request, Outcome.FAILED))


async def skip(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await admin.say(node, result(request, Outcome.SKIPPED))


async def lose(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await change(admin.database, tables.node, node.node_id, state="dead")
    await admin.engine.sweeper.run_once()


async def cancel(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await Runs(admin.database, Ids(admin.database), admin.events).cancel(ADMIN, request.run)
    await admin.engine.sweeper.run_once()
    assert len(node.take(Cancel)) == 1
    await admin.say(node, result(request, Outcome.CANCELLED))


async def run_out_of_time(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    admin.trust_own_view()
    await admin.say(node, accepted(request))
    await change(admin.database, tables.run, request.run, started_at=1, deadline_at=1)
    await admin.engine.sweeper.run_once()


@pytest.mark.parametrize("how", [succeed, fail, skip, lose, cancel, run_out_of_time])
async def test_every_end_arms_it(
    database: Database,
    admin: Admin,
    node: FakeSession,
    clock: Clock,
    how: Callable[[Admin, FakeSession, RunRequest], Awaitable[None]],
) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW)], timeout_ms=1_000)
    request = await fire(admin, node, job_id)
    clock.advance(5)

    await how(admin, node, request)

    assert await next_fire(database, job_id) == clock.now + MINUTE


async def test_a_retry_is_no_end(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    retry = RetryPolicy(retries=1, delay_ms=0)
    job_id = await add_job(database, triggers=[(DELAY, NOW)], retry=retry)
    request = await fire(admin, node, job_id)
    await admin.say(node, result(request, Outcome.FAILED))
    assert await next_fire(database, job_id) is None

    clock.advance(7)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, result(request, Outcome.FAILED))
    assert await next_fire(database, job_id) == clock.now + MINUTE


async def test_a_late_result_does_not_arm_it_again(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW)])
    request = await fire(admin, node, job_id)
    await lose(admin, node, request)
    armed = await next_fire(database, job_id)
    clock.advance(30)

    await admin.say(node, result(request))

    assert await states(database, request.run) == ["succeeded"]
    assert await next_fire(database, job_id) == armed


async def test_what_never_started_arms_it_too(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    expires = await add_job(database, triggers=[(DELAY, NOW)], handler="x", start_within_ms=1_000)
    discards = await add_job(
        database,
        triggers=[(DELAY, NOW)],
        blocking=BlockingPolicy(strategy=Blocking.DISCARD_LATER),
    )
    cancelled = await add_job(database, triggers=[(DELAY, NOW)], handler="x")
    await admin.engine.planner.run_once()
    [request] = await admin.dispatch_all(node)
    assert request.job_id == discards
    clock.advance(2)
    [waiting] = await runs_of(database, cancelled)
    await Runs(database, Ids(database), admin.events).cancel(ADMIN, waiting.id)
    await admin.engine.sweeper.run_once()
    for job_id, reason in ((expires, "expired"), (cancelled, "cancelled")):
        assert [run.reason for run in await runs_of(database, job_id)] == [reason]
        assert await next_fire(database, job_id) == clock.now + MINUTE

    # Somebody runs it by hand; the trigger's own fire is discarded and arms the next one.
    await admin.say(node, result(request))
    by_hand = await jobs(admin).run_now(ADMIN, discards)
    assert [request.run for request in await admin.dispatch_all(node)] == [by_hand]
    clock.advance(61)
    await admin.engine.planner.run_once()
    await admin.dispatch_all(node)
    assert [run.reason for run in await runs_of(database, discards)][-1] == "discarded"
    assert await next_fire(database, discards) == clock.now + MINUTE


async def test_a_run_by_hand_is_not_the_triggers(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW + MINUTE)])
    await jobs(admin).run_now(ADMIN, job_id)
    [request] = await admin.dispatch_all(node)
    await change(database, tables.trigger, (await trigger_of(database, job_id)).id, version=1)

    await admin.say(node, result(request))

    assert await next_fire(database, job_id) == NOW + MINUTE


async def test_a_whole_fire_arms_it_with_its_last_shard(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    job_id = await add_job(
        database, triggers=[(DELAY, NOW)], routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2)
    )
    await admin.engine.planner.run_once()
    one, two = await admin.dispatch_all(node)
    await admin.say(node, result(one))
    assert await next_fire(database, job_id) is None
    clock.advance(9)
    await admin.say(node, result(two))

    assert await next_fire(database, job_id) == clock.now + MINUTE


# --- pauses and edits -----------------------------------------------------------------------------


def jobs(admin: Admin) -> Jobs:
    return Jobs(admin.database, Ids(admin.database), admin.events)


@pytest.mark.parametrize("what", ["job", "trigger"])
async def test_a_paused_delay_is_armed_by_resuming_and_not_by_an_end(
    database: Database, admin: Admin, node: FakeSession, clock: Clock, what: str
) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW)])
    request = await fire(admin, node, job_id)
    trigger_id = (await trigger_of(database, job_id)).id
    if what == "job":
        await jobs(admin).pause(ADMIN, job_id)
    else:
        await jobs(admin).pause_trigger(ADMIN, job_id, trigger_id)

    await admin.say(node, result(request))
    await database.run(repair_stalled, after=0)
    assert await next_fire(database, job_id) is None

    clock.advance(20)
    if what == "job":
        await jobs(admin).resume(ADMIN, job_id)
    else:
        await jobs(admin).resume_trigger(ADMIN, job_id, trigger_id)
    assert await next_fire(database, job_id) == NOW + MINUTE  # counted from the end of its run


async def test_resuming_while_its_run_is_live_leaves_it_to_the_end(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW)])
    request = await fire(admin, node, job_id)
    await jobs(admin).pause(ADMIN, job_id)
    await jobs(admin).resume(ADMIN, job_id)
    assert await next_fire(database, job_id) is None

    clock.advance(20)
    await admin.say(node, result(request))
    assert await next_fire(database, job_id) == clock.now + MINUTE


async def test_a_pause_between_reading_and_arming_wins(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    """The trigger is read without a lock, and paused before it is written."""
    job_id = await add_job(database, triggers=[(DELAY, NOW)])
    await fire(admin, node, job_id)
    trigger = await trigger_of(database, job_id)

    def paused_meanwhile(conn: sa.Connection) -> int:
        def pause(raw: Any, cursor: Any, statement: str, *more: Any) -> None:
            if statement.startswith("UPDATE"):
                cursor.execute("UPDATE trigger SET paused = 1, version = version + 1")

        sa.event.listen(conn, "before_cursor_execute", pause)
        return arm_fixed_delays(conn, {(trigger.id, trigger.last_fire_at)}, now=NOW)

    assert await database.run(paused_meanwhile) == 0
    assert await next_fire(database, job_id) is None


async def test_an_edit_does_not_fire_it_beside_its_live_run(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW)])
    request = await fire(admin, node, job_id)
    triggers = [{"kind": "fixed_delay", "every_seconds": 60}]
    raw = {"name": "renamed", "handler": "hello", "triggers": triggers}
    await jobs(admin).update(ADMIN, job_id, raw, revision=1)
    assert await next_fire(database, job_id) is None

    clock.advance(3)
    await admin.say(node, result(request))  # of the revision before
    assert await next_fire(database, job_id) == clock.now + MINUTE


# --- stalls ---------------------------------------------------------------------------------------


async def test_a_delay_whose_run_ended_unseen_is_armed(
    database: Database, admin: Admin, node: FakeSession, clock: Clock
) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW)])
    request = await fire(admin, node, job_id)
    await admin.engine.sweeper.run_once()
    assert await next_fire(database, job_id) is None  # its run is live: all is well
    await admin.say(node, result(request))
    trigger = await trigger_of(database, job_id)
    await change(database, tables.trigger, trigger.id, next_fire_at=None)  # as if it were lost
    clock.advance(3)

    repaired = await database.run(repair_stalled, after=0)

    assert (repaired.followed.armed, repaired.looked_to) == (1, 0)
    assert await next_fire(database, job_id) == clock.now + MINUTE


async def test_a_delay_without_any_run_is_armed(database: Database, clock: Clock) -> None:
    job_id = await add_job(database, triggers=[(DELAY, NOW)])
    once = OnceSpec(at=NOW)
    other = await add_job(database, triggers=[(once, NOW)])
    for each in (job_id, other):
        trigger_id = (await trigger_of(database, each)).id
        await change(database, tables.trigger, trigger_id, next_fire_at=None)

    await database.run(repair_stalled, after=0)

    assert await next_fire(database, job_id) == clock.now + MINUTE
    assert await next_fire(database, other) is None


async def test_stalls_are_looked_for_in_slices(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.engine.sweeper.stalled.TRIGGERS_PER_LOOK", 2)
    found = [await add_job(database, triggers=[(DELAY, NOW)]) for _ in range(5)]
    for job_id in found:
        trigger_id = (await trigger_of(database, job_id)).id
        await change(database, tables.trigger, trigger_id, next_fire_at=None)

    after, looks = 0, 0
    while looks == 0 or after:
        after = (await database.run(repair_stalled, after=after)).looked_to
        looks += 1

    assert looks == 3
    assert None not in [await next_fire(database, job_id) for job_id in found]
