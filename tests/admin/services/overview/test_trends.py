"""Trends: of executors from hourly figures, of jobs from the ledger; within scope and bounds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.kit.clock import Clock
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput, NotFound
from tickwheel_admin.domain.runs.trend import TrendStep
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.overview import trends as trend_service
from tickwheel_admin.services.overview.trends import MAX_ROWS, TrendFigures
from tickwheel_admin.store.runs import stats as run_stats
from tickwheel_admin.store.runs.stats import HOUR_MS

MINUTE, DAY = 60_000, 86_400_000
NOW = 20_000 * DAY + 13 * HOUR_MS + 31 * MINUTE  # a Friday, 13:31 UTC
MONDAY = 20_000 * DAY - 4 * DAY

pytestmark = pytest.mark.turned_clock


@pytest.fixture
def clock() -> Clock:
    return Clock(now=NOW)


@pytest.fixture
def trends(world: World) -> TrendFigures:
    return TrendFigures(world.database)


def add(world: World, at: int, state: str = "succeeded", took: int = 400, **changes: Any) -> int:
    times = {"started_at": at + 20, "ended_at": at + 20 + took}
    return world.run(**{"scheduled_at": at, "state": state} | times | changes)


def count(world: World, at: int) -> None:
    hour_at = at - at % HOUR_MS
    stats = world.database.read_sync(run_stats.count_hour, hour_at)
    world.database.run_sync(run_stats.write_stats, hour_at, stats, counted_at=NOW)


async def test_weeks_of_what_the_caller_may_see(world: World, trends: TrendFigures) -> None:
    last_week = MONDAY - 2 * DAY + 5 * HOUR_MS  # Saturday, 05:00
    for _ in range(3):
        add(world, last_week, executor_id=1)
    add(world, last_week, "failed", executor_id=1)
    add(world, last_week, executor_id=2)
    count(world, last_week)
    add(world, NOW - MINUTE, "timed_out", executor_id=1)  # in an hour that nobody has counted yet
    add(world, NOW - MINUTE, "cancelled", executor_id=1)

    found = await trends.get(ADMIN)
    assert len(found.buckets) == 13
    assert found.buckets[-1].start_at == MONDAY
    before, now = found.buckets[-2:]
    assert (before.succeeded, before.failed, before.failure_rate) == (4, 1, 0.2)
    assert (now.timed_out, now.cancelled, now.failure_rate) == (1, 1, 1.0)
    assert 400 <= (before.durations.quantile(0.95) or 0) <= 440  # of those that succeeded
    assert 20 <= (before.delays.quantile(0.5) or 0) <= 22
    assert found.whole.total == 7
    assert found.week is not None
    assert (found.week[5][5].runs, found.week[5][5].failures) == (5, 1)
    assert (found.week[4][13].runs, found.week[4][13].failures) == (2, 1)

    theirs = await trends.get(actor_with(Role.VIEWER, 2))
    assert (theirs.whole.succeeded, theirs.whole.total) == (1, 1)
    of_one = await trends.get(ADMIN, executor_id=1)
    assert of_one.whole.total == 6
    unseen = await trends.get(actor_with(Role.VIEWER, 2), executor_id=1)
    assert unseen.whole.total == 0


async def test_hours_of_the_week_are_those_of_the_readers_clock(
    world: World, trends: TrendFigures
) -> None:
    at = MONDAY - HOUR_MS  # Sunday, 23:00 UTC
    add(world, at)
    count(world, at)
    found = await trends.get(ADMIN, zone="Europe/Berlin", step=TrendStep.DAY)
    assert found.week is not None
    assert found.buckets[-1].start_at % DAY == 22 * HOUR_MS  # summer time
    assert found.week[0][1].runs == 1


async def test_a_job_is_read_from_the_ledger(world: World, trends: TrendFigures) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    own = {"executor_id": executor_id, "job_id": job_id}
    for hours in range(3):
        add(world, NOW - hours * HOUR_MS - DAY, took=1_000 * (hours + 1), **own)
    add(world, NOW - DAY, "lost", **own)
    add(world, NOW - DAY, "succeeded", origin="try", **own)
    add(world, NOW - DAY, "running", **own)
    add(world, NOW - DAY, "failed", fire_id=5, **own)  # a shard
    add(world, NOW - DAY, job_id=job_id + 1)
    found = await trends.get(ADMIN, job_id=job_id, step=TrendStep.DAY)
    assert found.week is None
    yesterday = found.buckets[-2]
    assert (yesterday.succeeded, yesterday.failed, yesterday.total) == (3, 1, 4)
    assert 2_000 <= (yesterday.durations.quantile(0.5) or 0) <= 2_170
    assert not yesterday.is_estimated

    assert (await trends.get(actor_with(Role.VIEWER, executor_id), job_id=job_id)).whole.total == 4
    for actor, wanted in ((actor_with(Role.VIEWER, executor_id + 1), job_id), (ADMIN, 77)):
        with pytest.raises(NotFound):
            await trends.get(actor, job_id=wanted)


async def test_many_runs_of_a_job_are_sampled_evenly(
    world: World, trends: TrendFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trend_service, "WHOLE", 40)
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    day = 20_000 * DAY - DAY
    world.add_runs(
        {"executor_id": executor_id, "job_id": job_id, "scheduled_at": day + n * 6 * MINUTE}
        | {"state": "failed" if n >= 120 else "succeeded"}  # the second half of the day
        for n in range(240)
    )
    found = (await trends.get(ADMIN, job_id=job_id, step=TrendStep.DAY)).buckets[-2]
    assert found.is_estimated
    assert (found.succeeded, found.failed) == (120, 120)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"zone": "Mars/Base"}, "zone.unknown"),
        ({"from_at": NOW + 1}, "trends.order"),
        ({"from_at": NOW - 401 * DAY}, "trends.too_long"),
        ({"from_at": NOW - 15 * DAY, "step": TrendStep.HOUR}, "trends.too_long"),
    ],
)
async def test_what_breaks_a_rule_is_refused(
    trends: TrendFigures, asked: dict[str, Any], code: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await trends.get(ADMIN, **asked)
    assert caught.value.problems[0].code == code


async def test_more_figures_than_are_added_up_are_refused(trends: TrendFigures) -> None:
    viewer = actor_with(Role.VIEWER, *range(1, MAX_ROWS // (13 * 7 * 24) + 2))
    with pytest.raises(InvalidInput) as caught:
        await trends.get(viewer)
    assert caught.value.problems[0].code == "trends.too_many"
    assert (await trends.get(viewer, executor_id=1)).whole.total == 0


async def test_runs_of_the_jobs_that_have_a_tag(world: World, trends: TrendFigures) -> None:
    """Of what the caller sees; jobs without the tag, or with a longer one, do not count."""
    first, second = await world.executor(), await world.executor("crm")
    ids = [
        await world.jobs.create(ADMIN, executor_id, JOB | {"name": name, "tags": tags})
        for executor_id, name, tags in (
            (first, "a", ["night", "money"]),
            (second, "b", ["night"]),
            (first, "c", ["nightly"]),
            (first, "d", []),
        )
    ]
    executors = (first, second, first, first)
    for job_id, executor_id in zip(ids, executors, strict=True):
        for n in range(2):
            add(world, NOW - (n + 1) * HOUR_MS, job_id=job_id, executor_id=executor_id)
    add(world, NOW - HOUR_MS, "failed", job_id=ids[0], executor_id=first)

    found = await trends.get(ADMIN, step=TrendStep.DAY, tag="night")
    assert (found.whole.succeeded, found.whole.failed, found.week) == (4, 1, None)
    assert 400 <= (found.whole.durations.quantile(0.95) or 0) <= 440
    assert (
        await trends.get(ADMIN, step=TrendStep.DAY, tag="night", executor_id=second)
    ).whole.total == 2
    theirs = await trends.get(actor_with(Role.VIEWER, second), step=TrendStep.DAY, tag="night")
    assert theirs.whole.total == 2
    assert (await trends.get(ADMIN, step=TrendStep.DAY, tag="none")).whole.total == 0


async def test_a_tag_of_many_runs_is_estimated_by_weight(
    world: World, trends: TrendFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job with many runs counts for as many, though as few of them are read as of another."""
    monkeypatch.setattr(trend_service, "TAG_RUNS", 1)
    executor_id = await world.executor()
    fields = JOB | {"tags": ["night"]}
    often = await world.jobs.create(ADMIN, executor_id, fields | {"name": "often"})
    seldom = await world.jobs.create(ADMIN, executor_id, fields | {"name": "seldom"})
    for n in range(200):
        at = NOW - HOUR_MS - n * 10_000
        add(world, at, job_id=often, executor_id=executor_id, took=100)
    for n in range(20):
        at = NOW - HOUR_MS - n * 10_000
        add(world, at, job_id=seldom, executor_id=executor_id, took=9_000)
    found = await trends.get(ADMIN, step=TrendStep.DAY, tag="night")
    assert found.whole.is_estimated
    assert 190 <= found.whole.succeeded <= 250
    assert (found.whole.durations.quantile(0.8) or 0) < 200
    assert (found.whole.durations.quantile(0.99) or 0) > 8_000


async def test_what_a_tag_asks_for_is_bounded(
    world: World, trends: TrendFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trend_service, "MAX_TAG_BUCKETS", 10)
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"tags": ["night"]})
    for changes, field in (
        ({}, "tag"),
        ({"job_id": job_id}, "tag"),
        ({"tag": "a,b"}, "tag"),
        ({"from_at": NOW - 90 * DAY}, "from"),
    ):
        with pytest.raises(InvalidInput) as caught:
            await trends.get(ADMIN, **{"step": TrendStep.DAY, "tag": "night", **changes})
        assert [each.field for each in caught.value.problems] == [field], changes
