"""What-if as a use case: what it reads, who may ask, and what becomes of its process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import sqlalchemy as sa
import structlog

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tests.support.polling import wait_until_async
from tickwheel_admin.domain.errors import InvalidInput, NotAllowed, NotFound, Unavailable
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.forecast import process
from tickwheel_admin.services.forecast.process import ForecastProcesses
from tickwheel_admin.services.forecast.service import Forecasts, WhatIf
from tickwheel_admin.store.database import tables

HOURLY = {"kind": "cron", "expression": "0 * * * *"}


@pytest.fixture
async def processes() -> AsyncIterator[ForecastProcesses]:
    processes = ForecastProcesses()
    yield processes
    processes.close()


@pytest.fixture
def forecasts(world: World, processes: ForecastProcesses) -> Forecasts:
    return Forecasts(world.database, world.jobs, processes=processes)


async def hourly_job(world: World, executor_id: int, **changes: Any) -> int:
    config = {**JOB, "triggers": [HOURLY], **changes}
    return await world.jobs.create(ADMIN, executor_id, config)


def told(found: WhatIf) -> tuple[int, int]:
    return found.comparison.before.fires, found.comparison.after.fires


async def test_each_kind_of_change_is_compared(world: World, forecasts: Forecasts) -> None:
    executor_id = await world.executor()
    node_id = world.node(executor_id, slots=4)
    await world.calendars.create(ADMIN, {"name": "never", "weekdays": []})
    job_id = await hourly_job(world, executor_id)
    await hourly_job(world, executor_id, name="b", triggers=[{**HOURLY, "calendar": "never"}])
    every_day = {"name": "never", "windows": [{"from_time": "00:00", "to_time": "23:59"}]}
    edited = {**JOB, "triggers": [{"kind": "cron", "expression": "30 */2 * * *"}]}

    async def ask(**change: Any) -> WhatIf:
        return await forecasts.what_if(ADMIN, [change], hours=24)

    paused = await ask(kind="job_pause", job_id=job_id, paused=True)
    assert told(paused) == (48, 24)
    assert paused.job_names[job_id] == "invoices"
    assert paused.comparison.basis.assumed_jobs == 2
    assert told(await ask(kind="executor_pause", executor_id=executor_id, paused=True)) == (48, 0)
    assert told(await ask(kind="calendar", calendar=every_day)) == (48, 24)
    assert told(await ask(kind="job", job_id=job_id, config=edited)) == (48, 36)
    drained = await ask(kind="node", node_id=node_id, drain=True)
    assert (drained.comparison.before.slots, drained.comparison.after.slots) == (4, 0)
    assert sum(hour.waiting for hour in drained.comparison.after.hours) > 0
    smaller = await ask(kind="node", node_id=node_id, slots=1)
    assert smaller.comparison.after.slots == 1
    assert [row.paused for row in world.rows(sa.select(tables.job.c.paused))] == [False, False], (
        "nothing is saved"
    )


async def test_a_pool_and_a_new_job_are_compared_with_all_that_they_touch(
    world: World, forecasts: Forecasts
) -> None:
    one, other = await world.executor("one"), await world.executor("other")
    for executor_id in (one, other):
        world.node(executor_id, slots=4)
    pool_id = await world.pools.create(ADMIN, {"name": "warehouse", "slots": 2})
    await hourly_job(world, one, pool="warehouse")
    await hourly_job(world, other, pool="warehouse")
    closed = await forecasts.what_if(
        ADMIN, [{"kind": "pool", "pool_id": pool_id, "slots": 0}], hours=3
    )
    assert closed.executor_ids == (one, other)
    assert [each.before and each.before.started for each in closed.comparison.jobs] == [3, 3]
    assert [each.after and each.after.started for each in closed.comparison.jobs] == [0, 0]

    third = await world.executor("third")
    node_id = world.node(third, slots=1)
    config = {**JOB, "name": "new", "triggers": [HOURLY], "pool": "warehouse", "pool_slots": 2}
    found = await forecasts.what_if(
        ADMIN,
        [
            {"kind": "node", "node_id": node_id, "slots": 2},
            {"kind": "new_job", "executor_id": third, "config": config},
        ],
        hours=3,
    )
    assert found.executor_ids == (one, other, third), "they share the pool"
    (new_id,) = found.new_jobs
    assert found.job_names[new_id] == "new"
    assert [each.fires_new for each in found.comparison.jobs if each.job_id == new_id] == [3]
    assert found.comparison.after.most_waiting > found.comparison.before.most_waiting
    assert found.comparison.basis.assumed_jobs == 3
    assert world.rows(sa.select(tables.job.c.name).where(tables.job.c.executor_id == third)) == []
    assert [row.slots for row in world.rows(sa.select(tables.pool.c.slots))] == [2]


async def test_about_pools_and_new_jobs_only_those_may_ask_who_may_make_the_change(
    world: World, forecasts: Forecasts
) -> None:
    mine, theirs = await world.executor("mine"), await world.executor("theirs")
    for_all = await world.pools.create(ADMIN, {"name": "all", "slots": 2})
    of_mine = await world.pools.create(ADMIN, {"name": "own", "slots": 2, "executor": mine})
    of_theirs = await world.pools.create(ADMIN, {"name": "x", "slots": 2, "executor": theirs})
    new = {"kind": "new_job", "executor_id": mine, "config": JOB}

    async def ask(role: Role, **change: Any) -> WhatIf:
        return await forecasts.what_if(actor_with(role, mine), [change], hours=1)

    await ask(Role.DEVELOPER, **new)
    await ask(Role.DEVELOPER, kind="pool", pool_id=of_mine, slots=1)
    for role, change in (
        (Role.OPERATOR, new),
        (Role.OPERATOR, {"kind": "pool", "pool_id": of_mine, "slots": 1}),
        (Role.DEVELOPER, {"kind": "pool", "pool_id": for_all, "slots": 1}),
    ):
        with pytest.raises(NotAllowed):
            await ask(role, **change)
    for unseen in (
        {**new, "executor_id": theirs},
        {**new, "executor_id": 404},
        {"kind": "pool", "pool_id": of_theirs, "slots": 1},
        {"kind": "pool", "pool_id": 404, "slots": 1},
    ):
        with pytest.raises(NotFound):
            await ask(Role.DEVELOPER, **unseen)


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({}, "changes[0].kind", "required"),
        ({"kind": "storm"}, "changes[0].kind", "not_one_of"),
        ({"kind": "node", "job_id": 1}, "changes[0].job_id", "unknown_field"),
        ({"kind": "job_pause", "job_id": 1}, "changes[0].paused", "required"),
        ({"kind": "job", "job_id": 1}, "changes[0].config", "wrong_type"),
        (
            {"kind": "job", "job_id": 1, "config": {**JOB, "priority": 12}},
            "changes[0].config.priority",
            "out_of_range",
        ),
        ({"kind": "new_job", "executor_id": 1}, "changes[0].config", "wrong_type"),
        (
            {"kind": "new_job", "executor_id": 1, "config": {**JOB, "pool": "none"}},
            "changes[0].config.pool",
            "pool.unknown",
        ),
        ({"kind": "pool", "pool_id": 1}, "changes[0].slots", "required"),
        ({"kind": "pool", "pool_id": 1, "slots": 10_001}, "changes[0].slots", "out_of_range"),
        (
            {"kind": "calendar", "calendar": {"name": "x"}},
            "changes[0].calendar.name",
            "calendar.unknown",
        ),
    ],
)
async def test_what_cannot_be_understood_is_refused_by_its_field(
    world: World, forecasts: Forecasts, change: dict[str, Any], field: str, code: str
) -> None:
    executor_id = await world.executor()
    job_id = await hourly_job(world, executor_id)
    pool_id = await world.pools.create(ADMIN, {"name": "p", "slots": 2})
    ids = {"job_id": job_id, "executor_id": executor_id, "pool_id": pool_id}
    given = {key: ids.get(key, value) for key, value in change.items()}
    with pytest.raises(InvalidInput) as refused:
        await forecasts.what_if(ADMIN, [given], hours=1)
    assert (field, code) in [(each.field, each.code) for each in refused.value.problems]


async def test_hours_and_the_number_of_changes_are_bounded(forecasts: Forecasts) -> None:
    for changes, hours in (([{}], 169), ([{}], 0), ([], 1), ([{}] * 21, 1), ("x", 1)):
        with pytest.raises(InvalidInput):
            await forecasts.what_if(ADMIN, changes, hours=hours)


async def test_nobody_learns_of_what_they_may_not_see(world: World, forecasts: Forecasts) -> None:
    mine, theirs = await world.executor("mine"), await world.executor("theirs")
    hidden = await hourly_job(world, theirs)
    parent = await hourly_job(world, mine, children=[{"job": hidden}])
    viewer = actor_with(Role.VIEWER, mine)
    found = await forecasts.what_if(
        viewer, [{"kind": "job_pause", "job_id": parent, "paused": True}], hours=2
    )
    assert found.executor_ids == (mine,)
    assert found.left_out == 1
    assert hidden not in found.job_names
    both = await forecasts.what_if(
        ADMIN, [{"kind": "job_pause", "job_id": parent, "paused": True}], hours=2
    )
    assert both.executor_ids == (mine, theirs)
    for change in (
        {"kind": "job_pause", "job_id": hidden, "paused": True},
        {"kind": "node", "node_id": world.node(theirs), "drain": True},
        {"kind": "executor_pause", "executor_id": theirs, "paused": True},
        {"kind": "job_pause", "job_id": 404, "paused": True},
    ):
        with pytest.raises(NotFound):
            await forecasts.what_if(viewer, [change], hours=1)


# --- the process ----------------------------------------------------------------------------------


async def test_a_process_ends_with_its_reader(world: World, processes: ForecastProcesses) -> None:
    forecasts = Forecasts(world.database, world.jobs, processes=processes)
    executor_id = await world.executor()
    job_id = await hourly_job(world, executor_id)
    change = {"kind": "job_pause", "job_id": job_id, "paused": True}
    asking = asyncio.create_task(forecasts.what_if(ADMIN, [change], hours=168))
    await wait_until_async(lambda: bool(processes._processes.running))
    (running,) = processes._processes.running
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert running.returncode is not None
    assert not processes._processes.running


async def test_an_admin_that_stops_ends_forecasts_without_an_error(
    world: World, processes: ForecastProcesses
) -> None:
    forecasts = Forecasts(world.database, world.jobs, processes=processes)
    job_id = await hourly_job(world, await world.executor())
    change = {"kind": "job_pause", "job_id": job_id, "paused": True}
    with structlog.testing.capture_logs() as logged:
        asking = asyncio.create_task(forecasts.what_if(ADMIN, [change], hours=168))
        await wait_until_async(lambda: bool(processes._processes.running))
        forecasts.close()
        with pytest.raises(Unavailable):
            await asking
        with pytest.raises(Unavailable):
            await forecasts.what_if(ADMIN, [change], hours=168)
    assert not processes._processes.running
    assert [line for line in logged if line["log_level"] == "error"] == []


async def test_a_process_that_takes_too_long_is_ended(world: World) -> None:
    forecasts = Forecasts(world.database, world.jobs, processes=ForecastProcesses(seconds=0.01))
    executor_id = await world.executor()
    job_id = await hourly_job(world, executor_id)
    change = {"kind": "job_pause", "job_id": job_id, "paused": True}
    with pytest.raises(Unavailable) as refused:
        await forecasts.what_if(ADMIN, [change], hours=168)
    assert refused.value.code == "forecast.too_long"


async def test_why_a_process_failed_is_in_the_log(
    world: World, processes: ForecastProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_MODULE", "tickwheel_admin.no_such_module")
    forecasts = Forecasts(world.database, world.jobs, processes=processes)
    job_id = await hourly_job(world, await world.executor())
    change = {"kind": "job_pause", "job_id": job_id, "paused": True}
    with (
        structlog.testing.capture_logs() as logged,
        pytest.raises(Unavailable, match="process that forecasts failed"),
    ):
        await forecasts.what_if(ADMIN, [change], hours=1)
    [line] = [each for each in logged if each["event"] == "forecast.failed"]
    assert "no_such_module" in line["problem"]
