"""The look for due runs: what is not due yet is said to be due later."""

from __future__ import annotations

from itertools import count

from tests.admin.kit.rows import add_job, add_run, change
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.runs.due import due_executors


async def test_a_run_that_falls_due_during_the_look_is_not_overlooked(store_url: str) -> None:
    clock = count(1_000_000)
    database = Database(store_url, clock=lambda: next(clock))  # at each glance it is later
    run_id = await add_run(database, await add_job(database))
    for ahead in range(6):
        await change(database, tables.run, run_id, due_at=next(clock) + ahead)
        ((_executor_id, is_due, wait_ms),) = await database.read(due_executors, [1])
        assert is_due or (wait_ms is not None and 0 < wait_ms <= ahead)
    await database.close()
