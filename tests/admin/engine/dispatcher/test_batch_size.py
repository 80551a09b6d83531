"""A claim takes more runs at once where that makes no other executor wait."""

from __future__ import annotations

import pytest

from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job, ask, now
from tickwheel_admin.engine.dispatcher import loop
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import RunRequest

DUE_RUNS = 30
OTHER = 2


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RUNS_PER_BATCH", 10)
    monkeypatch.setattr(loop, "MOST_RUNS_PER_BATCH", 20)


async def _claimed_at_once(database: Database, admin: Admin, *, slots: int) -> int:
    """Of an executor with two nodes and more due runs than a claim takes."""
    nodes = [await admin.add_node(1, slots=slots // 2) for _ in range(2)]
    job_id = await add_job(database, executor_id=1)
    for _ in range(DUE_RUNS):
        await ask(database, job_id)
    await admin.engine.dispatcher.run_once()
    return sum(len(node.take(RunRequest)) for node in nodes)


@pytest.mark.parametrize(("slots", "claimed"), [(12, 10), (36, 12), (90, 20)])
async def test_a_claim_takes_a_third_of_the_slots_at_most_two_batches(
    database: Database, admin: Admin, slots: int, claimed: int
) -> None:
    assert await _claimed_at_once(database, admin, slots=slots) == claimed


@pytest.mark.parametrize(("due_in_ms", "claimed"), [(-1, 10), (900, 10), (30_000, 20)])
async def test_a_claim_is_short_while_other_executors_have_runs_that_are_due_soon(
    database: Database, admin: Admin, due_in_ms: int, claimed: int
) -> None:
    await admin.add_node(OTHER)
    other_job = await add_job(database, executor_id=OTHER)
    await ask(database, other_job, due_at=await now(database) + due_in_ms)

    assert await _claimed_at_once(database, admin, slots=90) == claimed
