"""What-if held against what the engine did once the changes were made, in turned time."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.recording import Recording, add_history
from tests.admin.kit.rows import add_job, add_pool, all_runs
from tests.admin.store.forecast.test_recorded import HOUR_MS, START, of, situation_of
from tickwheel_admin.domain.forecast import claims
from tickwheel_admin.domain.forecast.changes import NEW_JOB_IDS, JobAdded, PoolChange, changed
from tickwheel_admin.domain.forecast.draws import assumed_ms
from tickwheel_admin.domain.forecast.journal import Journal
from tickwheel_admin.domain.forecast.simulation import Forecast, Simulation
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.pools.pool import PoolShare
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.engine.dispatcher import loop as dispatcher
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.pools.pools import get_pool, revise_pool

pytestmark = pytest.mark.turned_clock


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """A rule is tested on one database only."""
    return sqlite_url


async def test_what_a_smaller_pool_and_a_new_job_bring_is_foretold_start_by_start(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Light and heavy runs of one pool, some of them live when it shrinks; jobs of no pool beside.

    What the changes would bring is told first, then they are made.
    """
    for module in (dispatcher, claims):
        monkeypatch.setattr(module, "OLDEST_FIRST_EVERY", 10**9)
    clock.now = START
    admin = Admin(database)
    node = await admin.add_node(1, slots=8)
    source = random.Random(7)
    pool_id = await add_pool(database, 6, name="warehouse")
    lasting: dict[int, int] = {}
    for number in range(14):
        minute = source.choice(["0", "*/10", "*/10", "5", "7,9", "*/15"])
        share = PoolShare(name="warehouse", slots=1 + number % 3, pool_id=pool_id)
        job_id = await add_job(
            database,
            triggers=of(CronSpec(expression=f"{number + 7} {minute} * * * ?", dialect="quartz")),
            priority=source.choice([4, 5, 5, 6]),
            pool=share if number % 4 else None,
            start_within_ms=source.choice([None, 300_000]),
        )
        lasting[job_id] = source.choice([20_000, 170_000, 230_000]) + 7 * number + 1
        await add_history(database, job_id, [lasting[job_id]] * 3, now=START - HOUR_MS)
    recording = Recording(admin, node, clock, lasts_ms=lasting.__getitem__)
    changed_at = START + HOUR_MS + 61_000  # a minute past the hour: the pool is full
    await recording.until(changed_at)

    found, end = await situation_of(database), changed_at + 2 * HOUR_MS
    assert sum(run.node_id is not None for run in found.open_runs) > 2
    config = JobConfig(
        name="new",
        handler="hello",
        triggers=(CronSpec(expression="31 */10 * * * ?", dialect="quartz"),),
        pool=PoolShare(name="warehouse", slots=2, pool_id=pool_id),
    )
    changes = [
        PoolChange(pool_id=pool_id, slots=3),
        JobAdded(job_id=NEW_JOB_IDS, executor_id=1, config=config),
    ]
    journal = Journal()
    expected = Simulation(changed(found, changes), end=end, journal=journal)
    unchanged = Simulation(found, end=end).run()
    assert delay_of(expected.run()) > 2 * delay_of(unchanged), "the changes make a difference"

    await database.run(resize, pool_id, 3)
    new_id = await add_job(
        database, triggers=[(config.triggers[0], first_of(config, changed_at))], pool=config.pool
    )
    lasting[new_id] = assumed_ms(found.jobs)
    await recording.until(end)

    starts = {
        (new_id if run.job_id == NEW_JOB_IDS else run.job_id, run.start_at)
        for run in journal.runs.values()
        if run.start_at is not None and run.start_at >= changed_at
    }
    runs = await all_runs(database)
    recorded = {(run.job_id, run.started_at) for run in runs if (run.started_at or 0) >= changed_at}
    assert recorded == starts
    assert len([at for job_id, at in recorded if job_id == new_id]) > 6
    assert any(run.reason == "expired" for run in runs), "the pool was never in the way"


def delay_of(forecast: Forecast) -> int:
    assert forecast.delay_p95_ms is not None
    return forecast.delay_p95_ms


def first_of(config: JobConfig, since: int) -> int:
    first = parse(config.triggers[0], saved_at=since).next_after(since)
    assert first is not None
    return first


def resize(conn: sa.Connection, pool_id: int, slots: int) -> None:
    pool = get_pool(conn, pool_id)
    assert pool is not None
    revise_pool(conn, pool, description="", slots=slots, now=pool.updated_at)
