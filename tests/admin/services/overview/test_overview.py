"""The overview: counts, buckets, what runs, what failed, what comes next; within scope."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.overview import outcome_counts
from tickwheel_admin.services.overview.service import (
    MAX_FREQUENT,
    Counts,
    OverviewData,
    Period,
    RunFigures,
)
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.overview import overview as store_overview

pytestmark = pytest.mark.every_database

MINUTE = 60_000
HALF_HOUR = Period.DAY.bucket_ms


@pytest.mark.every_database(nightly=True)
async def test_an_empty_installation_shows_first_steps(world: World) -> None:
    data = await world.overview.get(ADMIN)
    assert data.first_steps
    buckets = figures_of(data).buckets
    assert len(buckets) == 48
    assert buckets[-1].start_at <= data.now < buckets[-1].start_at + HALF_HOUR
    assert {bucket.total for bucket in buckets} == {0}
    executor_id = await world.executor()
    assert (await world.overview.get(ADMIN)).first_steps
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    assert not (await world.overview.get(ADMIN)).first_steps
    await world.jobs.delete(ADMIN, job_id)
    assert (await world.overview.get(ADMIN)).first_steps


async def test_everything_is_counted_and_only_what_the_caller_may_see(world: World) -> None:
    billing, other = await world.executor(), await world.executor("other")
    jobs = {
        billing: await world.jobs.create(ADMIN, billing, JOB),
        other: await world.jobs.create(ADMIN, other, JOB | {"name": "theirs"}),
    }
    now = world.now
    old, new = now - 5 * 3_600_000, now - MINUTE
    rows = [
        (billing, "succeeded", old),
        (billing, "failed", old),
        (billing, "timed_out", new),
        (billing, "lost", new),
        (billing, "cancelled", new),
        (billing, "skipped", new),
        (billing, "running", new),
        (billing, "queued", new),
        (billing, "queued", now + MINUTE),  # planned ahead
        (billing, "failed", now - 25 * 3_600_000),  # too old
        (other, "succeeded", new),
        (other, "dispatched", new),
    ]
    ids = world.add_runs(
        {
            "executor_id": executor_id,
            "job_id": jobs[executor_id],
            "state": state,
            "scheduled_at": at,
            "deadline_at": FAR if state in ("running", "dispatched") else None,
            "node_id": 1 if state in ("running", "dispatched") else None,
        }
        for executor_id, state, at in rows
    )
    world.node(billing, slots=4, in_use=1)
    world.node(other, slots=8, in_use=1)
    world.node(other, slots=8, state="dead", ended_at=now)

    data = await world.overview.get(ADMIN)
    assert counts_of(data) == Counts(running=2, waiting=1, live_nodes=2, slots=12, in_use=2)
    figures = figures_of(data)
    assert (figures.whole.total, figures.whole.failures) == (6, 3)
    by_start = {bucket.start_at: bucket for bucket in figures.buckets}
    then = by_start[old - old % HALF_HOUR]
    assert (then.succeeded, then.failed, then.timed_out, then.other) == (1, 1, 0, 0)
    assert figures.whole.timed_out == 1
    assert figures.whole.failed == 2  # one of them lost
    assert figures.whole.other == 1
    assert [item.run.id for item in data.running_now] == [ids[11], ids[6]]
    assert [item.run.id for item in data.recent_failures] == [ids[3], ids[2], ids[1]]

    mine = await world.overview.get(actor_with(Role.VIEWER, billing))
    assert counts_of(mine) == Counts(running=1, waiting=1, live_nodes=1, slots=4, in_use=1)
    assert figures_of(mine).whole.total == 5
    assert [item.run.id for item in mine.running_now] == [ids[6]]
    nobody = await world.overview.get(actor_with(Role.VIEWER))
    assert counts_of(nobody) == Counts(running=0, waiting=0, live_nodes=0, slots=0, in_use=0)
    assert (figures_of(nobody).whole.total, nobody.first_steps) == (0, True)


async def test_what_fires_next_within_the_hour(world: World) -> None:
    executor_id, other = await world.executor(), await world.executor("other")
    soon = world.now + 10 * MINUTE
    at = {"near": soon, "far": soon + 2 * 3_600_000, "paused": soon}
    ids = {
        name: await world.jobs.create(
            ADMIN, executor_id, JOB | {"name": name, "triggers": [{"kind": "once", "at": when}]}
        )
        for name, when in at.items()
    }
    await world.jobs.pause(ADMIN, ids["paused"])
    data = await world.overview.get(ADMIN)
    (job,) = data.next_jobs
    assert (job.id, job.name) == (ids["near"], "near")
    assert [trigger.next_fire_at for trigger in job.triggers] == [soon]
    assert (await world.overview.get(actor_with(Role.VIEWER, other))).next_jobs == []


async def test_what_fires_all_the_time_hides_nothing_that_fires_seldom(world: World) -> None:
    executor_id = await world.executor()
    often = {"kind": "fixed_rate", "every_seconds": 10}
    for number in range(20):
        await world.jobs.create(
            ADMIN, executor_id, JOB | {"name": f"often-{number}", "triggers": [often]}
        )
    now = world.now
    world.change(
        sa.update(tables.trigger).values(last_fire_at=now - 1_000, next_fire_at=now + 9_000)
    )
    seldom = {}
    for name, minutes in (("soon", 1), ("later", 50)):
        once = {"kind": "once", "at": now + minutes * MINUTE}
        seldom[name] = await world.jobs.create(
            ADMIN, executor_id, JOB | {"name": name, "triggers": [once]}
        )
    found = (await world.overview.get(ADMIN)).next_jobs
    assert [job.id for job in found if job.name in seldom] == list(seldom.values())
    assert len(found) == len(seldom) + MAX_FREQUENT


@pytest.mark.every_database(nightly=True)
async def test_admins_and_whether_they_live(world: World) -> None:
    for admin_id, lease in ((1, FAR), (2, 1_000)):
        world.change(
            sa.insert(tables.admin).values(
                id=admin_id,
                name=f"admin-{admin_id}",
                url="http://x",
                version="0.1.0",
                started_at=1,
                lease_expires_at=lease,
                status="{}",
            )
        )
    admins = await world.overview.admins()
    assert [(admin.name, admin.live) for admin in admins] == [("admin-1", True), ("admin-2", False)]


async def test_old_buckets_are_counted_seldom_and_new_ones_always(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    mine = {"executor_id": executor_id, "job_id": job_id}
    old, new = world.now - 5 * 3_600_000, world.now
    assert await total(world) == 0
    world.add_runs([mine | {"scheduled_at": old}, mine | {"scheduled_at": new}])
    assert await total(world) == 1
    monkeypatch.setattr(outcome_counts, "KEPT_SHARE", 10**9)
    assert await total(world) == 2


async def total(world: World) -> int:
    return figures_of(await world.overview.get(ADMIN)).whole.total


def figures_of(data: OverviewData) -> RunFigures:
    assert data.figures is not None
    return data.figures


def counts_of(data: OverviewData) -> Counts:
    assert data.counts is not None
    return data.counts


async def test_a_long_queue_is_counted_up_to_a_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_overview, "COUNT_LIMIT", 5)
    executor_id = await world.executor()
    world.add_runs([{"executor_id": executor_id, "state": "queued", "attempt": 0}] * 9)
    assert counts_of(await world.overview.get(ADMIN)).waiting == 5
