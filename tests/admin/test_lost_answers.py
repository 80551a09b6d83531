"""Edits whose commit succeeded although its answer never came answer truthfully when repeated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.admin.kit import GOOD_PASSWORD, cheap_passwords
from tests.admin.world import ADMIN, JOB, World
from tests.support.lost_answers import LosingAnswers
from tickwheel_admin.domain.user import Role
from tickwheel_admin.services.executors import Executors
from tickwheel_admin.services.jobs import Jobs
from tickwheel_admin.services.nodes import Nodes
from tickwheel_admin.services.people import COMMAND_LINE, People
from tickwheel_admin.services.system import System
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


async def test_executors(world: World, losing: LosingAnswers) -> None:
    executors = Executors(losing, Ids(world.database), world.events)
    new = await executors.create(ADMIN, name="billing")
    assert (await executors.rotate_token(ADMIN, new.id)).name == "billing"
    losing.between = lambda: world.change(sa.update(tables.executor).values(paused_at=None))
    await executors.pause(ADMIN, new.id)
    assert (await executors.get(ADMIN, new.id)).item.paused_at is None
    await executors.delete(ADMIN, new.id)
    assert losing.lost == 4


async def test_nodes_and_everything(world: World, losing: LosingAnswers) -> None:
    ids = Ids(world.database)
    node_id = world.node(await world.executor())
    losing.between = lambda: world.change(sa.update(tables.node).values(cordoned=False))
    await Nodes(losing, ids, world.events).cordon(ADMIN, node_id)
    assert [bool(row.cordoned) for row in world.rows(sa.select(tables.node.c.cordoned))] == [False]
    losing.between = lambda: world.change(sa.delete(tables.setting))
    system = System(losing, ids, world.events)
    await system.pause_all(ADMIN)
    assert await system.paused_at() is None
    assert losing.lost == 2


async def test_people(world: World, losing: LosingAnswers) -> None:
    people = People(losing, Ids(world.database), passwords=cheap_passwords())
    try:
        first = await people.ensure_first_admin()
        assert first is not None
        one_time = await people.add_user(COMMAND_LINE, "bob", role=Role.VIEWER)
        token = await people.create_api_token(COMMAND_LINE, "bob", name="ci")
        actor = await people.actor_of_token(token, address="")
        assert actor is not None
        session = await people.login("bob", one_time, address="192.0.2.1", user_agent="")
        assert session.must_change_password
        changed = await people.change_password(
            actor, session.cookie, old=one_time, new=GOOD_PASSWORD
        )
        assert await people.session(changed.cookie) is not None
        await people.reset_password(COMMAND_LINE, "bob")
        losing.between = lambda: world.change(sa.update(tables.user).values(disabled=False))
        await people.set_disabled(COMMAND_LINE, "bob", disabled=True)
        assert not any(each.disabled for each in await people.people(COMMAND_LINE))
    finally:
        people.close()
    assert losing.lost == 7
