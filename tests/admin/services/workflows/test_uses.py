"""Which workflows are told of before a job or an executor is deleted."""

from __future__ import annotations

import asyncio

import pytest

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import TooMany
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.lists.heavy_reads import MAX_OF_USER
from tickwheel_admin.services.workflows.uses import WorkflowsUsing, WorkflowUses


def told(uses: WorkflowsUsing) -> tuple[list[str], int]:
    return [f"{each.executor_name}/{each.name}" for each in uses.shown], uses.others


async def test_workflows_are_found_by_their_jobs_and_by_where_their_steps_run(world: World) -> None:
    own, other, third = [await world.executor(name) for name in ("own", "other", "third")]
    job_id = await world.jobs.create(ADMIN, other, JOB)
    flows = {
        "runs-it": (own, {"job": job_id}),
        "beside-it": (other, {"job": job_id}),
        "handler": (own, {"handler": "h", "executor": other}),
        "theirs": (third, {"handler": "h", "executor": other}),
        "alone": (own, {"handler": "h"}),
    }
    for name, (executor_id, step) in flows.items():
        workflow = {"steps": [{"key": "a"} | step]}
        await world.jobs.create(ADMIN, executor_id, {"name": name, "workflow": workflow})
    uses = WorkflowUses(world.database)

    assert told(await uses.of_job(ADMIN, job_id)) == (["other/beside-it", "own/runs-it"], 0)
    assert told(await uses.of_executor(ADMIN, other)) == (
        ["own/handler", "own/runs-it", "third/theirs"],
        0,
    )
    some = actor_with(Role.ADMIN, own, other)
    assert told(await uses.of_executor(some, other)) == (["own/handler", "own/runs-it"], 1)
    assert told(await uses.of_executor(ADMIN, own)) == ([], 0)


async def test_few_looks_are_made_at_once(world: World) -> None:
    executor_id = await world.executor("own")
    uses = WorkflowUses(world.database)
    async with uses._heavy.turn(ADMIN.user_id):
        waiting = [asyncio.create_task(uses.of_job(ADMIN, 1)) for _ in range(MAX_OF_USER - 1)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany):
            await uses.of_job(ADMIN, 1)
        with pytest.raises(TooMany):
            await uses.of_executor(ADMIN, executor_id)
    assert [told(each) for each in await asyncio.gather(*waiting)] == [([], 0)] * len(waiting)
