"""Edits against planners at work: no fire is lost, none happens twice, none in a wrong version."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from tests.admin.kit.services import ADMIN, JOB, World
from tickwheel_admin.engine.planner.loop import Planner
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs

pytestmark = pytest.mark.every_database

EVERY_MS = 100
EDITS = 40
TRIGGER = {"kind": "fixed_rate", "every_seconds": EVERY_MS / 1_000, "anchor_at": 0}


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    """With two admins' planners at work."""
    stopped = asyncio.Event()

    async def plan(admin_id: int) -> None:
        planner = Planner(
            world.database,
            Ids(world.database),
            world.events,
            admin_id=admin_id,
            random=random.Random(admin_id),
            configs=JobConfigs(),
        )
        while not stopped.is_set():
            await planner.run_once()
            await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as loops:
        for admin_id in (1, 2):
            loops.create_task(plan(admin_id))
        yield world
        stopped.set()


async def test_edits_between_plans_leave_every_instant_once(world: World) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"triggers": [TRIGGER]})
    first_at = world.triggers_of_job(job_id)[0].next_fire_at
    for edit in range(EDITS):
        raw = JOB | {"triggers": [TRIGGER], "owner": f"edit {edit}"}
        assert await world.jobs.update(ADMIN, job_id, raw, revision=edit + 1) == edit + 2
        await asyncio.sleep(0.03)
    await _until_planned(world, job_id)
    runs = world.runs_of_job(job_id)
    instants = [row.scheduled_at for row in runs]
    # The fixture's first instant may have been planned before it was read.
    assert instants[0] <= first_at
    assert instants == list(range(instants[0], instants[-1] + 1, EVERY_MS))
    assert {row.state for row in runs} == {"queued"}
    revisions = [row.job_revision for row in runs]
    assert revisions == sorted(revisions)
    assert revisions[-1] == EDITS + 1
    assert len(set(revisions)) > 3


async def test_pausing_stops_at_once_and_resuming_starts_behind_it(world: World) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"triggers": [TRIGGER]})
    for _ in range(10):
        await _until_planned(world, job_id)
        await world.jobs.pause(ADMIN, job_id)
        paused = world.runs_of_job(job_id)
        assert all(row.scheduled_at <= world.now for row in paused)
        await asyncio.sleep(0.05)
        assert world.runs_of_job(job_id) == paused
        await world.jobs.resume(ADMIN, job_id)
    await _until_planned(world, job_id)
    instants = [row.scheduled_at for row in world.runs_of_job(job_id)]
    assert len(set(instants)) == len(instants)
    assert {at % EVERY_MS for at in instants} == {0}


async def test_a_changed_trigger_takes_over_without_a_gap(world: World) -> None:
    """The old one fires up to the edit, the new one from the edit on."""
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"triggers": [TRIGGER]})
    for edit in range(20):
        misfire = ("fire_once", "skip")[edit % 2]
        raw = JOB | {"triggers": [TRIGGER | {"misfire": misfire}], "owner": f"edit {edit}"}
        await world.jobs.update(ADMIN, job_id, raw, revision=edit + 1)
        await asyncio.sleep(0.05)
    await _until_planned(world, job_id)
    runs = world.runs_of_job(job_id)
    instants = [row.scheduled_at for row in runs]
    assert instants == list(range(instants[0], instants[-1] + 1, EVERY_MS))
    assert len({row.trigger_id for row in runs}) > 3


async def _until_planned(world: World, job_id: int) -> None:
    """Wait until fires behind the present instant are in the ledger."""
    deadline = asyncio.get_running_loop().time() + 20
    while asyncio.get_running_loop().time() < deadline:
        runs = world.runs_of_job(job_id)
        if runs and runs[-1].scheduled_at > world.now:
            return
        await asyncio.sleep(0.02)
    raise TimeoutError("nothing was planned")
