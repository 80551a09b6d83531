"""Figures of periods: columns, the period before, start delays, whatever part is counted where."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.overview.service import OverviewPart, Period, RunFigures
from tickwheel_admin.services.runs.queries import RunQuery, filter_of
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs import stats as run_stats
from tickwheel_admin.store.runs.pages import count_runs
from tickwheel_admin.store.runs.stats import HOUR_MS, RunStat

MINUTE, DAY = 60_000, 86_400_000
NOW = 20_000 * DAY + 13 * HOUR_MS + 31 * MINUTE + 40_000  # a Thursday, 13:31:40 UTC


pytestmark = pytest.mark.turned_clock


@pytest.fixture
def clock() -> Clock:
    return Clock(now=NOW)


async def figures(
    world: World, period: Period, *, executor_id: int | None = None, offset: int = 0
) -> RunFigures:
    actor = ADMIN if executor_id is None else actor_with(Role.VIEWER, executor_id)
    data = await world.overview.get(
        actor, period, parts={OverviewPart.FIGURES}, zone_offset_ms=offset
    )
    assert data.figures is not None
    assert (data.counts, data.running_now) == (None, [])  # nothing else was read
    return data.figures


def add(world: World, at: int, state: str = "succeeded", **changes: Any) -> None:
    world.run(**{"scheduled_at": at, "state": state, "started_at": at + 20} | changes)


def count(world: World, *instants: int) -> None:
    """Let their hours have been counted, as engine.rollup does."""
    for hour_at in {at - at % HOUR_MS for at in instants}:
        stats = world.database.read_sync(run_stats.count_hour, hour_at)
        world.database.run_sync(run_stats.write_stats, hour_at, stats, counted_at=NOW)


@pytest.mark.parametrize("period", list(Period))
async def test_columns_cover_the_period_up_to_now(world: World, period: Period) -> None:
    found = await figures(world, period)
    starts = [bucket.start_at for bucket in found.buckets]
    assert len(starts) == period.buckets
    assert starts == list(range(starts[0], NOW, period.bucket_ms))
    assert found.whole.total == 0
    assert (found.delay, found.former_delay) == (None, None)


@pytest.mark.parametrize("period", list(Period))
async def test_each_period_is_compared_with_the_one_before(world: World, period: Period) -> None:
    first = period.first_start(NOW)
    hour = first - first % HOUR_MS
    for state in ("succeeded", "failed"):
        add(world, NOW - 5_000, state, started_at=NOW - 4_990)
        add(world, first, state, started_at=first + 20)
        add(world, hour - 2 * MINUTE, state, started_at=hour - 2 * MINUTE + 4_000)
    add(world, hour - 2 * MINUTE, "lost", started_at=hour - 2 * MINUTE + 4_000)
    count(world, first, hour - 2 * MINUTE)
    found = await figures(world, period)
    assert (found.whole.succeeded, found.whole.failed) == (2, 2)
    assert found.buckets[0].total == 2
    assert found.buckets[-1].total == 2
    assert (found.former.succeeded, found.former.failed) == (1, 2)
    assert found.delay is not None
    assert found.former_delay is not None
    assert found.delay <= 22
    assert 4_000 <= found.former_delay <= 4_400
    assert len(found.delays) >= 12
    assert found.delays[-1] is not None


@pytest.mark.parametrize("period", [Period.HOUR, Period.DAY, Period.WEEK])
async def test_figures_are_of_what_the_reader_may_see(world: World, period: Period) -> None:
    for executor_id, delay in ((7, 10), (8, 9_000)):
        for ago in (MINUTE, 25 * MINUTE, 3 * HOUR_MS):
            at = NOW - ago
            add(world, at, executor_id=executor_id, started_at=at + delay)
    count(world, NOW - 3 * HOUR_MS)
    everything = await figures(world, period)
    mine = await figures(world, period, executor_id=7)
    assert everything.whole.total == 2 * mine.whole.total > 0
    assert mine.delay is not None
    assert mine.delay <= 11
    nobody = await figures(world, period, executor_id=99)
    assert (nobody.whole.total, nobody.delay) == (0, None)


@pytest.mark.parametrize("period", list(Period))
async def test_figures_count_what_lists_show(world: World, period: Period) -> None:
    """A fire and a workflow are one run each, whatever becomes of their shards and steps."""
    for at in (NOW - 5_000, NOW - 20 * MINUTE):
        add(world, at)
        fire = world.run(scheduled_at=at, state="failed", shard_index=-1, shard_total=2)
        workflow = world.run(scheduled_at=at, state="failed", shard_index=-2)
        for state in ("succeeded", "failed", "lost", "timed_out", "cancelled"):
            add(world, at, state, fire_id=fire, shard_total=5)
            add(world, at, state, origin="step", parent_run_id=workflow)
            add(world, at, state, origin="try")
    count(world, NOW - 20 * MINUTE)
    whole = (await figures(world, period)).whole
    assert (whole.succeeded, whole.failed, whole.total) == (2, 4, 6)
    listed = filter_of(ADMIN, RunQuery(origin="no_step"))
    tries = filter_of(ADMIN, RunQuery(origin="try"))
    with_tries, without = (
        world.database.read_sync(count_runs, each, limit=100)[0] for each in (listed, tries)
    )
    assert with_tries - without == whole.total


async def test_weeks_are_told_of_runs_that_are_gone(world: World) -> None:
    hour = NOW - NOW % HOUR_MS - 5 * DAY
    delays = TimeHistogram.of([30], each=40)
    stat = RunStat(hour_at=hour, executor_id=1, succeeded=40, failed=2, delays=delays)
    world.database.run_sync(run_stats.write_stats, hour, [stat], counted_at=NOW)
    for period in (Period.WEEK, Period.MONTH):
        found = await figures(world, period)
        assert (found.whole.succeeded, found.whole.failed) == (40, 2)
        assert found.delay == delays.quantile(0.95)


async def test_what_the_loop_has_not_counted_yet_is_there(world: World) -> None:
    add(world, NOW - 90 * MINUTE)
    add(world, NOW - MINUTE, "failed")
    found = await figures(world, Period.WEEK)
    assert (found.whole.succeeded, found.whole.failed) == (1, 1)


@pytest.mark.parametrize(
    ("offset_hours", "first_hour"), [(0, 0), (1, 23), (-5, 5), (5.5, 19), (8, 16)]
)
async def test_columns_of_hours_begin_with_the_readers_day(
    world: World, offset_hours: float, first_hour: int
) -> None:
    """In UTC: to whole hours, for zones that are half an hour off."""
    offset = int(offset_hours * HOUR_MS)
    found = await figures(world, Period.MONTH, offset=offset)
    hours = {bucket.start_at % DAY // HOUR_MS for bucket in found.buckets}
    assert hours == {first_hour, (first_hour + 12) % 24}
    assert found.buckets[-1].start_at <= NOW < found.buckets[-1].start_at + 12 * HOUR_MS


async def test_figures_are_read_once_a_minute(world: World) -> None:
    executor_id = await world.executor()
    await world.jobs.create(ADMIN, executor_id, JOB)
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        statements.append(statement)

    sa.event.listen(world.database.engine, "before_cursor_execute", note)
    for period in Period:
        statements.clear()
        await world.overview.get(ADMIN, period)
        first = len(statements)
        statements.clear()
        await world.overview.get(ADMIN, period)
        assert len(statements) <= first <= 30
    assert not [s for s in statements if f"FROM {tables.run_stat.name}" in s]  # kept for a minute
