"""Very much is overdue: what runs now must not hold up what is not even planned."""

from __future__ import annotations

import pytest

from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job, add_run
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.engine.dispatcher import loop as dispatcher
from tickwheel_admin.engine.planner import loop as planner
from tickwheel_admin.store.database.database import Database

RUNS = dispatcher.PACED_RUNS + 10


async def queue(database: Database) -> int:
    """Missed fires to make up for, and one run that is on time; returns the latter."""
    job_id = await add_job(database)
    for _ in range(RUNS):
        await add_run(database, job_id, origin=Origin.MISFIRE, priority=6)
    return await add_run(database, job_id, priority=5)


async def test_missed_fires_start_in_steps_while_planning_is_behind(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin(database)
    node = await admin.add_node(1, slots=1_000)
    on_time = await queue(database)
    admin.engine.planner.is_behind = True

    monkeypatch.setattr(dispatcher, "PACE_SECONDS", 3_600)
    first = await admin.dispatch_all(node)
    assert len(first) == dispatcher.PACED_RUNS
    assert first[0].run == on_time

    # Nothing is left behind when the pause is over, be planning still behind or not.
    monkeypatch.setattr(dispatcher, "PACE_SECONDS", 0)
    another = Admin(database, admin_id=2)
    another.links.sessions = admin.links.sessions
    another.engine.planner.is_behind = True
    assert len(await another.dispatch_all(node)) == RUNS + 1 - dispatcher.PACED_RUNS


async def test_what_is_on_time_is_not_held_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin(database)
    node = await admin.add_node(1, slots=1_000)
    job_id = await add_job(database)
    for _ in range(RUNS):
        await add_run(database, job_id)
    admin.engine.planner.is_behind = True
    monkeypatch.setattr(dispatcher, "PACE_SECONDS", 3_600)
    assert len(await admin.dispatch_all(node)) == RUNS


async def test_the_planner_says_whether_it_is_behind(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin(database)
    await admin.engine.membership.enter()
    long_ago = 1_700_000_000_000
    spec = FixedRateSpec(every_ms=86_400_000, anchor_at=long_ago)
    await add_job(database, triggers=[(spec, long_ago)])
    monkeypatch.setattr(planner, "OVERDUE_SLICE_SECONDS", -1)
    assert await admin.engine.planner.run_once()
    assert admin.engine.planner.is_behind

    monkeypatch.undo()
    while await admin.engine.planner.run_once():
        pass
    assert not admin.engine.planner.is_behind
