"""Runs that failed alike are counted once, and resolved when their jobs work again."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.alarm_stage import Stage
from tests.admin.kit.clock import Clock
from tests.admin.kit.rows import add_job, change
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RuleScope
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.runs.error import RunError
from tickwheel_admin.store.alarms.alarms import acknowledge_alarm
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.failures import groups
from tickwheel_admin.store.runs.errors import insert_errors

pytestmark = pytest.mark.turned_clock

REFUSED, BROKEN = 11, 12


class Failures:
    """Jobs of a stage that fail, and the groups made of that."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.stage = Stage(database, clock)
        self._database = database

    async def errors(self) -> None:
        found = [
            RunError(id=REFUSED, executor_id=1, text="bank-gw refused"),
            RunError(id=BROKEN, executor_id=1, text="KeyError: 'a'"),
        ]
        await self._database.run(insert_errors, found)

    async def fail(self, job_id: int, error_id: int | None = REFUSED, **more: Any) -> int:
        run_id = await self.stage.fail(job_id, more.pop("kind", AlarmKind.FAILED))
        await change(self._database, tables.run, run_id, error_id=error_id, **more)
        return run_id

    async def groups(self) -> list[FailureGroup]:
        """After an evaluation, the newest first; also those that are resolved."""
        await self.stage.alarms.evaluate()
        return await self._database.read(
            lambda conn: groups.page_groups(conn, only_standing=False, limit=50)
        )

    async def later(self, seconds: float = 11) -> list[FailureGroup]:
        self.stage.clock.advance(seconds)
        return await self.groups()


@pytest.fixture
async def failures(database: Database, clock: Clock) -> Failures:
    found = Failures(database, clock)
    await found.errors()
    return found


async def test_runs_of_several_jobs_make_one_group(failures: Failures, database: Database) -> None:
    jobs = [await add_job(database, name=f"job {n}") for n in range(3)]
    first = await failures.fail(jobs[0], job_revision=12, node_id=7)
    failures.stage.clock.advance(1)
    await failures.fail(jobs[0])
    await failures.fail(jobs[1], kind=AlarmKind.TIMED_OUT)
    other = await failures.fail(jobs[2], BROKEN)
    await failures.fail(jobs[2], None)  # without a word
    broken, refused = sorted(await failures.groups(), key=lambda each: -each.id)
    assert (refused.text, refused.runs, refused.jobs) == ("bank-gw refused", 3, 2)
    assert (refused.first_run_id, refused.first_job_id) == (first, jobs[0])
    assert (refused.first_revision, refused.first_node_id) == (12, 7)
    assert refused.last_at == refused.since + 1_000
    assert (broken.runs, broken.jobs, broken.last_run_id) == (1, 1, other)
    await failures.fail(jobs[1])
    await failures.fail(jobs[2])
    refused = next(each for each in await failures.groups() if each.id == REFUSED)
    assert (refused.runs, refused.jobs) == (5, 3)
    again = next(each for each in await failures.later() if each.id == REFUSED)
    assert (again.runs, again.jobs) == (5, 3)  # a signal counts once


async def test_tries_that_are_repeated_do_not_count(failures: Failures, database: Database) -> None:
    await failures.fail(await add_job(database), kind=AlarmKind.TRY_FAILED)
    assert await failures.groups() == []


async def test_a_group_is_resolved_when_all_its_jobs_have_succeeded(
    failures: Failures, database: Database
) -> None:
    one, two = await add_job(database, name="one"), await add_job(database, name="two")
    await failures.fail(one)
    await failures.fail(two)
    await failures.groups()
    failures.stage.clock.advance(1)
    await failures.stage.succeed(one)
    [group] = await failures.later()
    assert group.resolved_at is None
    jobs = await database.read(lambda conn: groups.newest_jobs(conn, REFUSED, limit=9))
    assert {each.job_id: each.is_over for each in jobs} == {one: True, two: False}
    await failures.fail(one)  # it fails again, and is waited for again
    await failures.stage.succeed(two)
    [group] = await failures.later()
    assert (group.resolved_at, group.runs) == (None, 3)
    failures.stage.clock.advance(1)
    await failures.stage.succeed(one)
    [group] = await failures.later()
    assert (group.resolved_at, group.resolved_by) == (failures.stage.clock.now, None)
    assert await database.read(lambda conn: groups.page_groups(conn, limit=9)) == []


async def test_a_retry_by_hand_resolves_what_it_made_good(
    failures: Failures, database: Database
) -> None:
    job = await add_job(database)
    failed = await failures.fail(job)
    await failures.groups()
    link = {"run_id": failed, "retry_id": 77, "scheduled_at": 1, "state": "succeeded"}
    await database.run(lambda c: c.execute(sa.insert(tables.run_retry).values(link)).close())
    [group] = await failures.later()
    assert group.is_resolved


