"""Several admins claim runs of one executor at once: none waits for another, none is left out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from itertools import count

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, new_executor_id
from tests.admin.kit.rows import add_job, ask, in_use, now, states
from tests.support.polling import wait_until_async
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.engine.dispatcher import loop as dispatcher
from tickwheel_admin.engine.dispatcher.claim import claim_queued_runs
from tickwheel_admin.engine.dispatcher.claim_inputs import ClaimContext
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.values import SecretReader
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import run as run_table
from tickwheel_admin.store.executors.node_slots import take_slots
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.scripts import ScriptSources
from tickwheel_admin.store.runs import runs as store_runs
from tickwheel_admin.store.runs.runs import lock_queued_runs
from tickwheel_shared.protocol import RunRequest

# On SQLite one transaction writes at a time.
pytestmark = pytest.mark.every_database(but=["sqlite"])


async def test_an_admin_claims_what_comes_after_the_batch_of_another(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "RUNS_PER_BATCH", 5)
    executor_id = new_executor_id()
    admin = Admin(database)
    node = await admin.add_node(executor_id, slots=100)
    job_id = await add_job(database, executor_id=executor_id)
    ids = [await ask(database, job_id, after=n) for n in range(12)]
    with database.engine.begin() as conn:
        at = await now(database)
        held = await asyncio.to_thread(lock_queued_runs, conn, ids[:5], now=at)
        assert len(held) == 5
        claiming = asyncio.create_task(admin.engine.dispatcher.run())
        await wait_until_async(lambda: len(node.sent) == 7)
        assert [request.run for request in node.take(RunRequest)] == ids[5:]
    # Nobody woke the loop: it looks for what the other one leaves.
    await wait_until_async(lambda: len(node.sent) == 5)
    assert [request.run for request in node.take(RunRequest)] == ids[:5]
    assert await states(database, *ids) == ["dispatched"] * 12
    claiming.cancel()
    with suppress(asyncio.CancelledError):
        await claiming


async def test_a_claim_takes_the_slots_that_another_left(database: Database) -> None:
    executor_id = new_executor_id()
    admin = Admin(database)
    node = await admin.add_node(executor_id, slots=3)
    full = await admin.add_node(executor_id, slots=1)

    def take(conn: sa.Connection, wanted: dict[int, int]) -> dict[int, int]:
        return take_slots(conn, wanted, now=0)

    assert await database.run(take, {node.node_id: 1, full.node_id: 1}) == {
        node.node_id: 1,
        full.node_id: 1,
    }
    assert await database.run(take, {node.node_id: 5, full.node_id: 1}) == {node.node_id: 2}
    assert await in_use(database, node.node_id) == 3
    assert await in_use(database, full.node_id) == 1


def _looking_through(looks: int, *, limit: int, node_id: int) -> ClaimContext:
    tokens = count()
    return ClaimContext(
        connected={node_id},
        avoided=(),
        most=limit,
        limit=limit,
        looks=looks,
        oldest_first=False,
        random=random.Random(1),
        new_token=lambda: f"token-{next(tokens)}",
        configs=JobConfigs(),
        sources=ScriptSources(),
        secrets=SecretReader(Cipher()),
    )


async def test_runs_that_nobody_holds_are_claimed_in_their_order(database: Database) -> None:
    executor_id = new_executor_id()
    node = await Admin(database).add_node(executor_id, slots=12)
    job_id = await add_job(database, executor_id=executor_id)
    ids = [await ask(database, job_id, after=n) for n in range(12)]
    context = _looking_through(3, limit=4, node_id=node.node_id)
    with database.engine.begin() as conn:
        held = [*ids[:2], *ids[4:6]]
        at = await now(database)
        assert len(await asyncio.to_thread(lock_queued_runs, conn, held, now=at)) == 4
        claims = await database.run(claim_queued_runs, executor_id, context)
    requests = claims.requests[node.node_id]
    assert [request.run for request in requests] == [ids[2], ids[3], ids[6], ids[7]]


async def test_what_a_full_batch_left_is_claimed_next(database: Database) -> None:
    executor_id = new_executor_id()
    node = await Admin(database).add_node(executor_id, slots=12)
    job_id = await add_job(database, executor_id=executor_id)
    for n in range(6):
        await ask(database, job_id, after=n)
    context = _looking_through(2, limit=4, node_id=node.node_id)
    claims = await database.run(claim_queued_runs, executor_id, context)
    assert (claims.claimed, claims.more) == (4, True)
    claims = await database.run(claim_queued_runs, executor_id, context)
    assert (claims.claimed, claims.more) == (2, False)


async def test_a_run_whose_slot_another_admin_took_goes_elsewhere_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_id = new_executor_id()
    admin = Admin(database)
    nodes = [await admin.add_node(executor_id, name=name, slots=1) for name in "ab"]
    job_id = await add_job(database, executor_id=executor_id)
    await ask(database, job_id)
    lost: list[int] = []

    def too_late(conn: sa.Connection, wanted: Mapping[int, int], *, now: int) -> dict[int, int]:
        if not lost:
            lost.extend(wanted)
            with database.engine.begin() as other:
                take_slots(other, wanted, now=now)
        return take_slots(conn, wanted, now=now)

    monkeypatch.setattr(store_runs, "take_slots", too_late)
    while await admin.engine.dispatcher.run_once():
        pass
    assert [len(node.sent) for node in nodes if node.node_id not in lost] == [1]


@pytest.mark.parametrize("strategy", [Blocking.PARALLEL, Blocking.SERIAL])
async def test_runs_whose_slots_another_admin_took_stay_as_they_were(
    database: Database, monkeypatch: pytest.MonkeyPatch, strategy: Blocking
) -> None:
    executor_id = new_executor_id()
    node = await Admin(database).add_node(executor_id, slots=9)
    # Those of a serial job have a blocking key, which tells live from queued ones.
    policy = BlockingPolicy(strategy=strategy, concurrency=3)
    job_id = await add_job(database, executor_id=executor_id, blocking=policy)
    ids = [await ask(database, job_id, after=n) for n in range(3)]

    def only_one(conn: sa.Connection, wanted: Mapping[int, int], *, now: int) -> dict[int, int]:
        assert wanted == {node.node_id: 3}
        return take_slots(conn, {node.node_id: 1}, now=now)

    monkeypatch.setattr(store_runs, "take_slots", only_one)
    before = await _rows(database, ids)
    claims = await database.run(
        claim_queued_runs, executor_id, _looking_through(1, limit=9, node_id=node.node_id)
    )
    assert (claims.claimed, claims.outrun) == (1, True)
    [request] = claims.requests[node.node_id]
    left = [each for each in ids if each != request.run]
    assert await _rows(database, left) == [row for row in before if row["id"] in left]
    assert await in_use(database, node.node_id) == 1


async def _rows(database: Database, ids: list[int]) -> list[Mapping[str, object]]:
    query = sa.select(run_table).where(run_table.c.id.in_(ids)).order_by(run_table.c.id)
    return await database.read(lambda conn: [dict(row) for row in conn.execute(query).mappings()])
