"""Planning: every instant once, misfires by policy, and no trigger that holds up another."""

from __future__ import annotations

import asyncio
import json

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job, all_runs, change, now
from tickwheel_admin.domain.planning.missed_fires import missed_fires_of
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.spec import MisfirePolicy, TriggerSpec
from tickwheel_admin.engine.planner import loop as planner
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.triggers.planning import BUCKETS

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("entered")]

SECOND = 1_000


def every(seconds: float, misfire: MisfirePolicy = MisfirePolicy.FIRE_ONCE) -> TriggerSpec:
    return FixedRateSpec(every_ms=round(seconds * SECOND), misfire=misfire)


async def the_trigger(database: Database) -> sa.Row:
    return await database.read(lambda conn: conn.execute(sa.select(tables.trigger)).one())


async def test_fires_are_planned_ahead_and_once(database: Database, admin: Admin) -> None:
    start = await now(database)
    await add_job(database, triggers=[(every(0.5), start)])

    await admin.engine.planner.run_once()
    await admin.engine.planner.run_once()

    runs = await all_runs(database)
    assert 4 <= len(runs) <= 20
    assert [run.scheduled_at for run in runs] == [start + 500 * i for i in range(len(runs))]
    assert all(run.state is RunState.QUEUED and run.due_at == run.scheduled_at for run in runs)
    assert [run.interval_start for run in runs] == [None, *(run.scheduled_at for run in runs[:-1])]
    assert (await the_trigger(database)).next_fire_at == start + 500 * len(runs)


async def test_many_admins_plan_each_instant_once(database: Database) -> None:
    start = await now(database)
    admins = [Admin(database, admin_id=i) for i in range(1, 5)]
    await admins[0].engine.membership.enter()
    for _ in range(20):
        await add_job(database, triggers=[(every(0.2), start - 2 * SECOND)])

    for _ in range(3):
        await asyncio.gather(*(admin.engine.planner.run_once() for admin in admins))

    runs = await all_runs(database)
    fired = {(run.trigger_id, run.scheduled_at) for run in runs}
    assert len(fired) == len(runs)
    per_trigger = {}
    for trigger_id, at in sorted(fired, key=lambda pair: (pair[0] or 0, pair[1])):
        per_trigger.setdefault(trigger_id, []).append(at)
    for instants in per_trigger.values():
        assert instants == list(range(instants[0], instants[-1] + 1, 200))


@pytest.mark.parametrize(
    ("policy", "caught_up", "summarised"),
    [
        (MisfirePolicy.FIRE_ONCE, 1, True),
        (MisfirePolicy.SKIP, 0, True),
        (MisfirePolicy.FIRE_ALL, 60, False),
    ],
)
async def test_misfires(
    database: Database, admin: Admin, policy: MisfirePolicy, caught_up: int, summarised: bool
) -> None:
    start = await now(database) - 65 * SECOND
    await add_job(database, triggers=[(every(1, policy), start)])

    await admin.engine.planner.run_once()

    runs = await all_runs(database)
    misfired = [r for r in runs if r.origin is Origin.MISFIRE and r.state is RunState.QUEUED]
    skipped = [r for r in runs if r.state is RunState.SKIPPED]
    # The threshold moves with the clock while the test runs.
    assert caught_up <= len(misfired) <= caught_up + (3 if policy is MisfirePolicy.FIRE_ALL else 0)
    assert len(skipped) == summarised
    summaries = [missed_fires_of(run) for run in skipped]
    assert all(
        each and (each.policy, each.made_up) == (policy, len(misfired)) for each in summaries
    )
    told = sum(each.count for each in summaries if each)
    on_time = [r for r in runs if r.origin is Origin.SCHEDULE]
    covered = told + len(misfired) + len(on_time)
    assert (await the_trigger(database)).next_fire_at == start + covered * SECOND


