"""Pools through claim, record and sweep: never more slots than there are, and nobody starves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, admin_with_node, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, add_pool, ask, change, get_run, now, pool_in_use, states
from tickwheel_admin.domain.pools.pool import PoolShare
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.engine.dispatcher import loop as dispatcher
from tickwheel_admin.engine.dispatcher import pool_lines
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_values
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.pools.recount import miscounted_pools, recount_pool
from tickwheel_shared.protocol import Outcome, RunRequest

pytestmark = pytest.mark.usefixtures("no_second_look")


async def job_in(
    database: Database, node: FakeSession, pool_id: int, *, slots: int = 1, **config: Any
) -> int:
    share = PoolShare(name="any", slots=slots, pool_id=pool_id)
    return await add_job(database, executor_id=node.executor_id, pool=share, **config)


async def end(admin: Admin, node: FakeSession, request: RunRequest) -> None:
    await admin.say(node, accepted(request), result(request))


def runs(requests: list[RunRequest]) -> list[int]:
    return [request.run for request in requests]


# --- on every database ---------------------------------------------------------------------------


@pytest.mark.every_database
async def test_runs_of_two_executors_share_the_slots_of_a_pool(database: Database) -> None:
    admin, node = await admin_with_node(database)
    other = await admin.add_node(new_executor_id())
    pool_id = await add_pool(database, 3)
    light, heavy = (
        await job_in(database, node, pool_id),
        await job_in(database, other, pool_id, slots=2),
    )
    first = await ask(database, light)
    second = await ask(database, heavy)
    third = await ask(database, heavy)
    free = await ask(database, await add_job(database, executor_id=node.executor_id))

    there, here = await admin.dispatch_all(other), node.take(RunRequest)
    assert sorted(runs(here)) == [first, free]
    assert runs(there) == [second]
    assert await pool_in_use(database, pool_id) == 3
    await end(admin, node, here[runs(here).index(first)])
    assert await pool_in_use(database, pool_id) == 2
    assert await admin.dispatch_all(other) == []
    await end(admin, other, there[0])
    assert runs(await admin.dispatch_all(other)) == [third]
    assert await pool_in_use(database, pool_id) == 2


@pytest.mark.every_database
async def test_two_admins_never_take_more_than_there_is(database: Database) -> None:
    """Both claim at once, for an executor each, again and again."""
    pool_id = await add_pool(database, 5)
    admins = [Admin(database, admin_id=number) for number in (1, 2)]
    nodes = [await admin.add_node(new_executor_id(), slots=50) for admin in admins]
    late = await now(database) + 3_600_000
    for each in nodes:  # nobody renews leases here, and a busy machine takes longer than one
        await change(database, tables.node, each.node_id, lease_expires_at=late)
    ids = []
    for node in nodes:
        for slots in (1, 2, 3):
            job_id = await job_in(database, node, pool_id, slots=slots)
            ids += [await ask(database, job_id) for _ in range(8)]

    most = 0

    async def work(admin: Admin, node: FakeSession) -> None:
        nonlocal most
        while any(state != "succeeded" for state in await states(database, *ids)):
            requests = await admin.dispatch(node)
            used = await pool_in_use(database, pool_id)
            most = max(most, used)
            assert used <= 5
            for request in requests:
                await end(admin, node, request)

    await asyncio.wait_for(
        asyncio.gather(*(work(*each) for each in zip(admins, nodes, strict=True))), 120
    )
    assert most >= 3
    assert await pool_in_use(database, pool_id) == 0


@pytest.mark.every_database
async def test_ten_thousand_that_wait_for_a_full_pool_hide_nobody(database: Database) -> None:
    admin, node = await admin_with_node(database, slots=20)
    pool_id = await add_pool(database, 1)
    waiting = await job_in(database, node, pool_id, priority=1)
    holder = await ask(database, waiting)
    assert runs(await admin.dispatch_all(node)) == [holder]
    await _fill_queue(database, holder, 10_000)
    plain = await add_job(database, executor_id=node.executor_id, priority=9)
    late = await ask(database, plain)
    assert runs(await admin.dispatch_all(node)) == [late]


async def _fill_queue(database: Database, run_id: int, count: int) -> None:
    """Copies of a run, all of them queued and due."""
    row = dict(
        await database.read(
            lambda conn: conn.execute(sa.select(tables.run).filter_by(id=run_id)).mappings().one()
        )
    )
    row |= {"state": "queued", "node_id": None, "claim_token": None, "attempt": 0, "choice": None}
    row |= {"dispatched_at": None, "deadline_at": None}
    row = {name: value for name, value in row.items() if tables.run.c[name].computed is None}
    copies = [(*(row | {"id": run_id * 100_000 + n}).values(),) for n in range(count)]
    await database.run(insert_values, tables.run, copies, columns=tuple(row))


@pytest.mark.every_database
async def test_what_is_counted_wrong_is_counted_again(database: Database) -> None:
    admin, node = await admin_with_node(database)
    pool_id = await add_pool(database, 5)
    job_id = await job_in(database, node, pool_id, slots=2)
    live = await ask(database, job_id)
    await admin.dispatch_all(node)
    assert pool_id not in await database.read(miscounted_pools)
    columns = ("run_id", "pool_id", "slots", "since")
    wrong = [(1_000 * pool_id, pool_id, 3, 1)]  # of a run that there is not
    await database.run(insert_values, tables.pool_use, wrong, columns=columns)
    forget = sa.delete(tables.pool_use).where(tables.pool_use.c.run_id == live)
    await database.run(lambda conn: conn.execute(forget).close())
    assert pool_id in await database.read(miscounted_pools)
    await database.run(recount_pool, pool_id, JobConfigs())
    assert pool_id not in await database.read(miscounted_pools)
    assert await pool_in_use(database, pool_id) == 2


# --- what is the same on each --------------------------------------------------------------------


async def test_slots_that_an_operator_changes_count_at_once(database: Database) -> None:
    admin, node = await admin_with_node(database)
    pool_id = await add_pool(database, 0)
    job_id = await job_in(database, node, pool_id, slots=2)
    first, second, third = [await ask(database, job_id) for _ in range(3)]
    assert await admin.dispatch_all(node) == []  # closed
    await change(database, tables.pool, pool_id, slots=4)
    assert runs(await admin.dispatch_all(node)) == [first, second]
    await change(database, tables.pool, pool_id, slots=1)
    assert await admin.dispatch_all(node) == []
    assert await pool_in_use(database, pool_id) == 4  # who runs is left alone
    await change(database, tables.pool, pool_id, deleted_at=1)  # it limits nothing any more
    assert runs(await admin.dispatch_all(node)) == [third]


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.SUCCEEDED])
async def test_a_try_that_ends_frees_its_share(database: Database, outcome: Outcome) -> None:
    admin, node = await admin_with_node(database)
    pool_id = await add_pool(database, 1)
    retry = RetryPolicy(retries=1, delay_ms=3_600_000)
    job_id = await job_in(database, node, pool_id, retry=retry)
    await ask(database, job_id)
    second = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, accepted(request), result(request, outcome=outcome))
    assert runs(await admin.dispatch_all(node)) == [second]
    assert await pool_in_use(database, pool_id) == 1


async def test_the_run_that_is_first_in_line_comes_first_whichever_executor_asks(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database, slots=50)
    other = await admin.add_node(new_executor_id())
    pool_id = await add_pool(database, 2)
    many, heavy = (
        await job_in(database, node, pool_id),
        await job_in(database, other, pool_id, slots=2),
    )
    for _ in range(2):
        await ask(database, many)
    live = await admin.dispatch_all(node)
    at = await now(database)
    first = await ask(database, heavy, due_at=at - 1_000)
    for _ in range(20):
        await ask(database, many, due_at=at)
    for request in live:  # one slot comes free at a time
        await admin.dispatch_all(node)
        await end(admin, node, request)
    assert runs(await admin.dispatch_all(other)) == [first]
    assert node.take(RunRequest) == []


async def test_a_run_that_has_no_node_keeps_no_slot_from_others(database: Database) -> None:
    admin, node = await admin_with_node(database)
    full = await admin.add_node(new_executor_id(), slots=1)
    await ask(database, await add_job(database, executor_id=full.executor_id))
    await admin.dispatch_all(full)
    pool_id = await add_pool(database, 1)
    await ask(database, await job_in(database, full, pool_id, priority=1))
    await admin.dispatch_all(full)
    second = await ask(database, await job_in(database, node, pool_id, priority=9))
    assert runs(await admin.dispatch_all(node)) == [second]


async def test_shards_hold_slots_and_the_fire_does_not(database: Database) -> None:
    admin, node = await admin_with_node(database)
    pool_id = await add_pool(database, 2)
    routing = RoutingPolicy(strategy=Routing.SHARDS, shards=3)
    fire = await ask(database, await job_in(database, node, pool_id, routing=routing))
    requests = await admin.dispatch_all(node)
    assert len(requests) == 2
    assert await states(database, fire) == ["running"]
    assert (await get_run(database, fire)).pool_id is None
    await end(admin, node, requests[0])
    assert len(await admin.dispatch_all(node)) == 1


async def test_a_run_behind_a_full_pool_is_still_discarded(database: Database) -> None:
    """Its blocking strategy is decided while it waits, as it is when no node has a slot."""
    admin, node = await admin_with_node(database)
    pool_id = await add_pool(database, 1)
    blocking = BlockingPolicy(strategy=Blocking.DISCARD_LATER)
    job_id = await job_in(database, node, pool_id, blocking=blocking)
    await ask(database, job_id)
    await admin.dispatch_all(node)
    later = await ask(database, job_id, after=1)
    await admin.dispatch_all(node)
    assert await states(database, later) == ["skipped discarded"]


async def test_a_pool_that_another_claim_holds_is_looked_at_again_soon(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, node = await admin_with_node(database)
    pool_id = await add_pool(database, 1)
    run_id = await ask(database, await job_in(database, node, pool_id))
    monkeypatch.setattr(dispatcher, "CONTENDED_SECONDS", 0)
    with monkeypatch.context() as held:
        held.setattr(pool_lines, "lock_pools", lambda *_, **__: [])
        assert await admin.dispatch_all(node) == []
        assert node.executor_id in admin.engine.dispatcher._contended
    assert runs(await admin.dispatch_all(node)) == [run_id]
