"""An executor goes with its jobs when told so: nothing of it waits for nodes that never come."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.engine.sweeper.stalled import cancel_orphans
from tickwheel_admin.services.executors import deletion as executor_deletion
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.jobs.configs import JobConfigs

RATE = {"kind": "fixed_rate", "every_seconds": 60}


@pytest.mark.every_database
async def test_all_of_it_goes_in_steps_and_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_deletion, "JOBS_PER_STEP", 2)
    monkeypatch.setattr(executor_deletion, "RUNS_PER_STEP", 3)
    monkeypatch.setattr("tickwheel_admin.services.executors.service.JOBS_PER_STEP", 2)
    billing, other = await world.executor(), await world.executor("other")
    jobs = [
        await world.jobs.create(ADMIN, billing, JOB | {"name": f"job-{n}", "triggers": [RATE]})
        for n in range(5)
    ]
    spared = await world.jobs.create(ADMIN, other, JOB | {"triggers": [RATE]})
    node_id = world.node(billing, in_use=2)
    mine = {"executor_id": billing, "attempt": 0, "due_at": FAR}
    waiting = world.add_runs(
        mine | {"job_id": job_id, "state": "queued"} for job_id in jobs for _ in range(2)
    )
    mine |= {"job_id": jobs[0], "attempt": 1}
    tried = world.run(**mine, state="queued", reason="retry_after_failed")
    live = {"node_id": node_id, "state": "running", "started_at": 1}
    running = world.run(**mine, **live)
    timed_out = world.run(**mine, **live, cancel_requested_at=5, cancel_reason="timeout")
    fire = world.run(**mine, state="running", shard_index=-1, shard_total=2)
    ended = world.run(**mine, state="succeeded", shard_index=0, fire_id=fire)
    last = world.run(**mine, state="queued", shard_index=1, fire_id=fire)
    theirs = world.run(executor_id=other, job_id=spared, state="queued", due_at=FAR)

    await world.executors.delete(ADMIN, billing, with_jobs=True)

    rows = {row.id: row for row in world.rows(sa.select(tables.run))}
    for run_id in (*waiting, tried, last):
        assert (rows[run_id].state, rows[run_id].reason) == ("cancelled", "job_deleted")
    for run_id in (running, timed_out):  # their nodes are sent away: no other try may follow
        assert (rows[run_id].state, rows[run_id].cancel_reason) == ("running", "operator")
    assert [rows[run_id].state for run_id in (fire, ended)] == ["cancelled", "succeeded"]
    assert rows[theirs].state == "queued"
    deleted = sa.select(tables.job.c.id).where(tables.job.c.deleted_at != 0)
    assert {row.id for row in world.rows(deleted)} == set(jobs)
    assert {row.job_id for row in world.rows(sa.select(tables.trigger.c.job_id))} == {spared}
    assert [each.name for each in await world.executors.list(ADMIN)] == ["other"]
    noted = world.audit()
    assert sorted(job_id for action, job_id in noted if action == "job.deleted") == sorted(jobs)
    assert noted[-1] == ("executor.deleted", billing)
    assert await world.executor() != billing  # its name is free again
    with pytest.raises(NotFound):
        await world.executors.delete(ADMIN, billing, with_jobs=True)


async def test_jobs_are_kept_unless_their_end_is_asked_for(world: World) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"triggers": [RATE]})
    run_id = await world.jobs.run_now(ADMIN, job_id)
    with pytest.raises(Conflict) as caught:
        await world.executors.delete(ADMIN, executor_id)
    assert caught.value.code == "executor.has_jobs"
    assert caught.value.params == {"name": "billing", "jobs": "1"}
    assert (await world.runs.get(ADMIN, run_id)).item.run.state == "queued"
    assert len(world.triggers_of_job(job_id)) == 1
    for actor, refusal in (
        (actor_with(Role.DEVELOPER, executor_id), NotAllowed),
        (actor_with(Role.ADMIN, 999), NotFound),
    ):
        with pytest.raises(refusal):
            await world.executors.delete(actor, executor_id, with_jobs=True)
    assert len(await world.executors.list(ADMIN)) == 1


async def test_deleting_again_goes_on_where_it_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_id = await world.executor()
    monkeypatch.setattr(executor_deletion, "JOBS_PER_STEP", 1)
    monkeypatch.setattr("tickwheel_admin.services.executors.service.JOBS_PER_STEP", 1)
    for n in range(3):
        await world.jobs.create(ADMIN, executor_id, JOB | {"name": f"job-{n}"})
    steps = iter(range(2))

    def interrupted(*args: object, **kwargs: object) -> int | None:
        if next(steps, None) is None:
            raise InterruptedError
        return executor_deletion.delete_some_jobs(*args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr("tickwheel_admin.services.executors.service.delete_some_jobs", interrupted)
        with pytest.raises(InterruptedError):
            await world.executors.delete(ADMIN, executor_id, with_jobs=True)
    (left,) = await world.executors.list(ADMIN)
    assert left.jobs == 1
    await world.executors.delete(ADMIN, executor_id, with_jobs=True)
    assert await world.executors.list(ADMIN) == []


@pytest.mark.every_database
async def test_what_came_while_it_was_deleted_does_not_wait_for_ever(world: World) -> None:
    billing, other = await world.executor(), await world.executor("other")
    mine = await world.jobs.create(ADMIN, billing, JOB)
    spared = await world.jobs.create(ADMIN, other, JOB)
    await world.executors.delete(ADMIN, billing, with_jobs=True)
    late = world.run(executor_id=billing, job_id=mine, state="queued", due_at=FAR)
    theirs = world.run(executor_id=other, job_id=spared, state="queued", due_at=FAR)

    found = [await world.database.run(cancel_orphans, JobConfigs()) for _ in range(2)]

    assert [cancelled for cancelled, _ in found] == [1, 0]
    rows = {row.id: row for row in world.rows(sa.select(tables.run))}
    assert (rows[late].state, rows[late].reason) == ("cancelled", "job_deleted")
    assert rows[theirs].state == "queued"
