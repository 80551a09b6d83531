"""Hourly figures: right however often an hour is counted, by whom, and after its runs are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.services import ADMIN, JOB, World
from tickwheel_admin.engine.maintenance import rollup
from tickwheel_admin.engine.maintenance.rollup import HOURS_PER_PASS, KEPT_DAYS, Rollup
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs import stats as run_stats
from tickwheel_admin.store.runs.retention import delete_runs, remove_old_runs
from tickwheel_admin.store.runs.stats import EVERYBODY, HOUR_MS, RunStat

pytestmark = pytest.mark.every_database

MINUTE, DAY = 60_000, 86_400_000
NOON = 20_000 * DAY + 12 * HOUR_MS
STAT = tables.run_stat


class Simulated:
    """A ledger whose clock the test moves."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        self.clock.advance((NOON - self.clock()) / 1_000)
        self.world = World(url, clock=self.clock)
        self.rollup = Rollup(self.world.database)

    def run(self, at: int, state: str = "succeeded", **changes: Any) -> int:
        return self.world.run(
            **{"scheduled_at": at, "state": state, "started_at": at + 40} | changes
        )

    async def at(self, instant: int) -> None:
        """Let the loop do all that there is to do at an instant."""
        self.clock.advance((instant - self.clock()) / 1_000)
        await caught_up(self.rollup)

    def hour(self, at: int, executor_id: int = EVERYBODY) -> RunStat | None:
        return figures(self.world, at).get(executor_id)


@pytest.fixture
def simulated(sqlite_url: str) -> Iterator[Simulated]:
    simulated = Simulated(sqlite_url)
    yield simulated
    simulated.world.close()


async def caught_up(rollup: Rollup) -> int:
    """Passes until there is nothing more to do; how many."""
    for passes in range(1, 2_000):
        if not await rollup.run_once():
            return passes
    raise AssertionError("it does not come to its end")


def figures(world: World, hour_at: int) -> dict[int, RunStat]:
    found = world.database.read_sync(run_stats.read_hours, [hour_at], executors=None)
    return {each.executor_id: each for each in found}


async def test_an_hour_is_counted_by_executor_and_in_all(world: World) -> None:
    hour = world.now // HOUR_MS * HOUR_MS - 3 * HOUR_MS
    states = ["succeeded"] * 5 + ["failed", "lost", "timed_out", "cancelled", "skipped", "running"]
    world.add_runs(
        {"executor_id": executor_id, "scheduled_at": hour + n * MINUTE, "state": state}
        | {"started_at": hour + n * MINUTE + delay}
        for executor_id, delay in ((1, 10), (2, 3_000))
        for n, state in enumerate(states)
    )
    world.run(executor_id=1, scheduled_at=hour - 1, state="failed")
    world.run(executor_id=1, scheduled_at=hour + HOUR_MS, state="failed")
    await caught_up(Rollup(world.database))
    told = figures(world, hour)
    assert sorted(told) == [EVERYBODY, 1, 2]
    one = told[1]
    assert (one.succeeded, one.failed, one.timed_out, one.cancelled) == (5, 2, 1, 1)
    assert told[EVERYBODY].total == 2 * one.total == 18
    assert one.delays.quantile(1.0) == pytest.approx(10, abs=1)
    assert told[EVERYBODY].delays.quantile(0.5) == one.delays.quantile(1.0)
    assert told[EVERYBODY].delays.quantile(0.95) == told[2].delays.quantile(1.0)
    assert set(figures(world, hour - HOUR_MS)) == {EVERYBODY, 1}
    # Idempotent: the same count once more changes nothing.
    counted = world.database.read_sync(run_stats.count_hour, hour)
    world.database.run_sync(run_stats.write_stats, hour, counted, counted_at=world.now)
    assert figures(world, hour) == told


async def test_several_admins_at_once_count_the_same(world: World) -> None:
    start = world.now // HOUR_MS * HOUR_MS - 8 * HOUR_MS
    world.add_runs(
        {"executor_id": 1 + n % 3, "scheduled_at": start + n * 4 * MINUTE} for n in range(100)
    )
    await asyncio.gather(*(caught_up(Rollup(world.database)) for _ in range(3)))
    counted = [figures(world, start + n * HOUR_MS)[EVERYBODY].total for n in range(7)]
    assert sum(counted) == 100


async def test_an_earlier_count_never_replaces_a_later_one(world: World) -> None:
    early = RunStat(hour_at=NOON, executor_id=1, succeeded=5)
    late = RunStat(hour_at=NOON, executor_id=1, succeeded=5, failed=1)
    write = world.database.run_sync
    assert write(run_stats.write_stats, NOON, [late], counted_at=NOON + 2)
    assert not write(run_stats.write_stats, NOON, [early], counted_at=NOON + 1)
    assert figures(world, NOON)[1] == late


