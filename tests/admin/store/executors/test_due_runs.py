"""What a claim reads of a queue: as many runs as it may take, however many wait."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.rows import add_job
from tests.admin.kit.work_counter import counted
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.runs.due import (
    claimable_runs,
    claimable_workflows,
    executors_with_due_workflows,
)
from tickwheel_admin.store.runs.inserts import insert_fires

WAITING = 3_000
TAKEN = 20
ANALYZE = {"sqlite": "ANALYZE", "postgresql": "ANALYZE run", "mysql": "ANALYZE TABLE run"}


_NUMBERS = range(1, WAITING + 1)


def queued(job_id: int, number: int, *, due_at: int, pool_id: int | None = 0) -> Run:
    return Run(
        id=number,
        executor_id=1,
        job_id=job_id,
        job_revision=1,
        trigger_id=None,
        origin=Origin.API,
        scheduled_at=5,
        created_at=5,
        state=RunState.QUEUED,
        due_at=due_at,
        pool_id=pool_id,
    )


async def _analyze(database: Database) -> None:
    statement = sa.text(ANALYZE[database.engine.dialect.name])
    await database.run(lambda conn: conn.execute(statement).close())


@pytest.mark.every_database
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("oldest_first", [False, True])
async def test_a_claim_does_not_sort_the_queue(
    database: Database, *, oldest_first: bool, at_once: bool
) -> None:
    job_id = await add_job(database)
    runs = [
        queued(job_id, number, due_at=5 if at_once else number, pool_id=None) for number in _NUMBERS
    ]
    for first in range(0, WAITING, 1_000):
        await database.run(insert_fires, runs[first : first + 1_000])
    await _analyze(database)
    async with counted(database) as work:
        found = await database.read(
            claimable_runs, executor_id=1, now=10_000, limit=TAKEN, oldest_first=oldest_first
        )
    assert [each.id for each in found] == list(range(1, TAKEN + 1))
    assert work.touched < 10 * TAKEN


@pytest.mark.every_database
@pytest.mark.parametrize("oldest_first", [False, True])
async def test_runs_of_one_instant_come_by_id(database: Database, *, oldest_first: bool) -> None:
    """Also where those with greater ids were written first."""
    job_id = await add_job(database)
    for number in range(TAKEN, 0, -1):
        await database.run(insert_fires, [queued(job_id, number, due_at=5, pool_id=None)])
    found = await database.read(
        claimable_runs, executor_id=1, now=10_000, limit=TAKEN, oldest_first=oldest_first
    )
    assert [each.id for each in found] == list(range(1, TAKEN + 1))


@pytest.mark.every_database
async def test_workflows_that_are_not_due_are_not_read(database: Database) -> None:
    """A serial one may have many that are parked behind the first."""
    job_id = await add_job(database)
    runs = [queued(job_id, number, due_at=10**12 + number) for number in _NUMBERS]
    for first in range(0, WAITING, 1_000):
        await database.run(insert_fires, runs[first : first + 1_000])
    await database.run(insert_fires, [queued(job_id, WAITING + 1, due_at=5)])
    await _analyze(database)
    async with counted(database) as work:
        found = await database.read(claimable_workflows, executor_id=1, now=10_000, limit=TAKEN)
    assert [each.id for each in found] == [WAITING + 1]
    assert work.touched < 10 * TAKEN
    async with counted(database) as work:
        await database.read(executors_with_due_workflows)
    assert work.touched < 10 * TAKEN
