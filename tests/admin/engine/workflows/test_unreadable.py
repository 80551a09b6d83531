"""A workflow whose rows cannot be read costs nobody else anything, and is seen to have failed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.admin.engine.workflows.test_ends import sweep
from tests.admin.kit.engine import admin_with_node
from tests.admin.kit.messages import result
from tests.admin.kit.rows import ask, get_run, states
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import add_workflow, step, told
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.services.workflows.steps import WorkflowRuns
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import ReceiptCode, ResultReceipt

Damage = Callable[[sa.Connection, Run], object]


def _step_row(conn: sa.Connection, run: Run) -> None:
    here = tables.workflow_step.c.workflow_run_id == run.id
    conn.execute(sa.update(tables.workflow_step).where(here).values(state="strange"))


def _revision(conn: sa.Connection, run: Run) -> None:
    here = tables.job_revision.c.job_id == run.job_id
    conn.execute(sa.update(tables.job_revision).where(here).values(config="{"))


def _no_revision(conn: sa.Connection, run: Run) -> None:
    here = tables.job_revision.c.job_id == run.job_id
    conn.execute(sa.delete(tables.job_revision).where(here))


@pytest.mark.parametrize("damage", [_step_row, _revision, _no_revision])
async def test_it_stops_nobody_and_ends_where_people_see_it(
    database: Database, damage: Damage
) -> None:
    admin, node = await admin_with_node(database)
    graph = (step("a"), step("b", "a"))
    jobs = [await add_workflow(database, *graph, executor_id=node.executor_id) for _ in range(2)]
    bad, good = [await ask(database, job_id) for job_id in jobs]
    requests = await admin.dispatch_all(node)
    broken = await get_run(database, bad)
    await database.run(damage, broken)
    admin.engine.recorder._configs._known = {}  # as an admin that has just started

    await admin.say(node, *(result(each, value=each.run) for each in requests))

    for request in requests:
        run = await get_run(database, request.run)
        assert (run.state, run.result) == (RunState.SUCCEEDED, str(run.id)), "none is lost"
    receipts = [each.receipt for each in node.sent if isinstance(each, ResultReceipt)]
    assert receipts == [ReceiptCode.RECORDED] * 2
    assert await told(database, good) == "a succeeded, b running"
    assert await states(database, bad) == ["running"]

    await sweep(admin)
    assert await states(database, bad) == ["failed defect"]
    assert await states(database, good) == ["running"]
    signals = await database.read(lambda conn: conn.execute(sa.select(tables.alarm_signal)).all())
    assert bad in {row.subject_id for row in signals}
    if damage is _step_row:
        assert (await WorkflowRuns(database).get(ADMIN, bad)).run.reason == "defect"
