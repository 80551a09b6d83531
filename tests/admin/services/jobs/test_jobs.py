"""Jobs: edits that leave every fire in exactly one version, runs by hand, and who may do what."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with, daily
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.events.events import JOBS, QUEUED, TRIGGERS
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.store.database import tables

pytestmark = pytest.mark.every_database(nightly=True)

EVERY_10 = {"kind": "fixed_rate", "every_seconds": 10, "anchor_at": 0}
EVERY_MINUTE = {"kind": "cron", "expression": "* * * * *"}
YEARLY = {"kind": "cron", "expression": "0 0 1 1 *"}


def job(*triggers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return JOB | {"triggers": list(triggers)} | changes


# --- adding ----------------------------------------------------------------------------------


@pytest.mark.every_database
async def test_a_new_job_has_a_revision_triggers_and_an_audit_row(
    world: World, executor_id: int
) -> None:
    heard: list[str] = []
    for topic in (JOBS, TRIGGERS):
        world.events.listen(topic, lambda topic=topic: heard.append(topic))
    before = world.now
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10, YEARLY, tags=["x"]))
    detail = await world.jobs.get(ADMIN, job_id)
    assert detail.item.job.revision == 1
    assert detail.item.job.config.tags == ("x",)
    assert detail.item.executor_name == "billing"
    assert len(detail.next_fires) == 5
    assert detail.next_fires == sorted(detail.next_fires)
    assert detail.item.next_fire_at == detail.next_fires[0]
    first, second = world.triggers_of_job(job_id)
    assert before < first.next_fire_at <= world.now + 10_000
    assert first.next_fire_at % 10_000 == 0
    assert second.next_fire_at > first.next_fire_at
    assert {first.bucket, second.bucket} == {first.id % 16, second.id % 16}
    assert heard == [JOBS, TRIGGERS]
    assert ("job.created", job_id) in world.audit()
    (revision,) = world.rows(sa.select(tables.job_revision))
    assert (revision.revision, revision.created_by) == (1, "ada")


@pytest.mark.every_database
async def test_names_are_unique_within_an_executor(world: World, executor_id: int) -> None:
    first = await world.jobs.create(ADMIN, executor_id, JOB)
    with pytest.raises(Conflict) as caught:
        await world.jobs.create(ADMIN, executor_id, JOB)
    assert caught.value.code == "job.name_taken"
    await world.jobs.create(ADMIN, await world.executor("other"), JOB)
    second = await world.jobs.create(ADMIN, executor_id, job(name="b"))
    with pytest.raises(Conflict):
        await world.jobs.update(ADMIN, second, JOB, revision=1)
    await world.jobs.delete(ADMIN, first)
    assert await world.jobs.update(ADMIN, second, JOB, revision=1) == 2


@pytest.mark.every_database
async def test_the_loser_of_a_race_for_a_name_gets_a_conflict(
    world: World, executor_id: int
) -> None:
    results = await asyncio.gather(
        *(world.jobs.create(ADMIN, executor_id, JOB) for _ in range(4)), return_exceptions=True
    )
    errors = [result for result in results if isinstance(result, BaseException)]
    assert len(errors) == 3
    assert {getattr(error, "code", error) for error in errors} == {"job.name_taken"}


async def test_a_handler_that_no_live_node_offers_is_refused(
    world: World, executor_id: int
) -> None:
    await world.jobs.create(ADMIN, executor_id, job(name="before any node"))
    world.node(executor_id, handlers=["send-reminders", "export"])
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.create(ADMIN, executor_id, job(handler="send-reminder"))
    (problem,) = caught.value.problems
    assert (problem.field, problem.code) == ("handler", "handler.unknown")
    assert "did you mean “send-reminders”" in problem.message
    assert "export" in problem.message
    await world.jobs.create(ADMIN, executor_id, job(handler="export"))


async def test_an_instant_in_the_past_would_never_fire(world: World, executor_id: int) -> None:
    past = {"kind": "once", "at": "2001-01-01T00:00:00Z"}
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.create(ADMIN, executor_id, job(EVERY_10, past))
    assert [p.field for p in caught.value.problems] == ["triggers[1]"]
    assert world.rows(sa.select(tables.job)) == []


# --- editing ---------------------------------------------------------------------------------


async def test_an_edit_from_an_old_revision_changes_nothing(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    assert await world.jobs.update(ADMIN, job_id, job(owner="a"), revision=1) == 2
    with pytest.raises(Conflict) as caught:
        await world.jobs.update(ADMIN, job_id, job(owner="b"), revision=1)
    assert caught.value.code == "job.changed"
    assert (await world.jobs.get(ADMIN, job_id)).item.job.config.owner == "a"


@pytest.mark.every_database
async def test_of_two_edits_at_once_one_wins(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    results = await asyncio.gather(
        *(world.jobs.update(ADMIN, job_id, job(owner=o), revision=1) for o in "abc"),
        return_exceptions=True,
    )
    assert sorted(getattr(result, "code", result) for result in results if result != 2) == [
        "job.changed",
        "job.changed",
    ]


async def test_an_edit_that_changes_nothing_makes_no_revision(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10))
    raw = job_to_raw((await world.jobs.get(ADMIN, job_id)).item.job.config)
    assert await world.jobs.update(ADMIN, job_id, raw, revision=1) == 1


@pytest.mark.every_database
async def test_unchanged_triggers_keep_their_row_and_others_are_replaced(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10, YEARLY))
    kept, dropped = world.triggers_of_job(job_id)
    raw = job(EVERY_MINUTE, EVERY_10, owner="me")
    assert await world.jobs.update(ADMIN, job_id, raw, revision=1) == 2
    after = world.triggers_of_job(job_id)
    assert after[0].id == kept.id
    assert dropped.id not in [t.id for t in after]
    assert after[0].next_fire_at >= kept.next_fire_at
    assert after[0].created_at == kept.created_at
    assert after[0].version == kept.version + 1
    assert len(after) == 2


@pytest.mark.every_database
async def test_an_edit_takes_back_what_nobody_claimed_and_plans_it_anew(
    world: World, executor_id: int
) -> None:
    """G11: fires ahead of now run with the new revision, each exactly once."""
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10))
    (trigger,) = world.triggers_of_job(job_id)
    ahead = trigger.next_fire_at + 100_000  # far enough for the test to take its time
    mine = {"executor_id": executor_id, "job_id": job_id, "trigger_id": trigger.id}
    due = world.run(**mine, state="queued", attempt=0, scheduled_at=ahead - 200_000)
    world.run(**mine, state="queued", attempt=0, scheduled_at=ahead)
    claimed = world.run(**mine, state="dispatched", attempt=1, scheduled_at=ahead + 10_000)
    world.run(**mine, state="queued", attempt=0, scheduled_at=ahead + 20_000)
    world.change(
        sa.update(tables.trigger).values(next_fire_at=ahead + 30_000, last_fire_at=ahead + 20_000)
    )
    await world.jobs.update(ADMIN, job_id, job(EVERY_10, owner="me"), revision=1)
    assert [row.id for row in world.runs_of_job(job_id)] == [due, claimed]
    (after,) = world.triggers_of_job(job_id)
    # Behind the claimed one, for that stays: no instant may be planned twice.
    assert after.next_fire_at == ahead + 20_000
    assert after.last_fire_at == ahead + 10_000


async def test_overdue_fires_are_planned_under_the_old_version(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10))
    (trigger,) = world.triggers_of_job(job_id)
    overdue = world.now // 10_000 * 10_000 - 30_000
    world.change(sa.update(tables.trigger).values(next_fire_at=overdue))
    await world.jobs.update(ADMIN, job_id, job(YEARLY), revision=1)
    runs = world.runs_of_job(job_id)
    # The latest missed one runs, the older ones are told of in a skipped run.
    assert {row.state for row in runs} == {"skipped", "queued"}
    assert {row.job_revision for row in runs} == {1}
    assert {row.trigger_id for row in runs} == {trigger.id}
    assert runs[-1].scheduled_at <= world.now
    told = json.loads(next(row.message for row in runs if row.state == "skipped"))
    assert told["from"] == overdue


@pytest.mark.every_database
async def test_pause_stops_planning_and_resume_skips_what_was_missed(
    world: World, executor_id: int
) -> None:
    every_day = daily(world)
    job_id = await world.jobs.create(ADMIN, executor_id, job(every_day))
    (trigger,) = world.triggers_of_job(job_id)
    mine = {"executor_id": executor_id, "job_id": job_id, "trigger_id": trigger.id}
    due = world.run(**mine, state="queued", attempt=0, scheduled_at=world.now - 1)
    world.run(**mine, state="queued", attempt=0, scheduled_at=world.now + 100_000)
    await world.jobs.pause(ADMIN, job_id)
    await world.jobs.pause(ADMIN, job_id)
    (paused,) = world.triggers_of_job(job_id)
    assert paused.next_fire_at is None
    assert [row.id for row in world.runs_of_job(job_id)] == [due]
    detail = await world.jobs.get(ADMIN, job_id)
    assert detail.item.job.paused
    assert (detail.item.next_fire_at, detail.next_fires) == (None, [])

    await world.jobs.update(ADMIN, job_id, job(every_day, YEARLY), revision=1)
    assert [t.next_fire_at for t in world.triggers_of_job(job_id)] == [None, None]

    before = world.now
    await world.jobs.resume(ADMIN, job_id)
    await world.jobs.resume(ADMIN, job_id)
    resumed, yearly = world.triggers_of_job(job_id)
    assert before < resumed.next_fire_at <= world.now + 86_400_000
    assert yearly.next_fire_at is not None
    assert [row.id for row in world.runs_of_job(job_id)] == [due]
    assert [action for action, _ in world.audit()] == [
        "executor.created",
        "job.created",
        "job.paused",
        "job.updated",
        "job.resumed",
    ]


async def test_a_trigger_with_nothing_left_to_fire_is_complete(
    world: World, executor_id: int
) -> None:
    once = {"kind": "once", "at": world.now + 3_600_000}
    job_id = await world.jobs.create(ADMIN, executor_id, job(once))
    await world.jobs.pause(ADMIN, job_id)
    world.change(
        sa.update(tables.trigger).values(
            spec='{"kind":"once","at":1000000000000,"misfire":"fire_once"}'
        )
    )
    await world.jobs.resume(ADMIN, job_id)
    (trigger,) = world.triggers_of_job(job_id)
    assert (trigger.state, trigger.next_fire_at) == ("complete", None)


@pytest.mark.every_database
async def test_deleting_cancels_what_waits_and_lets_live_runs_go_on(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job(EVERY_10))
    mine = {"executor_id": executor_id, "job_id": job_id}
    other = world.run(executor_id=executor_id, job_id=job_id + 1, state="queued", attempt=0)
    waiting = world.add_runs([mine | {"state": "queued", "attempt": 0}] * 1_203)
    live = world.run(**mine, state="running", deadline_at=FAR)
    again = world.run(**mine, state="queued", attempt=1)
    await world.jobs.delete(ADMIN, job_id)
    states = {row.id: (row.state, row.reason) for row in world.runs_of_job(job_id)}
    assert {states[run_id] for run_id in waiting} == {("cancelled", "job_deleted")}
    assert (states[live][0], states[again][0]) == ("running", "queued")
    assert world.rows(sa.select(tables.run.c.state).where(tables.run.c.id == other)) == [
        ("queued",)
    ]
    assert world.triggers_of_job(job_id) == []
    assert [action for action, _ in world.audit()][-1] == "job.deleted"
    for use in (
        world.jobs.get(ADMIN, job_id),
        world.jobs.pause(ADMIN, job_id),
        world.jobs.run_now(ADMIN, job_id),
        world.jobs.update(ADMIN, job_id, JOB, revision=1),
        world.jobs.delete(ADMIN, job_id),
    ):
        with pytest.raises(NotFound):
            await use
    assert (await world.jobs.page(ADMIN, JobQuery())).items == []


# --- running by hand -------------------------------------------------------------------------


async def test_a_run_by_hand_keeps_its_parameters_and_who_asked(
    world: World, executor_id: int
) -> None:
    heard: list[str] = []
    world.events.listen(QUEUED, lambda: heard.append(QUEUED))
    job_id = await world.jobs.create(ADMIN, executor_id, job(priority=3))
    heard.clear()
    await world.jobs.pause(ADMIN, job_id)  # a paused job can still be run by hand
    run_id = await world.jobs.run_now(ADMIN, job_id, parameters='{ "n": 12345678901234567890 }')
    (row,) = world.runs_of_job(job_id)
    assert row.id == run_id
    assert (row.state, row.origin, row.requested_by, row.priority) == (
        "queued",
        "manual",
        "ada",
        3,
    )
    assert row.parameters == '{"n":12345678901234567890}'
    assert row.due_at == row.scheduled_at <= world.now
    assert QUEUED in heard
    assert world.audit()[-1] == ("run.requested", run_id)


@pytest.mark.every_database
async def test_the_same_request_is_one_run(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    ids = await asyncio.gather(
        *(world.jobs.run_now(ADMIN, job_id, request_key="form-1") for _ in range(4))
    )
    assert len(set(ids)) == 1
    assert await world.jobs.run_now(ADMIN, job_id, request_key="form-2") not in ids
    assert len(world.runs_of_job(job_id)) == 2
    assert [action for action, _ in world.audit()].count("run.requested") == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"parameters": "[1]"}, "parameters"),
        ({"parameters": "{"}, "parameters"),
        ({"request_key": ""}, "request_key"),
        ({"request_key": "x" * 101}, "request_key"),
        ({"request_key": "a\x00b"}, "request_key"),
        ({"request_key": "step:1:load:0"}, "request_key"),
        ({"request_key": "backfill:1:0"}, "request_key"),
    ],
)
async def test_bad_requests_are_refused(
    world: World, executor_id: int, changes: dict[str, str], field: str
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.run_now(ADMIN, job_id, **changes)  # type: ignore[arg-type]
    assert [p.field for p in caught.value.problems] == [field]
    assert world.runs_of_job(job_id) == []


# --- who may do what -------------------------------------------------------------------------


async def test_each_role_may_do_what_it_says(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    viewer = actor_with(Role.VIEWER, executor_id)
    operator = actor_with(Role.OPERATOR, executor_id)
    developer = actor_with(Role.DEVELOPER, executor_id)
    for refused in (
        world.jobs.pause(viewer, job_id),
        world.jobs.resume(viewer, job_id),
        world.jobs.run_now(viewer, job_id),
        world.jobs.update(operator, job_id, {"not": "looked at"}, revision=1),
        world.jobs.delete(operator, job_id),
        world.jobs.create(operator, executor_id, JOB),
    ):
        with pytest.raises(NotAllowed):
            await refused
    assert (await world.jobs.get(viewer, job_id)).item.job.id == job_id
    await world.jobs.pause(operator, job_id)
    await world.jobs.resume(operator, job_id)
    await world.jobs.run_now(operator, job_id)
    assert await world.jobs.update(developer, job_id, job(owner="x"), revision=1) == 2
    await world.jobs.delete(developer, job_id)


async def test_jobs_of_other_executors_do_not_exist(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    stranger = actor_with(Role.ADMIN, await world.executor("other"))
    for use in (
        world.jobs.get(stranger, job_id),
        world.jobs.pause(stranger, job_id),
        world.jobs.resume(stranger, job_id),
        world.jobs.delete(stranger, job_id),
        world.jobs.run_now(stranger, job_id),
        world.jobs.update(stranger, job_id, JOB, revision=1),
        world.jobs.create(stranger, executor_id, JOB),
    ):
        with pytest.raises(NotFound):
            await use
    assert (await world.jobs.page(stranger, JobQuery())).items == []
    query = JobQuery(executor_id=executor_id)
    assert (await world.jobs.page(stranger, query)).items == []


async def test_asking_for_runs_does_not_turn_the_round_robin(world: World) -> None:
    """The row of the job is written to lock it, and whose turn it is stays as it was."""
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    for _ in range(3):
        await world.jobs.run_now(ADMIN, job_id)
    (row,) = world.rows(sa.select(tables.job.c.route_cursor).where(tables.job.c.id == job_id))
    assert {row.route_cursor % nodes for nodes in range(1, 17)} == {0}