async def test_what_purging_and_retention_deleted_stays_in_the_figures(world: World) -> None:
    hour = world.now // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    ids = world.add_runs(
        {"scheduled_at": hour + n, "executor_id": 1 + n % 2, "ended_at": hour + n + 5}
        for n in range(10)
    )
    await caught_up(Rollup(world.database))
    told = figures(world, hour)
    world.change(sa.delete(tables.run).where(tables.run.c.id.in_(ids[:3])))
    later = world.now
    counted = world.database.read_sync(run_stats.count_hour, hour)
    assert sum(each.total for each in counted) == 7
    world.database.run_sync(run_stats.write_stats, hour, counted, counted_at=later + 1)
    assert figures(world, hour) == told
    assert world.database.run_sync(remove_old_runs, older_than_ms=1, limit=100) == 7
    none: list[RunStat] = []
    world.database.run_sync(run_stats.write_stats, hour, none, counted_at=later + 2)
    assert figures(world, hour) == told


async def test_an_hour_is_counted_soon_after_it_is_over(simulated: Simulated) -> None:
    simulated.run(NOON + 5)
    await simulated.at(NOON + HOUR_MS + MINUTE)
    assert simulated.hour(NOON) is None
    await simulated.at(NOON + HOUR_MS + 2 * MINUTE)
    counted = simulated.hour(NOON)
    assert counted is not None
    assert counted.succeeded == 1


@pytest.mark.parametrize("after", [HOUR_MS, 6 * HOUR_MS, DAY, 8 * DAY])
async def test_what_ended_late_is_counted_in_the_hour_of_its_instant(
    simulated: Simulated, after: int
) -> None:
    run_id = simulated.run(NOON + 5, "running")
    await simulated.at(NOON + HOUR_MS + after - MINUTE)
    assert simulated.hour(NOON) == RunStat(hour_at=NOON, executor_id=EVERYBODY)
    ended = sa.update(tables.run).where(tables.run.c.id == run_id).values(state="failed")
    simulated.world.change(ended)
    await simulated.at(NOON + HOUR_MS + after)
    counted = simulated.hour(NOON)
    assert counted is not None
    assert counted.failed == 1


async def test_a_failure_that_a_retry_made_good_is_counted_no_more(simulated: Simulated) -> None:
    run_id, other = simulated.run(NOON + 5, "failed"), simulated.run(NOON + 6, "failed")
    later = NOON + 3 * DAY
    await simulated.at(later)
    assert (counted := simulated.hour(NOON)) is not None
    assert (counted.failed, counted.made_good) == (2, 0)

    again = simulated.run(later, "succeeded", retry_of=run_id)
    link = {"run_id": run_id, "retry_id": again, "scheduled_at": NOON + 5}
    simulated.world.change(
        sa.insert(tables.run_retry).values(link | {"state": "succeeded", "ended_at": later + 10})
    )
    await simulated.at(later + MINUTE)
    assert (counted := simulated.hour(NOON)) is not None
    assert (counted.failed, counted.made_good) == (1, 1)
    assert await caught_up(simulated.rollup) == 1  # and not over and over

    simulated.world.database.run_sync(lambda conn: delete_runs(conn, [run_id, other]))
    counted = run_stats.RunStat(hour_at=NOON, executor_id=EVERYBODY, failed=1, made_good=1)
    await simulated.at(NOON + HOUR_MS + 8 * DAY)
    assert (kept := simulated.hour(NOON)) is not None
    assert (kept.failed, kept.made_good) == (counted.failed, counted.made_good)


async def test_hours_without_an_admin_are_made_up_for(simulated: Simulated) -> None:
    first = NOON - 11 * DAY
    for day in range(12):
        simulated.run(first + day * DAY)
    simulated.clock.advance(120)
    for _ in range(200):
        before = stat_hours(simulated.world)
        more = await simulated.rollup.run_once()
        assert len(stat_hours(simulated.world)) - len(before) <= HOURS_PER_PASS
        if not more:
            break
    told = stat_hours(simulated.world)
    assert told == list(range(first, NOON, HOUR_MS))  # none missing, none before the first run
    assert all(simulated.hour(first + day * DAY) for day in range(11))
    # Away for ten days: what was missed is counted, though it lies further back than recounts do.
    simulated.run(NOON + DAY)
    await simulated.at(NOON + 10 * DAY)
    counted = simulated.hour(NOON + DAY)
    assert counted is not None
    assert counted.succeeded == 1


