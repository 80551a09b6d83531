"""Backfills: each instant once, never more at once than wanted, and never before fires on time."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest
import sqlalchemy as sa
from msgspec import UNSET

from tests.admin.kit.backfill_site import DAY, HOUR, Site
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, add_run, change, get_run, now, trigger_of
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import add_workflow, step
from tickwheel_admin.domain.backfills.backfill import BackfillState, FillOutcome
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.engine.maintenance.cleaner import Cleaner
from tickwheel_admin.services.backfills.requests import BackfillRequest
from tickwheel_admin.store.backfills import slices
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.runs.retention import remove_old_runs
from tickwheel_shared.protocol import Cancel
from tickwheel_shared.protocol import Outcome as Said

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("entered")]


@pytest.fixture
async def site(database: Database, admin: Admin) -> Site:
    site = Site(database, admin)
    await site.add_job()
    return site


async def test_each_instant_is_run_once_and_told_to_its_handler(
    site: Site, node: FakeSession
) -> None:
    backfill_id = await site.ask(7, parallel=3, parameters='{"own": true}')

    assert await site.write() == [0, 1, 2]
    assert await site.write() == [0, 1, 2], "three are open"
    told = await site.finish(node)

    assert sorted(site.hour(each.scheduled_at) for each in told) == list(range(7))
    assert {bytes(each.parameters) for each in told} == {b'{"t":1,"own":true}'}
    assert {each.origin for each in told} == {"backfill"}
    assert {site.hour(each.scheduled_at): each.interval_start for each in told} == {0: UNSET} | {
        hour: site.start + (hour - 1) * HOUR for hour in range(1, 7)
    }
    ended = await site.get(backfill_id)
    assert (ended.state, ended.total, ended.succeeded) == (BackfillState.DONE, 7, 7)
    assert ended.ended_at is not None
    assert await site.outcomes(backfill_id, FillOutcome.SUCCEEDED) == [6, 5, 4, 3, 2, 1, 0]


async def test_the_newest_come_first_when_they_are_wanted_first(site: Site, node: Any) -> None:
    await site.ask(5, parallel=2, newest_first=True)
    assert await site.write() == [4, 3]
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)][2:] == [2, 1, 0]


async def test_what_has_a_run_is_shown_and_not_run_again(
    site: Site, node: FakeSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fires of the same trigger and of one that was edited since, and what was filled before."""
    monkeypatch.setattr("tickwheel_admin.store.backfills.existing._AT_ONCE", 2)
    trigger = (await trigger_of(database, site.job_id)).id
    for hour, state, trigger_id in (
        (0, RunState.SUCCEEDED, trigger),
        (1, RunState.FAILED, 5),
        (2, RunState.SKIPPED, trigger),
        (3, RunState.CANCELLED, trigger),
    ):
        await add_run(
            database,
            site.job_id,
            trigger_id=trigger_id,
            scheduled_at=site.start + hour * HOUR,
            state=state,
            origin=Origin.SCHEDULE,
        )
    first = await site.ask(5, parallel=9)
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == [2, 3, 4]
    assert await site.outcomes(first, FillOutcome.EXISTING) == [1, 0]
    assert (await site.get(first)).existing == 2

    request = BackfillRequest(from_at=site.start, to_at=site.start + 7 * HOUR)
    seen = await site.backfills.preview(ADMIN, site.job_id, request)
    assert (seen.total, seen.existing, seen.new) == (7, 5, 2)
    second = await site.ask(7, parallel=9)
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == [5, 6]
    assert (await site.get(second)).state is BackfillState.DONE


