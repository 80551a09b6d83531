"""Pools as people manage them, and what jobs may ask of them."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.pools.holders import MOST_HOLDERS, pools_now

WAREHOUSE: dict[str, Any] = {"name": "warehouse", "slots": 3}


def codes(error: InvalidInput) -> list[tuple[str, str]]:
    return [(problem.field, problem.code) for problem in error.problems]


async def test_a_pool_is_added_changed_and_deleted(world: World) -> None:
    pool_id = await world.pools.create(ADMIN, WAREHOUSE)
    assert await world.pools.update(ADMIN, pool_id, WAREHOUSE | {"slots": 5}, version=1) == 2
    assert await world.pools.update(ADMIN, pool_id, WAREHOUSE | {"slots": 5}, version=2) == 2
    with pytest.raises(Conflict, match="version 2"):
        await world.pools.update(ADMIN, pool_id, WAREHOUSE, version=1)
    with pytest.raises(InvalidInput, match="warehouse"):
        await world.pools.update(ADMIN, pool_id, {"name": "x", "slots": 1}, version=2)
    [item] = (await world.pools.page(ADMIN)).items
    assert (item.pool.name, item.pool.slots, item.in_use, item.waiting) == ("warehouse", 5, 0, 0)
    await world.pools.delete(ADMIN, pool_id)
    with pytest.raises(NotFound):
        await world.pools.get(ADMIN, pool_id)
    assert world.audit() == [
        ("pool.created", pool_id),
        ("pool.updated", pool_id),
        ("pool.deleted", pool_id),
    ]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"name": "x"}, ("slots", "required")),
        ({"name": "", "slots": 1}, ("name", "required")),
        ({"name": "x", "slots": -1}, ("slots", "out_of_range")),
        ({"name": "x", "slots": 10_001}, ("slots", "out_of_range")),
        ({"name": "x", "slots": 1, "size": 2}, ("size", "unknown_field")),
    ],
)
async def test_what_is_no_pool_is_refused(
    world: World, raw: dict[str, Any], problem: tuple[str, str]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await world.pools.create(ADMIN, raw)
    assert codes(refused.value) == [problem]


async def test_a_name_means_one_pool_to_every_job(world: World) -> None:
    billing, orders = await world.executor("billing"), await world.executor("orders")
    await world.pools.create(ADMIN, WAREHOUSE | {"executor": billing})
    await world.pools.create(ADMIN, WAREHOUSE | {"executor": orders})
    for raw in (WAREHOUSE, WAREHOUSE | {"executor": billing}):
        with pytest.raises(Conflict, match="already a pool"):
            await world.pools.create(ADMIN, raw)


async def test_who_may_see_and_change_which_pools(world: World) -> None:
    billing, orders = await world.executor("billing"), await world.executor("orders")
    own = await world.pools.create(ADMIN, {"name": "own", "slots": 1, "executor": billing})
    everyones = await world.pools.create(ADMIN, WAREHOUSE)
    developer = actor_with(Role.DEVELOPER, billing)
    stranger = actor_with(Role.VIEWER, orders)
    assert [i.pool.name for i in (await world.pools.page(developer)).items] == ["own", "warehouse"]
    assert [i.pool.name for i in (await world.pools.page(stranger)).items] == ["warehouse"]
    raw = {"name": "own", "slots": 2, "executor": billing}
    assert await world.pools.update(developer, own, raw, version=1) == 2
    with pytest.raises(NotAllowed):
        await world.pools.update(developer, everyones, WAREHOUSE, version=1)
    with pytest.raises(NotAllowed):
        await world.pools.create(developer, {"name": "other", "slots": 1})
    with pytest.raises(NotFound):
        await world.pools.delete(stranger, own)


async def test_jobs_name_pools_of_their_executor_and_of_the_installation(world: World) -> None:
    billing, orders = await world.executor("billing"), await world.executor("orders")
    for executor_id in (billing, orders):
        world.node(executor_id)
    pool_id = await world.pools.create(ADMIN, WAREHOUSE | {"executor": billing})
    job_id = await world.jobs.create(ADMIN, billing, JOB | {"pool": "warehouse", "pool_slots": 2})
    run_id = await world.jobs.run_now(ADMIN, job_id)
    [row] = world.rows(sa.select(tables.run.c.pool_id).filter_by(id=run_id))
    assert row.pool_id == pool_id
    for raw, problem in (
        ({"pool": "warehouse", "pool_slots": 4}, ("pool_slots", "pool.too_small")),
        ({"pool": "wharehouse"}, ("pool", "pool.unknown")),
        ({"pool_slots": 4}, ("pool_slots", "pool_slots.without_pool")),
    ):
        with pytest.raises(InvalidInput) as refused:
            await world.jobs.create(ADMIN, billing, JOB | {"name": "other"} | raw)
        assert codes(refused.value) == [problem]
    with pytest.raises(InvalidInput) as refused:
        await world.jobs.create(ADMIN, orders, JOB | {"pool": "warehouse"})
    assert codes(refused.value) == [("pool", "pool.unknown")]

    detail = await world.pools.get(ADMIN, pool_id)
    assert [user.job_name for user in detail.users] == ["invoices"]
    assert detail.item.waiting == 1
    with pytest.raises(Conflict, match="invoices"):
        await world.pools.delete(ADMIN, pool_id)
    await world.jobs.update(ADMIN, job_id, JOB, revision=1)
    await world.pools.delete(ADMIN, pool_id)


async def test_steps_of_workflows_use_the_pools_they_name(world: World) -> None:
    billing = await world.executor("billing")
    world.node(billing)
    pool_id = await world.pools.create(ADMIN, WAREHOUSE)
    step = {"key": "load", "handler": "send-invoices", "pool": "warehouse"}
    with pytest.raises(InvalidInput) as refused:
        await world.jobs.create(
            ADMIN,
            billing,
            {"name": "etl", "workflow": {"steps": [step | {"pool": "x"}]}},
        )
    assert codes(refused.value) == [("workflow.steps[0].pool", "pool.unknown")]
    with pytest.raises(InvalidInput) as refused:
        await world.jobs.create(
            ADMIN, billing, {"name": "etl", "pool": "warehouse", "workflow": {"steps": [step]}}
        )
    assert codes(refused.value)[0] == ("pool", "does_not_apply")
    await world.jobs.create(ADMIN, billing, {"name": "etl", "workflow": {"steps": [step]}})
    detail = await world.pools.get(ADMIN, pool_id)
    assert [(user.job_name, user.is_hidden) for user in detail.users] == [("etl/load", True)]
    with pytest.raises(Conflict, match="etl/load"):
        await world.pools.delete(ADMIN, pool_id)


async def test_a_run_says_that_it_waits_for_a_pool_and_who_holds_it(world: World) -> None:
    billing = await world.executor("billing")
    node_id = world.node(billing)
    pool_id = await world.pools.create(ADMIN, WAREHOUSE | {"slots": 0})
    job_id = await world.jobs.create(ADMIN, billing, JOB | {"pool": "warehouse"})
    holder, waiting = [await world.jobs.run_now(ADMIN, job_id) for _ in range(2)]
    detail = await world.runs.get(ADMIN, waiting)
    assert detail.waiting is not None
    assert (detail.waiting.code, "closed" in detail.waiting.template) == ("pool", True)

    await world.pools.update(ADMIN, pool_id, WAREHOUSE | {"slots": 1}, version=1)
    claimed = {"state": "running", "node_id": node_id, "dispatched_at": world.now}
    use = {"run_id": holder, "pool_id": pool_id, "slots": 1, "since": world.now}
    world.change(
        sa.update(tables.run).filter_by(id=holder).values(claimed),
        sa.insert(tables.pool_use).values(use),
    )
    detail = await world.runs.get(ADMIN, waiting)
    assert detail.waiting is not None
    text = detail.waiting.template % detail.waiting.params
    assert text == "It waits for a slot of the pool warehouse: 1 of 1 in use."
    assert detail.waiting.runs == (holder,)
    [held] = (await world.pools.get(ADMIN, pool_id)).holders
    assert (held.run_id, held.job_name, held.slots) == (holder, "invoices", 1)


async def test_a_crowded_pool_does_not_hide_who_holds_another(world: World) -> None:
    billing = await world.executor("billing")
    names = ("crowded", "quiet")
    pool_ids = [await world.pools.create(ADMIN, WAREHOUSE | {"name": name}) for name in names]
    job_ids = [
        await world.jobs.create(ADMIN, billing, JOB | {"name": name, "pool": name})
        for name in names
    ]
    crowd = [await world.jobs.run_now(ADMIN, job_ids[0]) for _ in range(MOST_HOLDERS + 1)]
    last = await world.jobs.run_now(ADMIN, job_ids[1])
    uses = [(pool_ids[0], run_id, n) for n, run_id in enumerate(crowd)] + [(pool_ids[1], last, 99)]
    for pool_id, run_id, since in uses:
        use = {"run_id": run_id, "pool_id": pool_id, "slots": 1, "since": since}
        world.change(sa.insert(tables.pool_use).values(use))
    found = await world.database.read(pools_now, pool_ids)
    assert found[pool_ids[0]].holders == tuple((each, billing) for each in crowd[:MOST_HOLDERS])
    assert found[pool_ids[1]].holders == ((last, billing),)


async def test_pools_of_an_executor_go_with_it(world: World) -> None:
    billing = await world.executor("billing")
    await world.pools.create(ADMIN, WAREHOUSE | {"executor": billing})
    await world.executors.delete(ADMIN, billing)
    assert (await world.pools.page(ADMIN)).items == []
    await world.pools.create(ADMIN, WAREHOUSE)  # its name is free
