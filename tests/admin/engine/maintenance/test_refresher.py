"""Calendars and zone data change while admins plan: nothing is lost, nothing fires twice."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, new_executor_id
from tests.admin.kit.rows import (
    add_calendar,
    add_job,
    change,
    change_calendar,
    now,
    runs_of,
    trigger_of,
)
from tickwheel_admin.domain.calendars.calendar import CalendarSense
from tickwheel_admin.domain.triggers.kinds import KINDS
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.engine.maintenance import refresher
from tickwheel_admin.engine.sweeper.stalled import repair_stalled
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.triggers.planning import ensure_buckets
from tickwheel_admin.store.triggers.stale import TZDATA, note_zone_data, zone_data

pytestmark = pytest.mark.every_database

SECOND = 1_000
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
async def admin(database: Database) -> Admin:
    await database.run(ensure_buckets)
    await database.run(note_zone_data, "9999z")  # each test has its own business
    return Admin(database)


def date_of(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()


def days_around(at: int) -> tuple[str, ...]:
    return tuple(date_of(at + day * DAY) for day in range(-1, 7))


def new_name() -> str:
    return f"calendar-{new_executor_id()}"


def every(ms: int, calendar: str, **changes: Any) -> TriggerSpec:
    return FixedRateSpec(every_ms=ms, calendar=calendar, **changes)


async def refresh(*admins: Admin) -> None:
    """Until nothing is left to be computed anew."""
    for admin in admins:
        while await admin.engine.refresher.run_once():
            pass


# --- what becomes of a trigger -------------------------------------------------------------------


async def test_future_fires_go_and_overdue_ones_stay(admin: Admin) -> None:
    database, name = admin.database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    at = await now(database)
    future = await add_job(database, triggers=[(every(DAY, name), at + HOUR)])
    overdue = await add_job(database, triggers=[(every(DAY, name), at - HOUR)])
    await change_calendar(database, calendar_id, name, dates=days_around(at))

    await refresh(admin)

    moved, kept = await trigger_of(database, future), await trigger_of(database, overdue)
    assert date_of(moved.next_fire_at) not in days_around(at)
    assert (moved.next_fire_at - at - HOUR) % DAY == 0
    assert kept.next_fire_at == at - HOUR
    assert {moved.calendar_version, kept.calendar_version} == {2}
    assert {moved.version, kept.version} == {2}  # plans made from the old version are void
    await admin.engine.planner.run_once()
    assert [run.scheduled_at for run in await runs_of(database, overdue)] == [at - HOUR]


@pytest.mark.parametrize("meets_it_first", ["the refresher", "a planner"])
async def test_what_was_planned_ahead_is_taken_back(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, meets_it_first: str
) -> None:
    database, name = admin.database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    start = await now(database) - 100
    spec = every(500, name, repeat_count=1_000)
    job_id = await add_job(database, triggers=[(spec, start)])
    await admin.engine.planner.run_once()
    planned = len(await runs_of(database, job_id))
    await change_calendar(database, calendar_id, name, dates=days_around(start))
    changed_at = await now(database)

    if meets_it_first == "a planner":
        monkeypatch.setattr("tickwheel_admin.engine.planner.loop.AHEAD_MS", 4_000)
        await admin.engine.planner.run_once()
        assert (await trigger_of(database, job_id)).next_fire_at > changed_at + DAY
    await refresh(admin)

    left = await runs_of(database, job_id)
    assert 1 <= len(left) < planned
    assert left[0].scheduled_at == start
    assert left[-1].scheduled_at <= await now(database)
    trigger = await trigger_of(database, job_id)
    assert trigger.fires == len(left)
    assert trigger.last_fire_at == left[-1].scheduled_at
    assert trigger.next_fire_at > changed_at + DAY


async def test_a_trigger_without_further_fires_comes_back(admin: Admin) -> None:
    database, name = admin.database, new_name()
    at = await now(database)
    only = {"sense": CalendarSense.INCLUDE, "dates": (date_of(at + 40 * DAY),)}
    calendar_id = await add_calendar(database, name, **only)
    spec = every(DAY, name, anchor_at=at, end_at=at + 30 * DAY)
    job_id = await add_job(database, triggers=[(spec, at + HOUR)])
    trigger = await trigger_of(database, job_id)
    await change(database, tables.trigger, trigger.id, next_fire_at=None, state="complete")
    wider = {**only, "dates": (date_of(at + 20 * DAY), date_of(at + 40 * DAY))}
    await change_calendar(database, calendar_id, name, **wider)
    await refresh(admin)
    back = await trigger_of(database, job_id)
    assert (back.state, date_of(back.next_fire_at)) == ("active", date_of(at + 20 * DAY))

    await change_calendar(database, calendar_id, name, **only)
    await refresh(admin)
    over = await trigger_of(database, job_id)
    assert (over.state, over.next_fire_at, over.calendar_version) == ("complete", None, 3)


async def test_a_paused_trigger_takes_the_version_only(admin: Admin) -> None:
    database, name = admin.database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    spec = every(DAY, name)
    by_itself = await add_job(database, triggers=[(spec, 0)])
    with_its_job = await add_job(database, triggers=[(spec, 0)])
    for job_id, paused in ((by_itself, True), (with_its_job, False)):
        trigger = await trigger_of(database, job_id)
        await change(database, tables.trigger, trigger.id, paused=paused, next_fire_at=None)
    await change(database, tables.job, with_its_job, paused=True)
    await change_calendar(database, calendar_id, name, dates=("2020-01-02",))

    await refresh(admin)

    for job_id in (by_itself, with_its_job):
        trigger = await trigger_of(database, job_id)
        assert (trigger.next_fire_at, trigger.calendar_version) == (None, 2)
        assert trigger.state == "active"


async def test_a_calendar_that_is_there_again_ends_the_error(admin: Admin) -> None:
    database, name = admin.database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    at = await now(database)
    job_id = await add_job(database, triggers=[(every(DAY, name), at)])
    await change(database, tables.calendar, calendar_id, deleted_at=5)  # by hand
    await admin.engine.planner.run_once()
    assert (await trigger_of(database, job_id)).state == "error"
    await refresh(admin)  # and no loop, while it is away

    await add_calendar(database, name, dates=("2020-01-02",))
    await refresh(admin)

    trigger = await trigger_of(database, job_id)
    assert (trigger.state, trigger.reason) == ("active", None)
    assert trigger.next_fire_at >= at
    assert trigger.calendar_version > 1


async def test_a_fixed_delay_that_was_planned_ahead_waits_for_what_is_left(admin: Admin) -> None:
    database, name = admin.database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    at = await now(database) + 1_800
    delay = FixedDelaySpec(every_ms=HOUR, calendar=name)
    ahead = await add_job(database, triggers=[(delay, at)])
    armed = await add_job(database, triggers=[(delay, at + HOUR)])
    await admin.engine.planner.run_once()
    assert len(await runs_of(database, ahead)) == 1
    await change_calendar(database, calendar_id, name, dates=days_around(at))

    await refresh(admin)

    assert await runs_of(database, ahead) == []
    for job_id in (ahead, armed):
        trigger = await trigger_of(database, job_id)
        assert (trigger.state, trigger.fires) == ("active", 0)
        assert date_of(trigger.next_fire_at - 1) == days_around(at)[-1]


async def test_a_fixed_delay_whose_calendar_is_there_again_is_armed(admin: Admin) -> None:
    database, name = admin.database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    delay = FixedDelaySpec(every_ms=HOUR, calendar=name)
    job_id = await add_job(database, triggers=[(delay, await now(database))])
    await change(database, tables.calendar, calendar_id, deleted_at=5)  # by hand
    await admin.engine.planner.run_once()
    assert (await trigger_of(database, job_id)).state == "error"

    await add_calendar(database, name, dates=("2020-01-02",))
    await refresh(admin)
    await database.run(repair_stalled, after=0)

    trigger = await trigger_of(database, job_id)
    assert (trigger.state, trigger.reason) == ("active", None)
    assert trigger.next_fire_at is not None


async def test_whoever_follows_a_calendar_follows_those_it_is_based_on(admin: Admin) -> None:
    database, base, name = admin.database, new_name(), new_name()
    base_id = await add_calendar(database, base, dates=("2020-01-01",))
    await add_calendar(database, name, dates=("2020-01-02",), base=base)
    at = await now(database) + HOUR
    job_id = await add_job(database, triggers=[(every(DAY, name), at)])
    await change_calendar(database, base_id, base, dates=days_around(at))

    await refresh(admin)

    trigger = await trigger_of(database, job_id)
    assert trigger.calendar_version == 2
    assert date_of(trigger.next_fire_at) not in days_around(at)


# --- batches and races -----------------------------------------------------------------------


async def test_triggers_come_in_batches_and_statements_do_not_grow_with_them(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresher, "TRIGGERS_PER_BATCH", 4)
    database, name = admin.database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    at = await now(database)
    jobs = []
    for number in range(9):
        spec = every(500, name, anchor_at=at + number)
        jobs.append(await add_job(database, triggers=[(spec, at + number)]))
    await admin.engine.planner.run_once()  # so that each has fires that are taken back
    await change_calendar(database, calendar_id, name, dates=days_around(at))
    made: list[str] = []
    engine = database.engine

    def note(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        made.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    await refresh(admin)
    sa.event.remove(engine, "before_cursor_execute", note)

    triggers = [await trigger_of(database, job_id) for job_id in jobs]
    assert {trigger.calendar_version for trigger in triggers} == {2}
    batches = [text for text in made if text.startswith("UPDATE") and "trigger" in text]
    assert len(batches) == 3
    refreshed = made[: made.index(batches[-1]) + 1]
    assert len(refreshed) <= 3 * 16


async def test_admins_that_plan_with_the_old_calendar_come_too_late(admin: Admin) -> None:
    """A plan is computed, then the calendar changes and is followed, then the plan is written."""
    database, name = admin.database, new_name()
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    at = await now(database) + 1_500
    job_id = await add_job(database, triggers=[(every(DAY, name), at)])
    original = database.run

    async def changed_first(work, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        if work.__name__ == "plan_due_triggers":
            database.run = original  # type: ignore[method-assign]
            await change_calendar(database, calendar_id, name, dates=days_around(at))
            await refresh(admin)
        return await original(work, *args, **kwargs)

    database.run = changed_first  # type: ignore[method-assign, assignment]
    try:
        await admin.engine.planner.run_once()
    finally:
        database.run = original  # type: ignore[method-assign]

    assert await runs_of(database, job_id) == []
    assert date_of((await trigger_of(database, job_id)).next_fire_at) not in days_around(at)


async def test_nothing_is_lost_or_doubled_while_calendars_change(admin: Admin) -> None:
    """Two admins plan and refresh; the calendar goes to and fro between nothing and windows."""
    database, name = admin.database, new_name()
    admins = [admin, Admin(database, admin_id=2)]
    calendar_id = await add_calendar(database, name, dates=("2020-01-01",))
    start = await now(database)
    jobs = [
        await add_job(database, triggers=[(every(200, name, anchor_at=start), start)])
        for _ in range(6)
    ]
    plain = [
        await add_job(
            database,
            triggers=[(FixedRateSpec(every_ms=200), start)],
        )
        for _ in range(2)
    ]

    async def plan_and_refresh(one: Admin) -> None:
        for _ in range(12):
            await one.engine.planner.run_once()
            await one.engine.refresher.run_once()

    async def edit() -> None:
        for number in range(6):
            # Days far away only: whatever version is met, the same instants may fire.
            await change_calendar(database, calendar_id, name, dates=(f"2020-02-{number + 1:02}",))
            await asyncio.sleep(0)

    await asyncio.gather(*(plan_and_refresh(one) for one in admins), edit())
    await refresh(*admins)
    await admin.engine.planner.run_once()  # what the last change took back

    for job_id in (*jobs, *plain):
        runs = await runs_of(database, job_id)
        at = [run.scheduled_at for run in runs]
        assert len(at) >= 10
        assert at == list(range(start, start + 200 * len(at), 200)), job_id
        trigger = await trigger_of(database, job_id)
        assert trigger.next_fire_at == start + 200 * len(at)
        assert trigger.fires == len(at)


# --- zone data -------------------------------------------------------------------------------


async def zone_version(database: Database) -> str | None:
    return await database.read(zone_data)


async def test_new_zone_data_are_met_by_every_trigger_with_a_zone(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresher, "TRIGGERS_PER_BATCH", 3)
    database = admin.database
    at = await now(database)
    daily = CronSpec(expression="0 9 * * *", dialect="unix", timezone="Europe/Berlin")
    plain = FixedRateSpec(every_ms=HOUR)
    # As if the zone had another offset when they were computed.
    wrong = [await add_job(database, triggers=[(daily, at + 90 * DAY + 1)]) for _ in range(4)]
    overdue = await add_job(database, triggers=[(daily, at - HOUR)])
    other = await add_job(database, triggers=[(plain, at + 90 * DAY + 1)])

    await set_zone_version(database, "2001a")
    await refresh(Admin(database, admin_id=3))

    assert await zone_version(database) == refresher.TZDATA_VERSION
    right = {(await trigger_of(database, job_id)).next_fire_at for job_id in wrong}
    assert len(right) == 1
    assert at < right.pop() <= at + DAY
    assert (await trigger_of(database, overdue)).next_fire_at == at - HOUR
    assert (await trigger_of(database, other)).next_fire_at == at + 90 * DAY + 1


async def test_older_zone_data_change_nothing(admin: Admin) -> None:
    database = admin.database
    at = await now(database)
    daily = CronSpec(expression="0 9 * * *", dialect="unix", timezone="Europe/Berlin")
    job_id = await add_job(database, triggers=[(daily, at + 90 * DAY + 1)])
    await set_zone_version(database, "9999z")

    await refresh(Admin(database, admin_id=4))

    assert (await trigger_of(database, job_id)).next_fire_at == at + 90 * DAY + 1
    assert await zone_version(database) == "9999z"


async def set_zone_version(database: Database, version: str) -> None:
    statement = sa.update(tables.setting).where(tables.setting.c.name == TZDATA)
    await database.run(lambda conn: conn.execute(statement.values(value=version)).close())


def test_the_kinds_that_go_by_clocks_are_these() -> None:
    by_the_clock = {name for name, kind in KINDS.items() if kind.has_wall_times}
    assert by_the_clock == {"cron", "calendar_interval", "daily_window", "window"}