async def test_many_that_exist_are_passed_over_in_slices(
    site: Site, node: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.engine.backfills.backfiller.MAX_LOOKED_AT", 3)
    await site.ask(8, parallel=8)
    await site.finish(node)
    again = await site.ask(10)
    while await site.admin.engine.backfiller.run_once():
        pass
    assert (await site.get(again)).existing == 8
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == [8, 9]


async def test_pausing_writes_nothing_and_resuming_goes_on(site: Site, node: FakeSession) -> None:
    backfill_id = await site.ask(4, parallel=2)
    await site.write()
    await site.backfills.pause(ADMIN, backfill_id)
    told = await site.finish(node)
    assert [site.hour(each.scheduled_at) for each in told] == [0, 1], "they were open"
    paused = await site.get(backfill_id)
    assert (paused.state, paused.succeeded, paused.open) == (BackfillState.PAUSED, 2, 0)

    await site.backfills.resume(ADMIN, backfill_id)
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == [2, 3]


async def test_cancelling_ends_what_is_open_and_another_may_do_the_rest(
    site: Site, node: FakeSession, database: Database
) -> None:
    backfill_id = await site.ask(6, parallel=3)
    await site.write()
    (live, *_) = await site.admin.dispatch_all(node)
    waiting = (await site.filled())[-1]
    await change(database, tables.run, waiting.id, state="queued", node_id=None, attempt=0)
    await site.admin.say(node, accepted(live))

    await site.backfills.cancel(ADMIN, backfill_id)

    runs = {run.id: run for run in await site.filled()}
    assert runs[waiting.id].state is RunState.CANCELLED
    assert runs[live.run].cancel_requested_at is not None
    await change(database, tables.run, waiting.id, state="cancelled")
    for each in runs.values():
        if each.id != waiting.id:
            await change(database, tables.run, each.id, state="cancelled")
    assert sorted(await site.write()) == [0, 1, 2]
    ended = await site.get(backfill_id)
    assert (ended.state, ended.cancelled, ended.open) == (BackfillState.CANCELLED, 3, 0)
    assert ended.ended_at is not None

    again = await site.ask(6, parallel=9)
    assert (await site.get(again)).existing == 0
    await change(database, tables.node, node.node_id, in_use=0)
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == list(range(6))


async def test_the_last_free_slot_is_kept_for_fires_on_time(
    site: Site, admin: Admin, database: Database
) -> None:
    node = await admin.add_node(1, slots=3)
    await site.ask(9, parallel=9)
    await site.write()
    assert len(await site.filled()) == 2
    # Written while there was room, claimed when there is none: the claim looks as well.
    await add_run(database, site.job_id, origin=Origin.SCHEDULE)
    told = [each.origin for each in await admin.dispatch_all(node)]
    assert told == ["schedule", "backfill"]
    await add_run(database, site.job_id, origin=Origin.SCHEDULE)
    assert [each.origin for each in await admin.dispatch_all(node)] == ["schedule"]
    await site.write()
    assert len(await site.filled()) == 2, "nothing is written while no slot is to spare"


@pytest.mark.every_database(but=("postgresql", "mariadb"))
async def test_the_shards_of_a_broadcast_leave_it_as_well(
    site: Site, admin: Admin, database: Database
) -> None:
    node = await admin.add_node(1, slots=2)
    await site.add_job(routing=RoutingPolicy(strategy=Routing.BROADCAST))
    await site.ask(1)
    await site.write()
    await change(database, tables.node, node.node_id, in_use=1)
    assert await admin.dispatch_all(node) == []
    await change(database, tables.node, node.node_id, in_use=0)
    assert len(await admin.dispatch_all(node)) == 1


async def test_a_single_slot_must_do_for_both(site: Site, admin: Admin) -> None:
    node = await admin.add_node(1, slots=1)
    await site.ask(2, parallel=2)
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == [0, 1]


@pytest.mark.every_database(but=("postgresql", "mariadb"))
async def test_a_job_that_is_not_parallel_has_no_more_open_than_may_be_live(
    site: Site, node: FakeSession
) -> None:
    await site.add_job(blocking=BlockingPolicy(strategy=Blocking.SERIAL))
    await site.ask(3, parallel=3)
    assert await site.write() == [0]
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == [0, 1, 2]


async def test_of_admins_that_look_at_once_one_writes(
    site: Site, node: FakeSession, database: Database
) -> None:
    backfill_id = await site.ask(9, parallel=4)
    other = Admin(database, admin_id=2)
    for _ in range(2):
        await asyncio.gather(
            site.admin.engine.backfiller.run_once(), other.engine.backfiller.run_once()
        )
    filled = await site.filled()
    assert [site.hour(run.works_for_at) for run in filled] == [0, 1, 2, 3]
    assert (await site.get(backfill_id)).written == 4


async def test_a_slice_that_was_read_before_a_pause_is_not_written(
    site: Site, node: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    backfill_id = await site.ask(3)
    (due,) = await site.database.read(site.admin.engine.backfiller._due)
    await site.backfills.pause(ADMIN, backfill_id)
    assert await site.database.run(slices.write_slice, due, run_ids=[1]) is None
    assert await site.filled() == []


async def test_failures_are_counted_and_nothing_is_purged_by_its_instant(
    site: Site, node: FakeSession, database: Database
) -> None:
    backfill_id = await site.ask(2, parallel=2)
    await site.write()
    await site.do(node, await site.admin.dispatch_all(node), Said.FAILED)
    await site.write()
    ended = await site.get(backfill_id)
    assert (ended.state, ended.failed) == (BackfillState.DONE, 2)
    assert await database.run(remove_old_runs, older_than_ms=DAY, limit=10) == 0


async def test_the_end_of_its_job_and_a_pause_of_its_executor(
    site: Site, node: FakeSession, database: Database
) -> None:
    backfill_id = await site.ask(3)
    await change(database, tables.executor, 1, paused_at=1)
    assert await site.write() == []
    await change(database, tables.executor, 1, paused_at=None)
    await change(database, tables.job, site.job_id, deleted_at=1)
    assert await site.write() == []
    ended = await site.get(backfill_id)
    assert (ended.state, ended.reason) == (BackfillState.CANCELLED, "job_deleted")


async def test_a_run_without_a_slot_does_not_expire(
    site: Site, node: FakeSession, database: Database
) -> None:
    await site.add_job(start_within_ms=1_000)
    await site.ask(1)
    await site.write()
    (run,) = await site.filled()
    assert (run.deadline_at, run.priority) == (None, 9)
    assert await get_run(database, run.id) == run
    rows = sa.select(tables.backfill_run.c.outcome)
    assert await database.read(lambda conn: conn.execute(rows).scalars().all()) == ["open"]


async def test_backfills_of_a_job_are_few_and_paused_ones_keep_no_place_of_others(
    site: Site, node: FakeSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.store.backfills.backfills.MAX_OPEN", 2)
    monkeypatch.setattr("tickwheel_admin.engine.backfills.backfiller.MAX_OPEN", 2)
    monkeypatch.setattr("tickwheel_admin.services.backfills.requests.MAX_OPEN_OF_JOB", 4)
    paused = [await site.ask(3) for _ in range(3)]
    for each in paused:
        await site.backfills.pause(ADMIN, each)
    first = site.job_id
    last = await site.ask(3)
    with pytest.raises(Conflict, match="4 backfills that run or are paused"):
        await site.ask(3)
    for _ in range(2):
        await site.add_job()
        await site.ask(1)
    site.job_id = first
    assert await site.write() == [0]
    assert (await site.get(last)).open == 1
    # The first two are looked at once more, then the one behind them.
    assert len(await site.finish(node)) == 5

    await change(database, tables.job, first, deleted_at=1)
    await Cleaner(database, retention_days=30).run_once()
    ended = [await site.get(each) for each in paused]
    assert {(each.state, each.reason) for each in ended} == {
        (BackfillState.CANCELLED, "job_deleted")
    }
    assert all(each.ended_at is not None for each in ended)


async def test_what_was_counted_for_another_schedule_is_not_started(
    site: Site, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = BackfillRequest(from_at=site.start, to_at=site.start + HOUR)
    seen = await site.backfills.preview(ADMIN, site.job_id, request)
    trigger = await trigger_of(database, site.job_id)
    await change(database, tables.trigger, trigger.id, created_at=trigger.created_at + 1)
    monkeypatch.setattr(site.backfills, "preview", AsyncMock(return_value=seen))
    with pytest.raises(Conflict, match="changed at the same moment"):
        await site.backfills.create(ADMIN, site.job_id, request)


@pytest.mark.parametrize("call", ["preview", "create"])
async def test_a_preview_refuses_what_a_start_refuses(site: Site, call: str) -> None:
    for changes, field in (
        ({"parameters": "[1]"}, "parameters"),
        ({"parameters": '{"x": %s}' % ("1" * 70_000)}, "parameters"),
        ({"parallel": 0}, "parallel"),
    ):
        request = BackfillRequest(from_at=site.start, to_at=site.start + HOUR, **changes)
        with pytest.raises(InvalidInput) as caught:
            await getattr(site.backfills, call)(ADMIN, site.job_id, request)
        assert [each.field for each in caught.value.problems] == [field]


async def test_a_workflow_is_filled_in_with_its_steps_behind_everything_else(
    site: Site, admin: Admin, database: Database
) -> None:
    node = await admin.add_node(1, slots=2)
    at = await now(database)
    site.start = at - at % HOUR - 180 * DAY
    spec = FixedRateSpec(every_ms=HOUR, anchor_at=site.start)
    site.job_id = await add_workflow(
        database, step("first"), step("then", "first"), executor_id=1, triggers=[(spec, at + DAY)]
    )
    backfill_id = await site.ask(3, parallel=2)

    assert await site.write() == [0, 1]
    told = await admin.dispatch_all(node)
    assert len(told) == 1, "the last slot is kept for fires on time"
    await site.do(node, told)
    told += await site.finish(node)
    assert sorted((each.job, site.hour(each.scheduled_at)) for each in told) == sorted(
        (name, hour) for hour in range(3) for name in {each.job for each in told}
    )
    assert {(site.hour(each.scheduled_at), each.interval_start) for each in told} == {
        (0, UNSET),
        (1, site.start),
        (2, site.start + HOUR),
    }
    ended = await site.get(backfill_id)
    assert (ended.state, ended.succeeded) == (BackfillState.DONE, 3)
    steps = sa.select(tables.run.c.priority).where(tables.run.c.origin == Origin.STEP.value)
    assert await database.read(lambda conn: conn.execute(steps).scalars().all()) == [9] * 6


@pytest.mark.every_database(but=("postgresql", "mariadb"))
async def test_the_largest_backfill_is_written_in_small_parts_and_stands_still_once_paused(
    site: Site, admin: Admin, database: Database
) -> None:
    """However many instants there are: a pass writes what fits, so nothing waits for it."""
    node = await admin.add_node(1, slots=6)
    at = await now(database)
    spec = FixedRateSpec(every_ms=1_000, anchor_at=at - at % 1_000 - 200_000_000)
    site.job_id = await add_job(database, triggers=[(spec, at + DAY)])
    wanted = BackfillRequest(
        from_at=spec.anchor_at or 0, to_at=(spec.anchor_at or 0) + 100_000_000, parallel=100
    )
    backfill_id = await site.backfills.create(ADMIN, site.job_id, wanted)
    assert (await site.get(backfill_id)).total == 100_000

    rows = sa.select(sa.func.count()).select_from(tables.backfill_run)

    async def noted() -> int:
        return int(await database.read(lambda conn: conn.execute(rows).scalar_one()))

    for _ in range(4):
        before = await noted()
        await admin.engine.backfiller.run_once()
        assert 0 < await noted() - before <= 5, "the free slots but one"
        await add_run(database, site.job_id, origin=Origin.SCHEDULE)
        told = await admin.dispatch_all(node)
        assert told[0].origin == "schedule", "it waits for none of them"
        await site.do(node, told)

    await site.backfills.pause(ADMIN, backfill_id)
    before = await noted()
    await site.finish(node)
    paused = await site.get(backfill_id)
    assert (await noted(), paused.open, paused.succeeded) == (before, 0, before)


@pytest.mark.every_database(but=("postgresql", "mariadb"))
async def test_cancelling_ends_workflows_with_their_steps(
    site: Site, admin: Admin, database: Database
) -> None:
    node = await admin.add_node(1, slots=9)
    spec = FixedRateSpec(every_ms=HOUR, anchor_at=site.start)
    site.job_id = await add_workflow(
        database,
        step("first"),
        step("then", "first"),
        executor_id=1,
        triggers=[(spec, await now(database) + DAY)],
    )
    backfill_id = await site.ask(3, parallel=2)
    await site.write()
    told = await admin.dispatch_all(node)
    await admin.say(node, *map(accepted, told))

    await site.backfills.cancel(ADMIN, backfill_id)
    while await admin.engine.sweeper.run_once():
        pass
    assert {each.run for each in node.take(Cancel)} == {each.run for each in told}
    await admin.say(node, *(result(each, Said.CANCELLED) for each in told))
    await site.write()
    ended = await site.get(backfill_id)
    assert (ended.state, ended.cancelled, ended.open) == (BackfillState.CANCELLED, 2, 0)
