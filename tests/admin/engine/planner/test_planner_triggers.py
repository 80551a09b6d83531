"""What a trigger says beside its kind, as the planner writes it: counts, jitter, calendars, …"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.engine import Admin, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import (
    add_calendar,
    add_job,
    change,
    change_calendar,
    create_schema,
    now,
    runs_of,
    trigger_of,
)
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.triggers.kinds.calendar_interval import (
    CalendarIntervalSpec,
    IntervalUnit,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.spec import MisfirePolicy, TriggerSpec
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.triggers.planning import ensure_buckets

pytestmark = pytest.mark.every_database

SECOND = 1_000
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@pytest.fixture
async def admin(database: Database) -> Admin:
    await database.run(ensure_buckets)
    return Admin(database)


def every(ms: int, **changes: Any) -> TriggerSpec:
    return FixedRateSpec(every_ms=ms, **changes)


# --- repeat counts ---------------------------------------------------------------------------


async def test_the_last_run_of_a_count_completes_the_trigger(admin: Admin) -> None:
    database = admin.database
    start = await now(database)
    job_id = await add_job(database, triggers=[(every(200, repeat_count=3), start)])

    await admin.engine.planner.run_once()

    at = [run.scheduled_at for run in await runs_of(database, job_id)]
    assert at == [start, start + 200, start + 400]
    trigger = await trigger_of(database, job_id)
    assert (trigger.state, trigger.next_fire_at, trigger.fires) == ("complete", None, 3)


async def test_what_is_only_told_of_does_not_count(admin: Admin) -> None:
    database = admin.database
    start = await now(database) - 10 * MINUTE
    skips = every(MINUTE, repeat_count=2, misfire=MisfirePolicy.SKIP)
    catches_up = every(MINUTE, repeat_count=2, misfire=MisfirePolicy.FIRE_ALL)
    skipping = await add_job(database, triggers=[(skips, start)])
    catching_up = await add_job(database, triggers=[(catches_up, start)])

    await admin.engine.planner.run_once()

    assert (await trigger_of(database, skipping)).fires <= 1  # what is on time meanwhile
    trigger = await trigger_of(database, catching_up)
    assert (trigger.state, trigger.fires) == ("complete", 2)
    runs = await runs_of(database, catching_up)
    assert [run.state.value for run in runs] == ["skipped", "queued", "queued"]


async def test_a_count_goes_on_over_plans_and_ends_with_a_fixed_delay(admin: Admin) -> None:
    database, executor_id = admin.database, new_executor_id()
    node = await admin.add_node(executor_id)
    delay = FixedDelaySpec(every_ms=100, repeat_count=2)
    job_id = await add_job(database, executor_id=executor_id, triggers=[(delay, 1_000)])

    for fires, state in ((1, "active"), (2, "complete")):
        await admin.engine.planner.run_once()
        [request] = await admin.dispatch_all(node)
        trigger = await trigger_of(database, job_id)
        assert (trigger.fires, trigger.state, trigger.next_fire_at) == (fires, state, None)
        await admin.say(node, accepted(request), result(request))
        armed = (await trigger_of(database, job_id)).next_fire_at
        over = None if armed is None else armed - 200
        await change(database, tables.trigger, trigger.id, next_fire_at=over)

    trigger = await trigger_of(database, job_id)
    assert (trigger.state, trigger.next_fire_at) == ("complete", None)
    assert len(await runs_of(database, job_id)) == 2


async def test_a_fixed_delay_whose_end_has_passed_is_complete(admin: Admin) -> None:
    database, executor_id = admin.database, new_executor_id()
    node = await admin.add_node(executor_id)
    at = await now(database)
    delay = FixedDelaySpec(every_ms=HOUR, end_at=at + MINUTE)
    job_id = await add_job(database, executor_id=executor_id, triggers=[(delay, at)])
    await admin.engine.planner.run_once()
    [request] = await admin.dispatch_all(node)
    assert (await trigger_of(database, job_id)).state == "active"

    await admin.say(node, result(request))

    trigger = await trigger_of(database, job_id)
    assert (trigger.state, trigger.next_fire_at) == ("complete", None)


# --- jitter, priority, parameters ------------------------------------------------------------


async def test_jitter_spreads_runs_and_leaves_instants_as_they_are(admin: Admin) -> None:
    database, executor_id = admin.database, new_executor_id()
    node = await admin.add_node(executor_id)
    start = await now(database)
    spread = every(500, jitter_ms=HOUR)
    job_id = await add_job(
        database, executor_id=executor_id, triggers=[(spread, start)], start_within_ms=9_000
    )

    await admin.engine.planner.run_once()

    runs = await runs_of(database, job_id)
    assert [run.scheduled_at for run in runs] == [start + 500 * i for i in range(len(runs))]
    assert len(runs) >= 4
    assert all(run.scheduled_at <= run.due_at < run.scheduled_at + 500 for run in runs)
    assert any(run.due_at > run.scheduled_at for run in runs)
    assert [(run.jitter_ms or 0) for run in runs] == [run.due_at - run.scheduled_at for run in runs]
    assert [run.deadline_at for run in runs] == [run.due_at + 9_000 for run in runs]

    # Not before it is due, however long its instant has passed.
    late = await now(database) + HOUR
    for run in runs:
        await change(database, tables.run, run.id, due_at=late)
    assert await admin.dispatch_all(node) == []


async def test_what_is_made_up_for_is_not_spread(admin: Admin) -> None:
    database = admin.database
    start = await now(database) - 10 * MINUTE
    job_id = await add_job(database, triggers=[(every(HOUR, jitter_ms=HOUR), start)])

    await admin.engine.planner.run_once()

    [run] = await runs_of(database, job_id)
    assert (run.origin, run.jitter_ms, run.due_at) == (Origin.MISFIRE, None, run.created_at)


async def test_a_triggers_priority_and_parameters_go_over_the_jobs(admin: Admin) -> None:
    database, executor_id = admin.database, new_executor_id()
    node = await admin.add_node(executor_id)
    start = await now(database)
    own = every(DAY, priority=2, parameters='{"mode":"night","shop":{"id":7}}')
    job_id = await add_job(
        database,
        executor_id=executor_id,
        triggers=[(own, start), (every(DAY), start)],
        parameters='{"mode":"day","shop":{"id":1,"name":"a"},"big":123456789012345678901234567890}',
        priority=6,
    )

    await admin.engine.planner.run_once()
    requests = await admin.dispatch_all(node)

    assert sorted(run.priority for run in await runs_of(database, job_id)) == [2, 6]
    merged, plain = (json.loads(bytes(request.parameters)) for request in requests)
    assert merged == {"mode": "night", "shop": {"id": 7}, "big": 123456789012345678901234567890}
    assert plain["mode"] == "day"


# --- calendars -------------------------------------------------------------------------------


def today_of(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()


def a_week_from(at: int) -> list[str]:
    return [today_of(at + day * DAY) for day in range(7)]


async def test_a_missing_calendar_is_an_error_of_its_trigger_alone(admin: Admin) -> None:
    database = admin.database
    start = await now(database)
    job_id = await add_job(
        database, triggers=[(every(DAY, calendar="nowhere"), start), (every(DAY), start)]
    )

    await admin.engine.planner.run_once()
    await admin.engine.planner.run_once()

    assert len(await runs_of(database, job_id)) == 1
    broken = await database.read(
        lambda c: c.execute(
            sa.select(tables.trigger).filter_by(job_id=job_id, calendar="nowhere")
        ).one()
    )
    assert (broken.state, broken.next_fire_at) == ("error", None)
    assert broken.reason == "There is no calendar named “nowhere”."


async def test_the_planner_follows_a_calendar_that_changed(admin: Admin) -> None:
    """Before anybody else has: what is still to come is taken away, what is overdue is not."""
    database = admin.database
    name = f"calendar-{new_executor_id()}"
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    soon = await now(database) + 1_500
    overdue = every(100 * DAY, calendar=name)
    late_job = await add_job(database, triggers=[(overdue, soon - MINUTE)])
    soon_job = await add_job(database, triggers=[(every(DAY, calendar=name), soon)])
    await change_calendar(database, calendar_id, name, dates=tuple(a_week_from(soon - DAY)))

    await admin.engine.planner.run_once()

    [late] = await runs_of(database, late_job)
    assert (late.scheduled_at, late.origin) == (soon - MINUTE, Origin.MISFIRE)
    assert await runs_of(database, soon_job) == []
    for job_id in (late_job, soon_job):
        trigger = await trigger_of(database, job_id)
        assert trigger.calendar_version == 2
        assert today_of(trigger.next_fire_at) not in a_week_from(soon - DAY)
    soon_trigger = await trigger_of(database, soon_job)
    assert (soon_trigger.next_fire_at - soon) % DAY == 0


async def test_a_fixed_delay_is_armed_for_what_its_calendar_leaves(admin: Admin) -> None:
    database, executor_id = admin.database, new_executor_id()
    node = await admin.add_node(executor_id)
    name = f"calendar-{new_executor_id()}"
    at = await now(database)
    await add_calendar(database, name, dates=tuple(a_week_from(at)))
    delay = FixedDelaySpec(every_ms=SECOND, calendar=name)
    job_id = await add_job(database, executor_id=executor_id, triggers=[(delay, at)])
    await admin.engine.planner.run_once()
    [request] = await admin.dispatch_all(node)

    await admin.say(node, result(request))

    trigger = await trigger_of(database, job_id)
    assert (trigger.state, trigger.calendar_version) == ("active", 1)
    assert trigger.next_fire_at % DAY == 0
    assert today_of(trigger.next_fire_at - 1) == a_week_from(at)[-1]


async def test_a_fixed_delay_whose_calendar_is_gone_is_in_error(admin: Admin) -> None:
    database, executor_id = admin.database, new_executor_id()
    node = await admin.add_node(executor_id)
    name = f"calendar-{new_executor_id()}"
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    delay = FixedDelaySpec(every_ms=SECOND, calendar=name)
    job_id = await add_job(
        database, executor_id=executor_id, triggers=[(delay, await now(database))]
    )
    await admin.engine.planner.run_once()
    [request] = await admin.dispatch_all(node)
    await change(database, tables.calendar, calendar_id, deleted_at=5)  # by hand

    await admin.say(node, result(request))

    trigger = await trigger_of(database, job_id)
    assert (trigger.state, trigger.next_fire_at) == ("error", None)
    assert name in trigger.reason


# --- every kind ------------------------------------------------------------------------------

BERLIN = {"timezone": "Europe/Berlin"}
KINDS = {
    "cron": CronSpec(expression="0 */15 * * * ?", dialect="quartz", **BERLIN),
    "fixed rate": every(10 * MINUTE, anchor_at=0),
    "once": OnceSpec(at=NOW - HOUR),
    "calendar interval": CalendarIntervalSpec(
        every=1,
        unit=IntervalUnit.DAY,
        start_date="2026-01-01",
        at_time="06:00:00",
        **BERLIN,
    ),
    "daily window": DailyWindowSpec(
        every_ms=20 * MINUTE,
        from_time="00:00:00",
        to_time="23:59:59",
        **BERLIN,
    ),
}


@pytest.mark.parametrize("policy", list(MisfirePolicy))
async def test_after_a_downtime_every_kind_goes_on_by_its_policy(
    tmp_path: Path, policy: MisfirePolicy
) -> None:
    """Each kind stood still for ten days; its instants are listed as its schedule has them."""
    clock = Clock()
    database = Database(f"sqlite:///{tmp_path / 'kinds.db'}", clock=clock)
    await create_schema(database)
    admin = Admin(database)
    await admin.engine.membership.enter()
    since = NOW - 10 * DAY
    jobs = {}
    for name, kind in KINDS.items():
        spec = replace(kind, misfire=policy, catch_up_limit=5)
        first = parse(spec, saved_at=since).next_after(since)
        assert first is not None
        jobs[name] = (spec, first, await add_job(database, triggers=[(spec, first)]))

    while await admin.engine.planner.run_once():
        pass

    for name, (spec, first, job_id) in jobs.items():
        schedule = parse(spec, saved_at=since)
        missed, following = [first], schedule.next_after(first)
        while following is not None and following < NOW - 5 * SECOND:
            missed.append(following)
            following = schedule.next_after(following)
        made_up = {"fire_once": 1, "skip": 0, "fire_all": 5}[policy]
        runs = await runs_of(database, job_id)
        ran = [
            run.scheduled_at for run in runs if run.origin is Origin.MISFIRE and run.message is None
        ]
        told = [json.loads(run.message) for run in runs if run.message is not None]
        assert ran == missed[max(len(missed) - made_up, 0) :], name
        left = missed[: len(missed) - len(ran)]
        assert [each["missed"] for each in told] == ([min(len(left), 1_001)] if left else []), name
        on_time = [run.scheduled_at for run in runs if run.origin is Origin.SCHEDULE]
        for at in on_time:
            assert at == following, name
            following = schedule.next_after(at)
        trigger = await trigger_of(database, job_id)
        assert trigger.next_fire_at == following, name
        assert trigger.state == ("complete" if following is None else "active"), name
    await database.close()