async def test_forty_days_of_downtime_are_counted_to_a_thousand(
    database: Database, admin: Admin
) -> None:
    start = await now(database) - 40 * 86_400 * SECOND
    await add_job(database, triggers=[(every(1, MisfirePolicy.SKIP), start)])

    await admin.engine.planner.run_once()

    [skipped] = [r for r in await all_runs(database) if r.state is RunState.SKIPPED]
    assert json.loads(skipped.message or "")["missed"] == 1_001


async def test_a_one_off_completes_its_trigger(database: Database, admin: Admin) -> None:
    at = await now(database) + SECOND
    await add_job(database, triggers=[(OnceSpec(at=at), at)])

    await admin.engine.planner.run_once()

    [run] = await all_runs(database)
    assert run.scheduled_at == at
    trigger = await the_trigger(database)
    assert (trigger.state, trigger.next_fire_at) == ("complete", None)


async def test_a_trigger_that_cannot_be_computed_does_not_stop_others(
    database: Database, admin: Admin
) -> None:
    start = await now(database)
    gone = CronSpec(expression="* * * * *", timezone="Mars/Olympus")
    await add_job(database, triggers=[(gone, start), (every(10), start)])

    await admin.engine.planner.run_once()

    assert len(await all_runs(database)) == 1
    broken = await database.read(
        lambda conn: conn.execute(sa.select(tables.trigger).filter_by(state="error")).one()
    )
    assert "Mars/Olympus" in broken.reason
    assert broken.next_fire_at is None


async def test_an_edit_in_between_makes_the_plan_void(database: Database, admin: Admin) -> None:
    start = await now(database)
    await add_job(database, triggers=[(every(10), start)])
    trigger = await the_trigger(database)
    original = database.run

    async def edited_first(work, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        if work.__name__ == "plan_due_triggers":
            database.run = original  # type: ignore[method-assign]
            await change(database, tables.trigger, trigger.id, version=2)
        return await original(work, *args, **kwargs)

    database.run = edited_first  # type: ignore[method-assign, assignment]
    await admin.engine.planner.run_once()

    assert await all_runs(database) == []
    assert (await the_trigger(database)).next_fire_at == start


async def test_a_fire_that_is_in_the_ledger_counts_as_planned(
    database: Database, admin: Admin
) -> None:
    start = await now(database)
    await add_job(database, triggers=[(every(10), start)])
    trigger = await the_trigger(database)
    await admin.engine.planner.run_once()
    await change(database, tables.trigger, trigger.id, next_fire_at=start)  # a restored backup

    await admin.engine.planner.run_once()

    assert len(await all_runs(database)) == 1
    assert (await the_trigger(database)).next_fire_at == start + 10 * SECOND


async def test_more_than_one_look_shows_is_planned_bucket_by_bucket(
    database: Database, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "TRIGGERS_PER_LOOK", 8)
    monkeypatch.setattr(planner, "TRIGGERS_PER_BATCH", 3)
    start = await now(database)
    await add_job(database, triggers=[(every(10), start)] * 60)

    passes = 1
    while await admin.engine.planner.run_once():
        passes += 1

    assert len({run.trigger_id for run in await all_runs(database)}) == 60
    assert passes == 2  # the first one left some in buckets with four of them


async def test_buckets_that_another_admin_plans_are_left_to_it(
    database: Database, admin: Admin
) -> None:
    if database.engine.dialect.name == "sqlite":
        return  # it has one writer, which others wait for
    start = await now(database)
    await add_job(database, triggers=[(every(10), start)] * 16)
    buckets = sa.select(tables.bucket.c.id).where(tables.bucket.c.id.in_([3, 4])).with_for_update()
    with database.engine.begin() as another:
        another.execute(buckets)
        await admin.engine.planner.run_once()
        planned = await all_runs(database)
    assert {(run.trigger_id or 0) % BUCKETS for run in planned} == set(range(BUCKETS)) - {3, 4}

    await admin.engine.planner.run_once()
    assert len(await all_runs(database)) == 16
