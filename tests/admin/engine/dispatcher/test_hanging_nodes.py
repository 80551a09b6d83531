"""A node that answers no calls has free slots; runs that are due for it must cost nothing."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job, now
from tests.admin.kit.work_counter import counted
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.engine.dispatcher import loop
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_shared.protocol import RunRequest

DUE = 600  # more than a claim looks at


async def add_due(database: Database) -> None:
    job_id, at = await add_job(database), await now(database)
    runs = [
        Run(
            id=2_000 + number,
            executor_id=1,
            job_id=job_id,
            job_revision=1,
            trigger_id=None,
            origin=Origin.API,
            scheduled_at=at,
            created_at=at,
            state=RunState.QUEUED,
            due_at=at,
        )
        for number in range(DUE)
    ]
    await database.run(insert_fires, runs)


def reasons(conn: sa.Connection) -> list[str | None]:
    """Why runs wait."""
    return list(conn.execute(sa.select(tables.run.c.reason).distinct()).scalars())


async def test_runs_due_for_a_node_that_hangs_stay_as_they_are(
    database: Database, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await admin.add_node(1, slots=200)
    await add_due(database)
    dispatcher, rooms = admin.engine.dispatcher, admin.links.limited
    rooms[node.node_id] = 0
    assert not await dispatcher.run_once()
    assert node.take(RunRequest) == []
    assert await database.read(reasons) == [None]  # none was put off

    # Passes for other executors do not read its runs again and again.
    async with counted(database) as work:
        await dispatcher.run_once()
    assert work.statements <= 2

    monkeypatch.setattr(loop, "HANGING_SECONDS", 0.0)
    dispatcher.slots_freed([1])
    rooms[node.node_id] = 2
    await dispatcher.run_once()
    assert len(node.take(RunRequest)) == 2  # to see whether it answers
    assert await database.read(reasons) == [None]

    rooms[node.node_id] = 0
    await dispatcher.run_once()
    assert node.take(RunRequest) == []

    del rooms[node.node_id]
    await dispatcher.run_once()
    assert len(node.take(RunRequest)) == 198


async def test_its_runs_go_to_another_node_that_answers(database: Database, admin: Admin) -> None:
    hangs = await admin.add_node(1, name="a", slots=200)
    answers = await admin.add_node(1, name="b", slots=200)
    await add_due(database)
    admin.links.limited[hangs.node_id] = 0
    await admin.engine.dispatcher.run_once()
    assert (len(hangs.take(RunRequest)), len(answers.take(RunRequest))) == (0, 200)
