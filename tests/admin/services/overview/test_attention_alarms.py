"""Open alarms among what needs attention: one row for one matter, and few rows for many alarms."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tests.admin.store.alarms.test_alarms import alarm
from tickwheel_admin.console.overview.attention_labels import concern_rows
from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.runs.error import RunError
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.overview.attention.service import Attention, Concern
from tickwheel_admin.store.alarms import alarms as store
from tickwheel_admin.store.alarms.attention import open_groups
from tickwheel_admin.store.database.tables import node, run, run_error
from tickwheel_admin.store.failures import groups
from tickwheel_admin.store.failures.groups import GroupJob
from tickwheel_admin.store.runs.errors import insert_errors

MINUTE = 60_000


async def rows(world: World, actor: Any = ADMIN) -> list[Concern]:
    return await Attention(world.database).get(actor)


async def add(world: World, *new: Alarm) -> None:
    await world.database.run(store.insert_alarms, new)


async def failing_job(world: World, executor_id: int, name: str) -> int:
    """A job whose last three runs failed."""
    world.node(executor_id)
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"name": name})
    run = {"executor_id": executor_id, "job_id": job_id, "state": "failed"}
    world.add_runs(
        run | {"scheduled_at": (at := world.now - n * MINUTE), "started_at": at, "ended_at": at}
        for n in (3, 2, 1)
    )
    return job_id


@pytest.mark.every_database
async def test_a_concern_and_the_alarms_about_it_are_one_row(
    world: World, executor_id: int
) -> None:
    job_id = await failing_job(world, executor_id, "bills")
    of_job: dict[str, Any] = {"executor_id": executor_id, "job_id": job_id, "since": 1}
    of_job["subject"] = f"job:{job_id}"
    await add(
        world,
        alarm(1, **of_job),
        alarm(2, rule_id=2, kind=AlarmKind.FAILING_STREAK, **of_job),
        # Other matters: what else is the matter with the job, and another job.
        alarm(3, rule_id=3, kind=AlarmKind.STARTED_LATE, **of_job | {"severity": Severity.WARNING}),
        alarm(4, **of_job | {"subject": "job:999", "job_id": None}),
    )
    failing, other, late = await rows(world)
    assert (failing.kind, failing.alarms) == (AlarmKind.FAILING_STREAK, 2)
    assert failing.alarm is not None
    assert (late.kind, late.alarms, late.is_told_by_alarm) == (AlarmKind.STARTED_LATE, 1, True)
    assert (other.kind, other.alarm and other.alarm.id) == (AlarmKind.FAILED, 4)
    # A row is only looked after when all its alarms are; then it comes last.
    await world.database.run(store.acknowledge_alarm, 1, by="olga", now=world.now)
    assert (await rows(world))[0].alarms == 2
    await world.database.run(store.acknowledge_alarm, 2, by="olga", now=world.now)
    last = (await rows(world))[-1]
    assert (last.alarms, last.alarm and last.alarm.acknowledged_by) == (2, "olga")
    await world.database.run(store.close_alarms, [1, 2, 3, 4], now=world.now)
    (alone,) = await rows(world)
    assert (alone.kind, alone.alarm, alone.alarms) == (AlarmKind.FAILING_STREAK, None, 0)


async def test_an_outage_is_few_rows_whose_numbers_are_right(
    world: World, executor_id: int
) -> None:
    job_id = await failing_job(world, executor_id, "bills")
    of_it = {"executor_id": executor_id}
    await add(
        world,
        alarm(1, job_id=job_id, subject=f"job:{job_id}", **of_it),
        *(alarm(n, last_at=world.now - n, **of_it) for n in range(10_000, 13_000)),
        *(alarm(n, kind=AlarmKind.LOST, executor_id=n) for n in range(20_000, 20_300)),
        *(alarm(n, kind=AlarmKind.SLOW, executor_id=5) for n in range(30_000, 30_003)),
    )
    found = await rows(world)
    assert sum(each.alarms for each in found) == 3_304
    told = [(each.kind.value, each.alarms, each.executor_id) for each in found]
    assert sorted(told, key=str) == sorted(
        [
            ("failing_streak", 1, executor_id),
            ("failed", 3_000, executor_id),
            ("lost", 300, None),
            *[("slow", 1, 5)] * 3,
        ],
        key=str,
    )
    texts = {row.subject: (row.text, row.href) for row in concern_rows(found)}
    assert texts["billing"] == (
        "Run failed · 3,000 open alarms",
        f"/alarms?kind=failed&executor={executor_id}",
    )
    assert texts["Run lost"] == ("300 open alarms of 300 executors", "/alarms?kind=lost")
    assert len({row.key for row in concern_rows(found)}) == len(found)


async def test_alarms_of_other_executors_are_neither_told_nor_counted(
    world: World, executor_id: int
) -> None:
    await add(
        world,
        alarm(1, executor_id=executor_id),
        *(alarm(n, executor_id=executor_id + 1) for n in range(2, 9)),
        alarm(9, executor_id=None, job_id=None, subject="admin:1", kind=AlarmKind.ADMIN_GONE),
    )
    viewer = actor_with(Role.VIEWER, executor_id)
    assert [each.alarms for each in await rows(world, viewer)] == [1]
    assert sum(each.alarms for each in await rows(world)) == 9
    (group,) = await world.database.read(open_groups, executor_ids=[executor_id])
    assert (group.kind, group.count) == (AlarmKind.FAILED, 1)


async def test_alarms_are_listed_by_kind(world: World, executor_id: int) -> None:
    await add(
        world,
        *(alarm(n, executor_id=executor_id, last_at=n) for n in range(1, 6)),
        alarm(9, executor_id=executor_id, kind=AlarmKind.LOST),
    )
    lost = await world.database.read(store.page_alarms, kind=AlarmKind.LOST, limit=9)
    assert [each.id for each in lost] == [9]
    page = await world.database.read(
        store.page_alarms, kind=AlarmKind.FAILED, before=(4, 4), limit=2
    )
    assert [each.id for each in page] == [3, 2]


async def test_jobs_that_fail_alike_are_one_row(world: World, executor_id: int) -> None:
    jobs = [await failing_job(world, executor_id, f"job {n}") for n in range(4)]
    for job_id in jobs[:3]:
        await fails_with(world, job_id, 11)
    group = FailureGroup(
        id=11,
        executor_id=executor_id,
        text="bank-gw refused",
        since=world.now - 3 * MINUTE,
        last_at=world.now - MINUTE,
        runs=43,
        jobs=3,
        first_run_id=5,
        first_job_id=jobs[0],
        first_revision=1,
        first_node_id=None,
        last_run_id=7,
    )
    of_it: dict[str, Any] = {"executor_id": executor_id, "since": 1}
    await world.database.run(groups.insert_groups, [group])
    await world.database.run(
        lambda conn: groups.write_jobs(
            conn,
            [
                GroupJob(group_id=11, job_id=job_id, runs=3, last_run_id=7, last_at=world.now)
                for job_id in jobs[:3]
            ],
            [],
        )
    )
    await add(
        world,
        alarm(1, subject=f"job:{jobs[0]}", job_id=jobs[0], **of_it),
        alarm(2, subject="failure:11", job_id=jobs[2], **of_it),
        alarm(3, rule_id=3, subject="failure:12", job_id=jobs[2], **of_it),
    )
    found = {(each.kind, each.job_id): each for each in await rows(world)}
    alike, other, alone = (
        found[AlarmKind.FAILED, None],
        found[AlarmKind.FAILED, jobs[2]],
        found[AlarmKind.FAILING_STREAK, jobs[3]],
    )
    assert len(found) == 3
    assert (alike.failure, alike.alarms) == (group, 2)
    assert (other.is_told_by_alarm, alone.alarms) == (True, 0)
    [row] = concern_rows([alike])
    assert row.text == "bank-gw refused: 43 runs of 3 jobs"
    assert row.href == "/alarms/failures/11"
    await world.database.run(
        lambda conn: groups.change_group(conn, 11, acknowledged_by="ana", acknowledged_at=1)
    )
    assert (await rows(world))[-1].failure is not None  # somebody looks after it
    # One that is long ago is told by the job that fails still.
    await world.database.run(
        lambda conn: groups.change_group(conn, 11, last_at=world.now - 25 * 60 * MINUTE)
    )
    assert (await rows(world))[-1].failure is not None  # several jobs fail so still
    for job_id in jobs[1:3]:
        await fails_with(world, job_id, None)
    assert not any(each.failure for each in await rows(world))


async def fails_with(world: World, job_id: int, error_id: int | None) -> None:
    """All runs of the job failed with this error."""

    def write(conn: sa.Connection) -> None:
        if error_id is not None and not conn.execute(sa.select(run_error.c.id)).first():
            error = RunError(id=error_id, executor_id=1, text="bank-gw refused")
            insert_errors(conn, [error])
        conn.execute(sa.update(run).where(run.c.job_id == job_id).values(error_id=error_id))

    await world.database.run(write)


async def test_a_failure_tells_where_it_began(world: World, executor_id: int) -> None:
    job_id = await failing_job(world, executor_id, "bills")
    edited = JOB | {"name": "bills", "timeout_seconds": 7}
    await world.jobs.update(ADMIN, job_id, edited, revision=1)
    [node_id] = world.database.read_sync(lambda c: list(c.execute(sa.select(node.c.id)).scalars()))
    group = FailureGroup(
        id=11,
        executor_id=executor_id,
        text="bank-gw refused",
        since=world.now,
        last_at=world.now,
        runs=43,
        jobs=3,
        first_run_id=5,
        first_job_id=job_id,
        first_revision=2,
        first_node_id=node_id,
        last_run_id=7,
    )
    await world.database.run(groups.insert_groups, [group])
    found = next(each for each in await rows(world) if each.failure is not None)
    assert found.template.endswith("first on %(node)s after revision %(revision)d of “%(job)s”")
    assert (found.params["revision"], found.params["job"]) == (2, "bills")
    await world.database.run(
        lambda c: groups.change_group(c, 11, since=world.now + 24 * 60 * MINUTE)
    )
    found = next(each for each in await rows(world) if each.failure is not None)
    assert "revision" not in found.params  # the revision was there for a day before
