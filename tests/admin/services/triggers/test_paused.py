"""Single triggers that are paused, and fixed delays that go on after the end of their run."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with, daily
from tickwheel_admin.domain.errors import Conflict, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.store.database import tables

pytestmark = pytest.mark.every_database(nightly=True)

EVERY_10 = {"kind": "fixed_rate", "every_seconds": 10, "anchor_at": 0}
YEARLY = {"kind": "cron", "expression": "0 0 1 1 *"}
DELAY = {"kind": "fixed_delay", "every_seconds": 60}


def job(*triggers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return JOB | {"triggers": list(triggers)} | changes


# --- one trigger -----------------------------------------------------------------------------


@pytest.mark.every_database
async def test_one_trigger_is_paused_and_the_others_go_on(world: World, executor_id: int) -> None:
    every_day = daily(world)
    job_id = await world.jobs.create(ADMIN, executor_id, job(every_day, YEARLY))
    first, second = world.triggers_of_job(job_id)
    mine = {"executor_id": executor_id, "job_id": job_id, "state": "queued", "attempt": 0}
    due = world.run(**mine, trigger_id=first.id, scheduled_at=world.now - 1)
    world.run(**mine, trigger_id=first.id, scheduled_at=world.now + 100_000)
    ahead = world.run(**mine, trigger_id=second.id, scheduled_at=world.now + 100_000)
    for _ in range(2):
        await world.jobs.pause_trigger(ADMIN, job_id, first.id)
    paused, untouched = world.triggers_of_job(job_id)
    assert (bool(paused.paused), paused.next_fire_at) == (True, None)
    assert (untouched.version, untouched.next_fire_at) == (second.version, second.next_fire_at)
    assert [row.id for row in world.runs_of_job(job_id)] == [due, ahead]

    # An edit and a pause of the whole job leave it paused.
    await world.jobs.update(ADMIN, job_id, job(every_day, YEARLY, owner="x"), revision=1)
    await world.jobs.pause(ADMIN, job_id)
    await world.jobs.resume(ADMIN, job_id)
    still, _ = world.triggers_of_job(job_id)
    assert (bool(still.paused), still.next_fire_at) == (True, None)

    before = world.now
    for _ in range(2):
        await world.jobs.resume_trigger(ADMIN, job_id, first.id)
    resumed, _ = world.triggers_of_job(job_id)
    assert not resumed.paused
    assert before < resumed.next_fire_at <= world.now + 86_400_000
    actions = [action for action, _ in world.audit()]
    assert (actions.count("trigger.paused"), actions.count("trigger.resumed")) == (1, 1)


async def test_resuming_what_is_not_paused_takes_no_fire_back(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(daily(world)))
    (trigger,) = world.triggers_of_job(job_id)
    of = {"executor_id": executor_id, "job_id": job_id, "trigger_id": trigger.id}
    ahead = world.run(**of, scheduled_at=world.now + 60_000, state="queued", attempt=0)
    await world.jobs.resume_trigger(ADMIN, job_id, trigger.id)
    assert [row.id for row in world.runs_of_job(job_id)] == [ahead]


async def test_a_resumed_trigger_of_a_paused_job_does_not_fire(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10))
    (trigger,) = world.triggers_of_job(job_id)
    await world.jobs.pause_trigger(ADMIN, job_id, trigger.id)
    await world.jobs.pause(ADMIN, job_id)
    await world.jobs.resume_trigger(ADMIN, job_id, trigger.id)
    (waiting,) = world.triggers_of_job(job_id)
    assert (bool(waiting.paused), waiting.next_fire_at) == (False, None)
    await world.jobs.resume(ADMIN, job_id)
    assert world.triggers_of_job(job_id)[0].next_fire_at is not None


async def test_who_may_pause_a_trigger(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10))
    other_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10, name="b"))
    (mine,), (other,) = world.triggers_of_job(job_id), world.triggers_of_job(other_id)
    with pytest.raises(NotAllowed):
        await world.jobs.pause_trigger(actor_with(Role.VIEWER, executor_id), job_id, mine.id)
    with pytest.raises(NotFound):
        await world.jobs.pause_trigger(actor_with(Role.ADMIN, 999), job_id, mine.id)
    with pytest.raises(NotFound):
        await world.jobs.pause_trigger(ADMIN, job_id, other.id)
    world.change(sa.update(tables.trigger).values(spec='{"kind":"cron","expression":"broken"}'))
    with pytest.raises(Conflict) as caught:
        await world.jobs.pause_trigger(ADMIN, job_id, mine.id)
    assert caught.value.code == "trigger.in_error"


# --- overdue fires ---------------------------------------------------------------------------


async def test_an_edit_makes_up_for_as_many_fires_as_the_trigger_says(
    world: World, executor_id: int
) -> None:
    patient = EVERY_10 | {"misfire": "fire_all", "misfire_threshold_seconds": 35}
    job_id = await world.jobs.create(ADMIN, executor_id, job(patient | {"catch_up_limit": 2}))
    overdue = world.now // 10_000 * 10_000 - 100_000
    world.change(sa.update(tables.trigger).values(next_fire_at=overdue))
    await world.jobs.pause(ADMIN, job_id)
    runs = world.runs_of_job(job_id)
    assert [row.state for row in runs].count("skipped") == 1
    assert [row.origin for row in runs if row.state == "queued"][:2] == ["misfire", "misfire"]
    # Younger than the threshold: not missed, though nobody planned it in time.
    on_time = [row.scheduled_at for row in runs if row.origin == "schedule"]
    assert on_time == [at for at in range(overdue, world.now, 10_000) if at >= on_time[0]]
    assert 3 <= len(on_time) <= 4


@pytest.mark.every_database
async def test_what_a_pause_of_everything_holds_back_is_not_written_by_an_edit(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10))
    overdue = world.now // 10_000 * 10_000 - 60_000
    world.change(
        sa.update(tables.trigger).values(next_fire_at=overdue),
        sa.insert(tables.setting).values(name="paused_at", value=str(overdue + 25_000)),
    )
    await world.jobs.update(ADMIN, job_id, job(EVERY_10, owner="x"), revision=1)
    at = [row.scheduled_at for row in world.runs_of_job(job_id)]
    assert max(at) == overdue + 20_000
    (trigger,) = world.triggers_of_job(job_id)
    assert trigger.next_fire_at > world.now - 10_000


# --- fixed delays ----------------------------------------------------------------------------


async def delayed(world: World, executor_id: int, **last_run: Any) -> int:
    """A job with a fixed delay whose last run is as said."""
    job_id = await world.jobs.create(ADMIN, executor_id, job(DELAY))
    (trigger,) = world.triggers_of_job(job_id)
    if last_run:
        world.run(executor_id=executor_id, job_id=job_id, trigger_id=trigger.id, **last_run)
        fired_at = last_run["scheduled_at"]
        world.change(sa.update(tables.trigger).values(next_fire_at=None, last_fire_at=fired_at))
    return job_id


async def test_a_new_fixed_delay_fires_after_its_first_delay(
    world: World, executor_id: int
) -> None:
    before = world.now
    job_id = await delayed(world, executor_id)
    (trigger,) = world.triggers_of_job(job_id)
    assert before + 60_000 <= trigger.next_fire_at <= world.now + 60_000
    await world.jobs.update(ADMIN, job_id, job(DELAY, owner="x"), revision=1)
    (same,) = world.triggers_of_job(job_id)
    assert (same.next_fire_at, same.state) == (trigger.next_fire_at, "active")


@pytest.mark.parametrize("state", ["running", "queued"])
async def test_while_its_run_has_not_ended_it_waits_for_that(
    world: World, executor_id: int, state: str
) -> None:
    job_id = await delayed(world, executor_id, state=state, scheduled_at=1_000, due_at=FAR)
    for edit in (
        world.jobs.update(ADMIN, job_id, job(DELAY, owner="x"), revision=1),
        world.jobs.pause(ADMIN, job_id),
        world.jobs.resume(ADMIN, job_id),
    ):
        await edit
        (trigger,) = world.triggers_of_job(job_id)
        assert (trigger.state, trigger.next_fire_at) == ("active", None)


@pytest.mark.every_database
async def test_after_a_pause_it_goes_on_from_the_end_of_its_last_run(
    world: World, executor_id: int
) -> None:
    ended_at = world.now - 10_000
    job_id = await delayed(world, executor_id, scheduled_at=1_000, ended_at=ended_at)
    await world.jobs.pause(ADMIN, job_id)
    assert world.triggers_of_job(job_id)[0].next_fire_at is None
    await world.jobs.resume(ADMIN, job_id)
    (trigger,) = world.triggers_of_job(job_id)
    assert (trigger.state, trigger.next_fire_at) == ("active", ended_at + 60_000)
    # When that has passed, at once.
    world.change(sa.update(tables.run).values(ended_at=ended_at - 3_600_000))
    await world.jobs.pause(ADMIN, job_id)
    before = world.now
    await world.jobs.resume(ADMIN, job_id)
    assert before <= world.triggers_of_job(job_id)[0].next_fire_at <= world.now


async def test_a_fixed_delay_that_is_overdue_is_written_and_waited_for(
    world: World, executor_id: int
) -> None:
    job_id = await delayed(world, executor_id)
    world.change(sa.update(tables.trigger).values(next_fire_at=world.now - 3_000))
    await world.jobs.update(ADMIN, job_id, job(DELAY, owner="x"), revision=1)
    (run,) = world.runs_of_job(job_id)
    (trigger,) = world.triggers_of_job(job_id)
    assert (run.state, run.job_revision) == ("queued", 1)
    assert (trigger.state, trigger.next_fire_at) == ("active", None)


@pytest.mark.every_database
async def test_a_fixed_delay_of_shards_waits_for_the_whole_fire(
    world: World, executor_id: int
) -> None:
    job_id = await delayed(
        world, executor_id, scheduled_at=1_000, state="running", shard_index=-1, shard_total=2
    )
    (fire,) = world.runs_of_job(job_id)
    shard = {"executor_id": executor_id, "job_id": job_id, "trigger_id": fire.trigger_id}
    world.run(**shard, scheduled_at=1_000, fire_id=fire.id, ended_at=2_000)
    world.run(**shard, scheduled_at=1_000, fire_id=fire.id, shard_index=1, state="running")
    await world.jobs.update(ADMIN, job_id, job(DELAY, owner="x"), revision=1)
    assert world.triggers_of_job(job_id)[0].next_fire_at is None


async def test_who_paused_what_is_noted(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10))
    (trigger,) = world.triggers_of_job(job_id)
    await world.jobs.pause_trigger(ADMIN, job_id, trigger.id)
    (row,) = world.rows(sa.select(tables.audit).where(tables.audit.c.action == "trigger.paused"))
    assert json.loads(row.detail) == {"name": "invoices", "trigger": trigger.id}
