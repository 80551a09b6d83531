"""The overview: counts, buckets, what runs, what failed, what comes next; within scope."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.admin.world import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.user import Role
from tickwheel_admin.services import overview
from tickwheel_admin.services.overview import BUCKET_MS
from tickwheel_admin.store import overview as store_overview
from tickwheel_admin.store import tables

MINUTE = 60_000


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.close()


async def test_an_empty_installation_shows_first_steps(world: World) -> None:
    data = await world.overview.get(ADMIN)
    assert data.first_steps
    assert len(data.buckets) == 48
    assert data.buckets[-1].start_at <= data.now < data.buckets[-1].start_at + BUCKET_MS
    assert {bucket.total for bucket in data.buckets} == {0}
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
    assert (data.running, data.waiting) == (2, 1)
    assert (data.total_24h, data.failed_24h) == (6, 3)
    assert (data.live_nodes, data.slots, data.in_use) == (2, 12, 2)
    by_start = {bucket.start_at: bucket for bucket in data.buckets}
    then = by_start[old - old % BUCKET_MS]
    assert (then.succeeded, then.failed, then.timed_out, then.other) == (1, 1, 0, 0)
    assert sum(bucket.timed_out for bucket in data.buckets) == 1
    assert sum(bucket.failed for bucket in data.buckets) == 2  # one of them lost
    assert sum(bucket.other for bucket in data.buckets) == 1
    assert [item.run.id for item in data.running_now] == [ids[11], ids[6]]
    assert [item.run.id for item in data.recent_failures] == [ids[3], ids[2], ids[1]]

    mine = await world.overview.get(actor_with(Role.VIEWER, billing))
    assert (mine.running, mine.waiting, mine.total_24h) == (1, 1, 5)
    assert (mine.live_nodes, mine.slots) == (1, 4)
    assert [item.run.id for item in mine.running_now] == [ids[6]]
    nobody = await world.overview.get(actor_with(Role.VIEWER))
    assert (nobody.running, nobody.waiting, nobody.total_24h, nobody.first_steps) == (0, 0, 0, True)


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
    assert data.next_fires == [(soon, ids["near"], "near")]
    assert (await world.overview.get(actor_with(Role.VIEWER, other))).next_fires == []


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
    admins = (await world.overview.get(ADMIN)).admins
    assert [(admin.name, admin.live) for admin in admins] == [("admin-1", True), ("admin-2", False)]


async def test_old_buckets_are_counted_seldom_and_new_ones_always(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    mine = {"executor_id": executor_id, "job_id": job_id}
    old, new = world.now - 5 * 3_600_000, world.now
    assert (await world.overview.get(ADMIN)).total_24h == 0
    world.add_runs([mine | {"scheduled_at": old}, mine | {"scheduled_at": new}])
    assert (await world.overview.get(ADMIN)).total_24h == 1
    monkeypatch.setattr(overview, "OLD_COUNTS_KEPT_MS", 0)
    assert (await world.overview.get(ADMIN)).total_24h == 2


async def test_a_long_queue_is_counted_up_to_a_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_overview, "COUNT_LIMIT", 5)
    executor_id = await world.executor()
    world.add_runs([{"executor_id": executor_id, "state": "queued", "attempt": 0}] * 9)
    assert (await world.overview.get(ADMIN)).waiting == 5
