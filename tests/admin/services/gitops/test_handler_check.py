"""What a new version of a service would break: jobs, steps of workflows and queued runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.gitops import handler_check
from tickwheel_admin.services.gitops.handler_check import check_handlers

TAKES_BATCH: dict[str, Any] = {
    "type": "object",
    "properties": {"batch": {"type": "integer"}},
    "required": ["batch"],
    "additionalProperties": False,
}


async def breaks(world: World, executor: int, handlers: dict[str, Any]) -> list[tuple[str, ...]]:
    found = await check_handlers(world.database, ADMIN, executor, handlers)
    return sorted(
        (each.what.value, each.job_name, each.problem.field, each.problem.code)
        for each in found.breaks
    )


@pytest.mark.every_database
async def test_jobs_steps_and_queued_runs_that_would_fail_are_named(world: World) -> None:
    executor = await world.executor()
    daily = [{"kind": "cron", "expression": "0 9 * * *"}]
    fine = await world.jobs.create(ADMIN, executor, JOB | {"parameters": {"batch": 1}})
    bad = JOB | {"name": "bad", "parameters": {"size": 1}, "triggers": daily}
    await world.jobs.create(ADMIN, executor, bad)
    step = {"key": "a", "handler": "send-invoices", "parameters": {"x": "${parameters.y}"}}
    flow = {"name": "flow", "parameters": {"y": 1}, "workflow": {"steps": [step]}}
    await world.jobs.create(ADMIN, executor, flow)
    await world.jobs.run_now(ADMIN, fine, parameters='{"batch": "many"}')
    assert await breaks(world, executor, {"send-invoices": None}) == []
    told = await breaks(world, executor, {"send-invoices": TAKES_BATCH})
    assert {each[:2] for each in told} == {
        ("job", "bad"),
        ("run", "invoices"),
        ("step", told[-1][1]),
    }
    assert ("job", "bad", "parameters.size", "unknown_field") in told
    gone = await breaks(world, executor, {"other": None})
    assert {(each[0], each[3]) for each in gone} == {
        ("job", "handler.gone"),
        ("step", "handler.gone"),
        ("run", "handler.gone"),
    }


async def test_queued_runs_of_any_number_are_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_check, "RUNS_AT_ONCE", 2)
    executor = await world.executor()
    job = await world.jobs.create(ADMIN, executor, JOB | {"parameters": {"batch": 1}})
    for _ in range(5):
        await world.jobs.run_now(ADMIN, job)
    await world.jobs.run_now(ADMIN, job, parameters='{"batch": "many"}')
    found = await check_handlers(world.database, ADMIN, executor, {"send-invoices": TAKES_BATCH})
    assert (found.runs, len(found.breaks)) == (6, 1)
    monkeypatch.setattr(handler_check, "MAX_BREAKS", 3)
    gone = await check_handlers(world.database, ADMIN, executor, {})
    assert (gone.runs, len(gone.breaks)) == (2, 3)  # a job, and two runs: no more are told


async def test_who_may_not_see_the_executor_learns_nothing(world: World) -> None:
    executor = await world.executor()
    stranger = actor_with(Role.VIEWER, executor + 1)
    with pytest.raises(NotFound):
        await check_handlers(world.database, stranger, executor, {})
    deep: Any = {}
    for _ in range(500):
        deep = {"properties": deep}
    with pytest.raises(InvalidInput, match="too deeply"):
        await check_handlers(world.database, ADMIN, executor, {"x": deep})
