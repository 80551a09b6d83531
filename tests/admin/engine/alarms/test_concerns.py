"""Alarms of what "Needs attention" finds: they open once, stay, and end by themselves."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.alarm_stage import Stage
from tests.admin.kit.clock import Clock
from tests.admin.kit.rows import add_job, change
from tickwheel_admin.domain.admin_status import AdminStatus, status_to_json
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.jobs.declared_job import DeclaredJob, DeclaredState, Ruling
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.jobs.declared import forget_declared, write_declared

pytestmark = [pytest.mark.turned_clock(of_servers=True), pytest.mark.every_database(nightly=True)]


@pytest.fixture
def stage(database: Database, clock: Clock) -> Stage:
    return Stage(database, clock)


async def test_a_job_that_failed_last_and_runs_seldom(stage: Stage) -> None:
    job = await add_job(stage.database, name="yearly")
    await stage.alarms.rule(AlarmKind.LAST_FAILED, await stage.alarms.channel())
    await stage.succeed(job)
    assert await stage.after(4 * 3600) == []
    await stage.fail(job)
    assert await stage.after(11) == [[("opened", "yearly")]]
    assert await stage.after(11) == []
    # A day later the overview says no more of it; the alarm is open until a run succeeds.
    assert await stage.after(2 * 86_400) == []
    assert [each.count for each in await stage.alarms.open()] == [1]
    await stage.succeed(job)
    assert await stage.after(11) == [[("recovered", "yearly")]]


async def test_a_job_that_fails_more_often_than_usual_until_it_is_half_as_bad(
    stage: Stage,
) -> None:
    job = await add_job(stage.database, name="flaky")
    await stage.alarms.rule(AlarmKind.FAILURE_RATE, await stage.alarms.channel())

    async def runs(outcomes: str) -> list[list[tuple[str, str]]]:
        for outcome in outcomes:
            stage.clock.advance(1)
            await (stage.fail if outcome == "x" else stage.succeed)(job)
        return await stage.after(11)

    assert await runs("..x....x....") == []
    assert await runs("x....x..x") == [[("opened", "flaky")]]  # 5 of 21
    assert await runs("......") == []  # 5 of 27, which opens nothing, and ends nothing
    assert await stage.after(60) == []
    assert await runs("." * 30) == [[("recovered", "flaky")]]


async def test_an_alarm_is_not_over_because_others_are_worse(stage: Stage) -> None:
    first = await add_job(stage.database, name="first")
    await stage.alarms.rule(AlarmKind.FAILURE_RATE, await stage.alarms.channel())
    for _ in range(3):
        await stage.fail(first)
    assert await stage.after(11) == [[("opened", "first")]]
    for number in range(2, 27):
        job = await add_job(stage.database, name=f"job {number}")
        for _ in range(4):
            await stage.fail(job)
    await stage.after(11)
    assert len(await stage.alarms.open()) == 26
    await stage.after(120)
    assert len(await stage.alarms.open()) == 26


async def test_an_executor_of_which_many_runs_fail(stage: Stage) -> None:
    jobs = [await add_job(stage.database, name=f"job {number}") for number in range(4)]
    await stage.alarms.rule(AlarmKind.LOW_SUCCESS, await stage.alarms.channel())
    for job in jobs:
        for _ in range(4):
            await stage.succeed(job)
    assert await stage.after(11) == []
    for job in jobs:
        await stage.fail(job)
    assert await stage.after(11) == [[("opened", "executor-1")]]
    assert await stage.after(86_400) == [[("recovered", "executor-1")]]


async def test_declared_jobs_that_wait_for_a_decision(stage: Stage) -> None:
    await add_job(stage.database)
    await stage.alarms.rule(AlarmKind.DECLARED_WAITING, await stage.alarms.channel())
    waiting = DeclaredJob(
        executor_id=1,
        name="nightly",
        raw="{}",
        job_id=None,
        ruling=Ruling(state=DeclaredState.WAITING),
        declared_by="n1",
        node_id=1,
        declared_at=stage.clock.now,
    )
    await stage.database.run(write_declared, waiting)
    assert await stage.after(11) == [[("opened", "executor-1")]]
    await stage.database.run(forget_declared, 1, ["nightly"])
    assert await stage.after(60) == [[("recovered", "executor-1")]]


async def test_a_slow_database_is_told_as_the_admin_that_waits_longest_sees_it(
    stage: Stage,
) -> None:
    await stage.alarms.rule(AlarmKind.DATABASE_SLOW, await stage.alarms.channel())

    async def see(ms: int) -> None:
        status = status_to_json(AdminStatus(database_ms=ms))
        ends_at = stage.clock.now + 26_000  # it renews its lease while nobody looks
        await change(stage.database, tables.admin, 9, status=status, lease_expires_at=ends_at)

    admin = {
        "id": 9, "name": "a9", "url": "http://a9", "version": "1", "status": "{}",
        "started_at": stage.clock.now, "lease_expires_at": 0,
    }  # fmt: skip
    await stage.database.run(lambda c: c.execute(sa.insert(tables.admin).values(admin)).close())
    await see(1_000)
    assert await stage.after(11) == []
    await see(1_001)
    assert await stage.after(11) == [[("opened", "")]]
    [alarm] = await stage.alarms.open()
    assert (alarm.subject, dict(alarm.told.params)) == (
        "installation",
        {"admin": "a9", "ms": 1_001},
    )
    await see(20)
    assert await stage.after(60) == [[("recovered", "")]]