async def test_an_idle_pass_writes_nothing_and_reads_little(simulated: Simulated) -> None:
    simulated.run(NOON - 3 * HOUR_MS)
    await simulated.at(NOON + 10 * MINUTE)
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        statements.append(statement)

    sa.event.listen(simulated.world.database.engine, "before_cursor_execute", note)
    await simulated.at(NOON + 15 * MINUTE)
    assert [each for each in statements if each.split()[0] not in ("SELECT", "BEGIN")] == []
    assert "BEGIN IMMEDIATE" not in statements
    assert len(statements) <= 14  # with a look at the figures of jobs


async def test_figures_go_after_a_year_and_a_little(simulated: Simulated) -> None:
    world = simulated.world
    ages = (KEPT_DAYS + 60, KEPT_DAYS + 1, KEPT_DAYS - 1)
    hours = [NOON - age * DAY for age in ages]
    for hour in hours:
        stat = RunStat(hour_at=hour, executor_id=1, succeeded=1)
        world.database.run_sync(run_stats.write_stats, hour, [stat], counted_at=hour)
    await simulated.at(NOON + MINUTE)
    assert hours[2] in stat_hours(world)
    assert not {hours[0], hours[1]} & set(stat_hours(world))


async def test_only_every_so_many_runs_of_a_busy_hour_are_looked_at(
    simulated: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_stats, "SAMPLE", 50)
    simulated.world.add_runs(
        {"scheduled_at": NOON + n * 3_000, "started_at": NOON + n * 3_000 + 20}
        for n in range(1_000)
    )
    (counted,) = simulated.world.database.read_sync(run_stats.count_hour, NOON)
    assert counted.succeeded == 1_000
    assert counted.delays.total == 1_000
    assert counted.delays.quantile(0.95) == pytest.approx(20, rel=0.09)


async def test_delays_leave_out_later_tries_jitter_and_whole_fires(simulated: Simulated) -> None:
    simulated.run(NOON + 1)
    simulated.run(NOON + 2, started_at=NOON + 900_000, attempt=2)
    simulated.run(NOON + 3, started_at=NOON + 30_043, jitter_ms=30_000)
    simulated.run(NOON + 4, started_at=NOON + 700_000, shard_index=-1)
    (counted,) = simulated.world.database.read_sync(run_stats.count_hour, NOON)
    assert counted.total == 4
    assert counted.delays.total == 2
    assert counted.delays.quantile(1.0) == pytest.approx(40, rel=0.09)


def stat_hours(world: World) -> list[int]:
    rows = world.rows(
        sa.select(STAT.c.hour_at).where(STAT.c.executor_id == EVERYBODY).order_by(STAT.c.hour_at)
    )
    return [row.hour_at for row in rows]


async def test_figures_of_jobs_follow_their_last_runs(
    simulated: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollup, "FIGURES_PER_BATCH", 2)
    world = simulated.world
    executor_id = await world.executor()
    jobs = [
        await world.jobs.create(ADMIN, executor_id, JOB | {"name": name})
        for name in ("a", "b", "c")
    ]

    def run(job_id: int, at: int, state: str, took: int) -> None:
        took_from = {"started_at": at, "ended_at": at + took}
        simulated.run(at, state, executor_id=executor_id, job_id=job_id, **took_from)

    for n, (state, took) in enumerate([("failed", 10), ("succeeded", 30), ("succeeded", 20)]):
        run(jobs[0], NOON - n, state, took)
    run(jobs[2], NOON, "failed", 500)
    never = {"started_at": None, "ended_at": NOON}
    simulated.run(NOON - 1, "skipped", executor_id=executor_id, job_id=jobs[2], **never)

    async def figures() -> list[tuple[int, int]]:
        await simulated.at(simulated.clock() + MINUTE)
        row = sa.select(tables.job.c.usual_ms, tables.job.c.failure_rate).order_by(tables.job.c.id)
        return [tuple(each) for each in world.rows(row)]

    assert await figures() == [(20, 333), (0, 0), (500, 1000)]
    slow = await world.jobs.page(ADMIN, JobQuery(sort="-duration"))
    failing = await world.jobs.page(ADMIN, JobQuery(sort="-failure_rate"))
    assert [each.job.config.name for each in slow.items] == ["c", "a", "b"]
    assert [each.job.config.name for each in failing.items] == ["c", "a", "b"]

    run(jobs[0], NOON + 1, "succeeded", 40)
    assert (await figures())[0] == (20, 250)
