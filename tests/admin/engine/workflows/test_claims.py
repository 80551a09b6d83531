"""Runs of workflows need no node and no slot: nothing that waits for one holds them up."""

from __future__ import annotations

import pytest

from tests.admin.kit.engine import Admin, admin_with_node, new_executor_id
from tests.admin.kit.rows import add_job, ask, states
from tests.admin.kit.workflows import add_workflow, step
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.store.database.database import Database


@pytest.mark.every_database
async def test_a_workflow_begins_though_hundreds_of_runs_wait_for_slots(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database, slots=1)
    plain = await add_job(database, executor_id=node.executor_id, priority=1)
    for _ in range(120):
        await ask(database, plain)
    workflow = await add_workflow(database, step("first"), executor_id=node.executor_id)
    run_id = await ask(database, workflow)
    [held] = await admin.dispatch_all(node)
    assert await states(database, held.run, run_id) == ["dispatched", "running"]


@pytest.mark.every_database
async def test_a_workflow_begins_without_any_node_of_its_executor(database: Database) -> None:
    admin = Admin(database)
    executor_id = new_executor_id()
    one_by_one = BlockingPolicy(strategy=Blocking.SERIAL)
    workflow = await add_workflow(
        database, step("first"), executor_id=executor_id, blocking=one_by_one
    )
    plain = await add_job(database, executor_id=executor_id)
    first, second, waiting = [await ask(database, each) for each in (workflow, workflow, plain)]
    while await admin.engine.dispatcher.run_once():
        pass
    assert await states(database, first, second, waiting) == [
        "running",
        "queued blocked",
        "queued",
    ]
