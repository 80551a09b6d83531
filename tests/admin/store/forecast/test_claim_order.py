"""The order of the claim is told twice: to the database, and to forecasts."""

from __future__ import annotations

import random

import pytest

from tests.admin.kit.engine import new_executor_id
from tests.admin.kit.rows import add_job, ask, get_run, now
from tickwheel_admin.domain.claims.order import urgency
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.runs.due import claimable_runs


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_statements_order_due_runs_as_the_rule_says(
    database: Database, *, oldest_first: bool
) -> None:
    source = random.Random(5)
    executor_id = new_executor_id()
    at = await now(database)
    jobs = [await add_job(database, executor_id=executor_id) for _ in range(3)]
    run_ids = [
        await ask(
            database,
            source.choice(jobs),
            priority=source.randrange(1, 10),
            due_at=at - source.randrange(5) * 1_000,
        )
        for _ in range(40)
    ]
    found = await database.read(
        lambda conn: claimable_runs(
            conn, executor_id=executor_id, now=at, limit=100, oldest_first=oldest_first
        )
    )
    runs = [await get_run(database, run_id) for run_id in run_ids]
    expected = sorted(runs, key=lambda run: urgency(run, oldest_first=oldest_first))
    assert [each.id for each in found] == [run.id for run in expected]
