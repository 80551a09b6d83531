"""Edits whose commit succeeded although its answer never came answer truthfully when repeated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.admin.world import ADMIN, JOB, World
from tests.support.lost_answers import LosingAnswers
from tickwheel_admin.services.jobs import Jobs
from tickwheel_admin.store import tables
from tickwheel_admin.store.ids import Ids

EVERY_10 = {"kind": "fixed_rate", "every_seconds": 10, "anchor_at": 0}


@pytest.fixture
def world(sqlite_url: str) -> Iterator[World]:
    world = World(sqlite_url)
    yield world
    world.close()


@pytest.fixture
def losing(world: World) -> LosingAnswers:
    return LosingAnswers(world.database)


@pytest.fixture
def jobs(world: World, losing: LosingAnswers) -> Jobs:
    return Jobs(losing, Ids(world.database), world.events)


async def test_jobs(world: World, losing: LosingAnswers, jobs: Jobs) -> None:
    executor_id = await world.executor()
    job_id = await jobs.create(ADMIN, executor_id, JOB | {"triggers": [EVERY_10]})
    assert [row.id for row in world.rows(sa.select(tables.job.c.id))] == [job_id]
    assert len(world.triggers_of_job(job_id)) == 1
    assert await jobs.update(ADMIN, job_id, JOB | {"owner": "x"}, revision=1) == 2
    assert [row.revision for row in world.rows(sa.select(tables.job.c.revision))] == [2]
    run_id = await jobs.run_now(ADMIN, job_id)
    assert [row.id for row in world.runs_of_job(job_id)] == [run_id]
    await jobs.delete(ADMIN, job_id)
    assert losing.lost == 4
    assert [action for action, _ in world.audit()] == [
        "executor.created",
        "job.created",
        "job.updated",
        "run.requested",
        "job.deleted",
    ]


async def test_a_pause_that_somebody_ended_meanwhile_is_not_done_again(
    world: World, losing: LosingAnswers, jobs: Jobs
) -> None:
    job_id = await jobs.create(ADMIN, await world.executor(), JOB)
    losing.between = lambda: world.change(sa.update(tables.job).values(paused=False))
    await jobs.pause(ADMIN, job_id)
    assert not (await jobs.get(ADMIN, job_id)).item.job.paused
    assert [action for action, _ in world.audit()].count("job.paused") == 1


async def test_a_run_asked_for_just_before_its_job_was_deleted(
    world: World, losing: LosingAnswers, jobs: Jobs
) -> None:
    job_id = await jobs.create(ADMIN, await world.executor(), JOB)
    losing.between = lambda: world.change(sa.update(tables.job).values(deleted_at=1))
    run_id = await jobs.run_now(ADMIN, job_id)
    assert [row.id for row in world.runs_of_job(job_id)] == [run_id]
