"""Stopping runs: whole fires, what follows, release, and what a queued run waits for."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, NotAllowed, NotFound
from tickwheel_admin.domain.runs.run import PARKED_AT
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.store.database import tables

pytestmark = pytest.mark.every_database(nightly=True)

DELAY = {"kind": "fixed_delay", "every_seconds": 60}


async def job_with(world: World, executor_id: int, **changes: Any) -> int:
    return await world.jobs.create(ADMIN, executor_id, JOB | changes)


def row_of(world: World, run_id: int) -> Any:
    (row,) = world.rows(sa.select(tables.run).where(tables.run.c.id == run_id))
    return row


# --- cancel ----------------------------------------------------------------------------------


async def test_a_live_run_is_told_who_wants_it_stopped(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id)
    run_id = world.run(executor_id=executor_id, job_id=job_id, state="running", deadline_at=FAR)
    await world.runs.cancel(ADMIN, run_id)
    row = row_of(world, run_id)
    assert (row.state, row.cancel_reason, row.cancelled_by) == ("running", "operator", "ada")
    assert row.deadline_at == row.cancel_requested_at


async def test_a_waiting_run_keeps_who_cancelled_it(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id)
    one, other = [await world.jobs.run_now(ADMIN, job_id) for _ in range(2)]
    await world.runs.cancel(ADMIN, one)
    await world.runs.cancel_many(ADMIN, [other])
    assert {row_of(world, run_id).cancelled_by for run_id in (one, other)} == {"ada"}


@pytest.mark.every_database
async def test_what_follows_from_a_cancelled_run_happens(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, triggers=[DELAY])
    (trigger,) = world.triggers_of_job(job_id)
    fired_at = world.now
    waiting = world.run(
        executor_id=executor_id,
        job_id=job_id,
        trigger_id=trigger.id,
        state="queued",
        attempt=0,
        tries=0,
        scheduled_at=fired_at,
    )
    world.change(sa.update(tables.trigger).values(next_fire_at=None, last_fire_at=fired_at))
    before = world.now
    await world.runs.cancel(ADMIN, waiting)
    (armed,) = world.triggers_of_job(job_id)
    assert before + 60_000 <= armed.next_fire_at <= world.now + 60_000


@pytest.mark.every_database
async def test_the_last_shard_that_is_cancelled_ends_its_fire(
    world: World, executor_id: int
) -> None:
    child = await job_with(world, executor_id, name="child")
    job_id = await job_with(
        world,
        executor_id,
        routing="shards",
        shards=2,
        children=[{"job": child, "on": "failure"}],
    )
    mine = {"executor_id": executor_id, "job_id": job_id, "shard_total": 2}
    fire = world.run(**mine, shard_index=-1, state="running", deadline_at=FAR)
    world.run(**mine, fire_id=fire, shard_index=0, state="failed", ended_at=1_000)
    last = world.run(**mine, fire_id=fire, shard_index=1, state="queued", attempt=0, tries=0)
    await world.runs.cancel(ADMIN, last)
    ended = row_of(world, fire)
    assert (ended.state, ended.reason) == ("failed", "shards")
    detail = await world.runs.get(ADMIN, fire)
    assert [item.run.state for item in detail.shards] == ["failed", "cancelled"]
    assert [item.run.job_id for item in detail.children] == [child]
    assert [row.parent_run_id for row in world.runs_of_job(child)] == [fire]


@pytest.mark.every_database
async def test_a_whole_fire_is_asked_to_stop(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, routing="shards", shards=2)
    mine = {"executor_id": executor_id, "job_id": job_id, "shard_total": 2}
    fire = world.run(**mine, shard_index=-1, state="running", deadline_at=FAR)
    await world.runs.cancel(ADMIN, fire)
    row = row_of(world, fire)
    assert (row.state, row.cancel_reason) == ("running", "operator")
    assert row.deadline_at <= world.now  # the sweeper stops the shards


# --- release ---------------------------------------------------------------------------------


@pytest.mark.every_database
async def test_only_what_was_asked_to_stop_is_released(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, blocking="serial")
    node_id = world.node(executor_id, in_use=1)
    mine = {"executor_id": executor_id, "job_id": job_id}
    run_id = world.run(
        **mine, node_id=node_id, state="running", deadline_at=FAR, blocking_key=job_id * 2 + 1
    )
    parked = world.run(
        **mine, state="queued", attempt=0, tries=0, due_at=PARKED_AT, blocking_key=job_id * 2
    )
    with pytest.raises(Conflict) as caught:
        await world.runs.release(ADMIN, run_id)
    assert caught.value.code == "run.not_stopping"
    await world.runs.cancel(ADMIN, run_id)
    with pytest.raises(NotAllowed):
        await world.runs.release(actor_with(Role.VIEWER, executor_id), run_id)
    with pytest.raises(NotFound):
        await world.runs.release(actor_with(Role.ADMIN, 999), run_id)
    await world.runs.release(actor_with(Role.OPERATOR, executor_id), run_id)
    row = row_of(world, run_id)
    assert (row.state, row.reason, row.blocking_key) == ("cancelled", "released", None)
    (node,) = world.rows(sa.select(tables.node.c.in_use))
    assert node.in_use == 0
    assert row_of(world, parked).due_at <= world.now  # its turn has come
    with pytest.raises(Conflict) as caught:
        await world.runs.release(ADMIN, run_id)
    assert caught.value.code == "run.ended"
    with pytest.raises(Conflict) as caught:
        await world.runs.release(ADMIN, parked)
    assert caught.value.code == "run.not_stopping"
    assert [action for action, _ in world.audit()][-2:] == ["run.cancelled", "run.released"]


@pytest.mark.parametrize("shard_index", [-1, -2])
async def test_what_others_do_the_work_of_is_not_released(
    world: World, executor_id: int, shard_index: int
) -> None:
    """A fire with shards, or a workflow: they run on, and the next one would run beside them."""
    run_id = world.run(
        executor_id=executor_id,
        job_id=await job_with(world, executor_id),
        state="running",
        shard_index=shard_index,
        cancel_requested_at=1,
    )
    with pytest.raises(Conflict) as caught:
        await world.runs.release(ADMIN, run_id)
    assert caught.value.code == "run.not_stopping"


# --- waiting ---------------------------------------------------------------------------------


async def test_a_parked_run_names_what_it_waits_for(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, blocking="serial", concurrency=2)
    mine = {"executor_id": executor_id, "job_id": job_id}
    waiting = {"state": "queued", "attempt": 0, "tries": 0, "due_at": PARKED_AT}
    run_id = world.run(**mine, **waiting, blocking_key=job_id * 2, deadline_at=FAR)
    detail = await world.runs.get(ADMIN, run_id)
    assert detail.waiting is not None
    assert (detail.waiting.code, detail.waiting.runs) == ("blocked", ())
    assert detail.waiting.start_by == FAR
    live = {"state": "running", "deadline_at": FAR, "blocking_key": job_id * 2 + 1}
    first = world.run(**mine, **live)
    waits = (await world.runs.get(ADMIN, run_id)).waiting
    assert waits is not None
    assert waits.template % waits.params == f"It waits for run {first}."
    second = world.run(**mine, **live)
    waits = (await world.runs.get(ADMIN, run_id)).waiting
    assert waits is not None
    assert waits.runs == (first, second)
    assert waits.template % waits.params == "It waits until one of 2 earlier runs has ended."


async def test_a_shard_waits_for_the_same_shard_only(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, routing="shards", shards=2, blocking="serial")
    mine = {"executor_id": executor_id, "job_id": job_id, "shard_total": 2}
    live = {"state": "running", "deadline_at": FAR, "blocking_key": job_id * 2 + 1}
    world.run(**mine, **live, shard_index=0, fire_id=5)
    same = world.run(**mine, **live, shard_index=1, fire_id=5)
    waiting = world.run(
        **mine,
        state="queued",
        attempt=0,
        tries=0,
        due_at=PARKED_AT,
        blocking_key=job_id * 2,
        shard_index=1,
        fire_id=6,
    )
    waits = (await world.runs.get(ADMIN, waiting)).waiting
    assert waits is not None
    assert waits.runs == (same,)


async def test_pauses_and_nodes_that_take_nothing_are_named(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, routing="broadcast")
    node_id = world.node(executor_id)
    began = world.now
    queued = {"state": "queued", "attempt": 0, "tries": 0}
    mine = {"executor_id": executor_id, "job_id": job_id} | queued
    fired = world.run(**mine, trigger_id=7, shard_index=-1, scheduled_at=began + 1)
    by_hand = world.run(**mine, shard_index=-1, scheduled_at=began)
    shard = world.run(**mine, trigger_id=7, fire_id=5, pinned_node_id=node_id)

    async def codes() -> list[str | None]:
        found = []
        for run_id in (fired, by_hand, shard):
            waits = (await world.runs.get(ADMIN, run_id)).waiting
            assert waits is not None
            assert waits.template % waits.params
            found.append(waits.code)
        return found

    assert (await codes())[1:] == ["starting", "starting"]
    node = sa.update(tables.node)
    world.change(node.values(in_use=4))
    assert (await codes())[1:] == ["no_free_slot", "pinned_node"]
    await world.nodes.cordon(ADMIN, node_id)
    assert (await codes())[1:] == ["cordoned", "pinned_node"]
    assert (await world.runs.get(ADMIN, shard)).item.node_name == f"host-{node_id}"
    world.change(
        node.values(state="dead"),
        sa.update(tables.executor).values(paused_at=began - 1_000),
    )
    assert await codes() == ["paused", "no_live_node", "pinned_node"]