async def test_jobs_that_are_gone_are_not_waited_for(
    failures: Failures, database: Database
) -> None:
    job = await add_job(database)
    await failures.fail(job)
    await failures.groups()
    await change(database, tables.job, job, deleted_at=failures.stage.clock.now)
    [group] = await failures.later()
    assert group.is_resolved


async def test_the_same_failure_again_opens_a_resolved_group_anew(
    failures: Failures, database: Database
) -> None:
    one, two = await add_job(database, name="one"), await add_job(database, name="two")
    await failures.fail(one)
    [group] = await failures.groups()

    def resolve(conn: sa.Connection) -> None:
        groups.lock_groups(conn, [REFUSED])
        groups.change_group(conn, REFUSED, owner="ann", notes="call 4711")
        groups.resolve_group(conn, REFUSED, by="ann", now=group.last_at)

    await database.run(resolve)
    failures.stage.clock.advance(60)
    await failures.fail(two)
    [group] = await failures.groups()
    assert (group.runs, group.jobs, group.first_job_id, group.returns) == (1, 1, two, 1)
    assert (group.since, group.is_resolved) == (failures.stage.clock.now, False)
    assert (group.owner, group.notes, group.resolved_by) == ("ann", "call 4711", None)
    jobs = await database.read(lambda conn: groups.newest_jobs(conn, REFUSED, limit=9))
    assert [each.job_id for each in jobs] == [two]


