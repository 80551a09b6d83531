"""What retries by hand make of the runs that they do again: shown, filtered, counted once."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.runs.service import RunItem, RunQuery
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.outcome_counts import count_outcomes
from tickwheel_admin.store.runs.retention import delete_runs
from tickwheel_admin.store.runs.runs import lock_runs
from tickwheel_shared.protocol import Outcome

pytestmark = pytest.mark.every_database

SUCCEEDED, FAILED = Outcome.SUCCEEDED, Outcome.FAILED


class Story:
    """Runs of one job."""

    def __init__(self, world: World, executor_id: int, job_id: int) -> None:
        self.world = world
        self.mine: dict[str, Any] = {"executor_id": executor_id, "job_id": job_id}

    def failed(self, **changes: Any) -> int:
        return self.world.run(**self.mine, **({"state": "failed", "ended_at": 1_000} | changes))

    async def retry(self, run_id: int, **changes: Any) -> int:
        return await self.world.runs.retry(ADMIN, run_id, **changes)

    def end(self, run_id: int, outcome: Outcome) -> None:
        """As its node says."""

        def work(conn: sa.Connection) -> None:
            run = lock_runs(conn, [run_id])[run_id]
            claimed = moves.claimed(run, node_id=1, token="t", now=self.world.now).after
            move = moves.ended(
                claimed,
                outcome,
                RetryPolicy(),
                duration_ms=5,
                result=None,
                message=None,
                log_lines=0,
                now=self.world.now,
            )
            begun = sa.update(tables.run).where(tables.run.c.id == run_id)
            conn.execute(begun.values(state="dispatched", attempt=1, node_id=1))
            move_with_follow_ups(conn, [move], configs=JobConfigs(), now=self.world.now)

        self.world.database.run_sync(work)

    async def item(self, run_id: int) -> RunItem:
        return (await self.world.runs.get(ADMIN, run_id)).item

    async def last(self, run_id: int) -> tuple[int, str] | None:
        """The retry that is told of a run."""
        found = (await self.item(run_id)).retried
        return None if found is None else (found.last.id, found.last.state.value)

    async def listed(self, **query: Any) -> set[int]:
        page = await self.world.runs.page(ADMIN, RunQuery(**query))
        assert await self.world.runs.count_matching(ADMIN, RunQuery(**query)) == (
            len(page.items),
            False,
        )
        return {item.run.id for item in page.items}

    def counted(self) -> dict[RunState, int]:
        span = {"from_at": 0, "to_at": 2**45, "bucket_ms": 2**45}
        counts = self.world.database.run_sync(lambda conn: count_outcomes(conn, **span))
        return {each.state: each.runs for each in counts}


@pytest.fixture
async def story(world: World) -> Story:
    executor_id = await world.executor()
    return Story(world, executor_id, await world.jobs.create(ADMIN, executor_id, JOB))


async def test_a_failure_is_resolved_by_the_success_of_a_retry_of_a_retry(story: Story) -> None:
    first, other = story.failed(), story.failed(state="timed_out")
    assert await story.last(first) is None
    second = await story.retry(first)
    assert await story.last(first) == (second, "queued")
    story.end(second, FAILED)
    assert await story.last(first) == (second, "failed")
    assert await story.listed(state="resolved") == set()
    assert story.counted() == {RunState.FAILED: 2, RunState.TIMED_OUT: 1}

    third = await story.retry(second)
    assert await story.last(first) == await story.last(second) == (third, "queued")
    story.end(third, SUCCEEDED)

    for run_id in (first, second):
        item = await story.item(run_id)
        assert item.is_made_good
        assert await story.last(run_id) == (third, "succeeded")
    assert not (await story.item(third)).is_made_good
    detail = await story.world.runs.get(ADMIN, first)
    assert detail.retried_by == sorted((second, third))
    assert await story.listed(state="resolved") == {first, second}
    assert await story.listed(state="unresolved") == {other}
    assert await story.listed(state="failed_any") == {first, second, other}
    assert await story.listed(retried=True) == {first, second}
    assert await story.listed(retried=False, state="failed_any") == {other}
    assert story.counted() == {RunState.SUCCEEDED: 1, RunState.TIMED_OUT: 1}

    # Done again for another reason, it stays resolved; and when its retry is deleted, too.
    fourth = await story.retry(first)
    assert await story.last(first) == (third, "succeeded")
    story.end(fourth, FAILED)
    story.world.database.run_sync(lambda conn: delete_runs(conn, [third, second]))
    assert await story.last(first) == (third, "succeeded")
    assert story.counted() == {RunState.FAILED: 1, RunState.TIMED_OUT: 1}
    left = {row.run_id for row in story.world.rows(sa.select(tables.run_retry.c.run_id))}
    assert left == {first}


async def test_many_retries_leave_out_what_need_not_be_done_again(story: Story) -> None:
    fresh, done, live, again = (story.failed() for _ in range(4))
    story.end(await story.retry(done), SUCCEEDED)
    await story.retry(live)
    story.end(await story.retry(again), FAILED)
    wanted = [fresh, done, live, again]

    bulk = await story.world.runs.retry_many(ADMIN, wanted, request_key="k")
    assert bulk.skipped == {"run.retry_succeeded": 1, "run.retry_goes_on": 1}
    made = {row.id: row.retry_of for row in story.world.runs_of_job(story.mine["job_id"])}
    assert [made[run_id] for run_id in bulk.runs] == [fresh, again]

    # Sent again, it is the same; asked for anew, everything has a retry by now.
    repeated = await story.world.runs.retry_many(ADMIN, wanted, request_key="k")
    assert (repeated.runs, repeated.skipped) == (bulk.runs, bulk.skipped)
    query = RunQuery(state="unresolved")
    matching = await story.world.runs.retry_matching(ADMIN, query, request_key="l")
    assert (matching.done, matching.skipped) == (0, {"run.retry_goes_on": 4})

    told = await story.world.runs.retry_many(ADMIN, wanted, request_key="m", include_retried=True)
    assert (told.done, told.skipped) == (4, {})


async def test_a_fire_is_resolved_when_each_of_its_failed_shards_was_done_again(
    world: World,
) -> None:
    executor_id = await world.executor()
    cut = JOB | {"routing": "shards", "shards": 3}
    story = Story(world, executor_id, await world.jobs.create(ADMIN, executor_id, cut))

    def fire() -> tuple[int, list[int]]:
        fire_id = story.failed(shard_index=-1, shard_total=3)
        states = ("failed", "lost", "succeeded")
        return fire_id, [
            story.failed(state=state, fire_id=fire_id, shard_index=index, shard_total=3)
            for index, state in enumerate(states)
        ]

    def end_shards(of: int) -> None:
        for row in world.runs_of_job(story.mine["job_id"]):
            if row.fire_id == of:
                story.end(row.id, SUCCEEDED)

    whole, shards = fire()
    again = await story.retry(whole, failed_shards_only=True)
    end_shards(again)
    assert [await story.last(each) for each in (whole, *shards)] == [
        (again, "succeeded"),
        (again, "succeeded"),
        (again, "succeeded"),
        None,
    ]

    whole, shards = fire()
    end_shards(await story.retry(shards[0]))
    assert await story.last(whole) is None
    last = await story.retry(shards[1])
    end_shards(last)
    assert await story.last(whole) == (last, "succeeded")
    assert story.counted() == {RunState.SUCCEEDED: 3}  # three retries, without their shards