async def test_more_jobs_than_one_look_takes_are_all_looked_at(
    failures: Failures, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.engine.alarms.failure_groups.JOBS_PER_LOOK", 2)
    jobs = [await add_job(database, name=f"job {n}") for n in range(5)]
    for job in jobs:
        await failures.fail(job)
    await failures.groups()
    failures.stage.clock.advance(1)
    for job in jobs:
        await failures.stage.succeed(job)
    await failures.later()
    for _ in range(2):  # each pass looks at some
        [group] = await failures.groups()
    assert group.is_resolved


async def test_jobs_that_fail_alike_open_one_alarm(failures: Failures, database: Database) -> None:
    stage = failures.stage
    jobs = [await add_job(database, name=f"job {n}") for n in range(40)]
    await stage.alarms.rule(AlarmKind.FAILED, await stage.alarms.channel())
    await failures.fail(jobs[0])
    assert await stage.alarms.tell() == [[("opened", "job 0")]]
    stage.clock.advance(120)
    for job in jobs[1:]:
        newest = await failures.fail(job)
    await stage.alarms.evaluate()
    await stage.alarms.deliver()
    [message] = stage.alarms.provider.taken
    assert stage.alarms.provider.told() == [[("opened", "job 39")]]
    assert message.entries[0].failure == "bank-gw refused"
    assert message.entries[0].links["failure"].endswith(f"/alarms/failures/{REFUSED}")
    assert (message.entries[0].before_template, message.entries[0].next_fire_at) == ("", None)
    of_group, of_job = sorted(await stage.alarms.open(), key=lambda each: each.subject)
    assert (of_job.subject, of_job.count) == (f"job:{jobs[0]}", 1)
    assert (of_group.failure_group_id, of_group.count) == (REFUSED, 39)
    assert (of_group.run_id, of_group.job_id) == (newest, jobs[39])
    assert of_group.told.template == "%(runs)d runs of %(jobs)d jobs failed alike: %(error)s"
    assert dict(of_group.told.params) == {
        "job": "job 39",
        "runs": 40,
        "jobs": 40,
        "error": "bank-gw refused",
        "failure_group": REFUSED,
    }


async def test_jobs_that_join_an_open_failure_are_told_once_a_while(
    failures: Failures, database: Database
) -> None:
    stage = failures.stage
    jobs = [await add_job(database, name=f"job {n}") for n in range(5)]
    await stage.alarms.rule(AlarmKind.FAILED, await stage.alarms.channel())
    for job in jobs[:2]:
        await failures.fail(job)
    assert await stage.alarms.tell() == [[("opened", "job 1")]]
    await failures.fail(jobs[0])
    assert await stage.after(901) == []  # it failed before
    await failures.fail(jobs[2])
    assert await stage.alarms.tell() == []
    await failures.fail(jobs[3])
    assert await stage.after(600) == []
    assert await stage.after(301) == [[("repeated", "job 3")]]
    assert await stage.after(901) == []
    await stage.succeed(jobs[0])
    assert await stage.after(11) == []
    await failures.fail(jobs[0])  # it fails again, as it did not for a while
    assert await stage.alarms.tell() == []
    assert await stage.after(901) == [[("repeated", "job 0")]]
    [alarm] = await stage.alarms.open()
    await database.run(acknowledge_alarm, alarm.id, by="ann", now=stage.clock.now)
    await failures.fail(jobs[4])
    assert await stage.alarms.tell() == []
    assert await stage.after(901) == []  # somebody looks after it


async def test_rules_about_one_job_hear_of_the_job(failures: Failures, database: Database) -> None:
    alarms = failures.stage.alarms
    jobs = [await add_job(database, name=f"job {n}") for n in range(3)]
    await change(database, tables.job, jobs[1], tags="t1")
    everywhere = await alarms.rule(AlarmKind.FAILED)
    tagged = await alarms.rule(AlarmKind.FAILED, scope=RuleScope.TAG, tag="t1", additional=True)
    near = await alarms.rule(AlarmKind.FAILED, scope=RuleScope.JOB, job_id=jobs[2])
    for job in jobs:
        await failures.fail(job)
    await failures.groups()
    assert {(each.rule_id, each.subject, each.count) for each in await alarms.open()} == {
        (everywhere, f"failure:{REFUSED}", 2),
        (tagged, f"failure:{REFUSED}", 1),
        (near, f"job:{jobs[2]}", 1),
    }
    alarm = next(each for each in await alarms.open() if each.rule_id == near)
    assert alarm.told.template.startswith("“%(job)s” failed, as %(runs)d runs")


async def test_the_alarm_of_a_failure_is_over_when_all_its_jobs_work_again(
    failures: Failures, database: Database
) -> None:
    stage = failures.stage
    one, two = await add_job(database, name="one"), await add_job(database, name="two")
    await stage.alarms.rule(AlarmKind.FAILED, await stage.alarms.channel())
    await failures.fail(one)
    await failures.fail(two)
    assert await stage.alarms.tell() == [[("opened", "two")]]
    await change(database, tables.job, two, deleted_at=stage.clock.now)
    assert await stage.after(11) == []  # one of them is gone, the other fails still
    assert len(await stage.alarms.open()) == 1
    stage.clock.advance(1)
    await stage.succeed(one)
    await stage.after(11)  # the failure is resolved by one pass, and its alarm by the next
    stage.alarms.provider.told()
    await stage.after(60)
    assert await stage.alarms.open() == []


async def test_the_alarm_of_a_failure_does_not_stay_for_the_one_that_comes_next(
    failures: Failures, database: Database
) -> None:
    stage = failures.stage
    one, two = await add_job(database, name="one"), await add_job(database, name="two")
    await stage.alarms.rule(AlarmKind.FAILED)
    await failures.fail(one)
    await failures.fail(two)
    [group] = await failures.groups()
    resolve = lambda conn: groups.resolve_group(conn, REFUSED, by="ann", now=group.last_at)  # noqa: E731
    await database.run(resolve)
    stage.clock.advance(1)
    await failures.fail(one)
    await failures.later()
    assert [each.subject for each in await stage.alarms.open()] == [f"job:{one}"]


async def test_alarms_say_nothing_of_a_muted_group_until_the_mute_ends(
    failures: Failures, database: Database
) -> None:
    job = await add_job(database)
    await failures.fail(job)
    [group] = await failures.groups()
    await failures.stage.alarms.rule(AlarmKind.FAILED)

    def mute(conn: sa.Connection) -> None:
        groups.lock_groups(conn, [REFUSED])
        groups.change_group(conn, REFUSED, muted_until=group.last_at + 60_000)

    await database.run(mute)
    failures.stage.clock.advance(30)
    await failures.fail(job)
    [group] = await failures.groups()
    assert group.runs == 2  # it is counted still
    assert await failures.stage.alarms.open() == []
    await failures.fail(job, BROKEN)  # another failure of the same job is told of
    await failures.groups()
    assert len(await failures.stage.alarms.open()) == 1
    failures.stage.clock.advance(30)
    await failures.fail(job)
    await failures.groups()
    [alarm] = await failures.stage.alarms.open()
    assert alarm.count == 2


async def test_old_resolved_groups_are_deleted_with_their_jobs(
    failures: Failures, database: Database
) -> None:
    job = await add_job(database)
    await failures.fail(job)
    await failures.fail(job, BROKEN)
    await failures.groups()
    now = failures.stage.clock.now
    resolve = lambda conn: groups.resolve_group(conn, REFUSED, by=None, now=now)  # noqa: E731
    await database.run(resolve)
    assert await database.run(groups.remove_old_groups, before=now, limit=9) == 0
    assert await database.run(groups.remove_old_groups, before=now + 1, limit=9) == 1
    left = await database.read(lambda conn: conn.execute(sa.select(tables.failure_group_job)).all())
    assert [row.group_id for row in left] == [BROKEN]
