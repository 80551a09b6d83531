"""Runs: lists, one run, cancel and retry."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tests.support.nightly import IS_NIGHT
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.events.events import CANCEL
from tickwheel_admin.services.runs.service import RunQuery
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs import pages as run_pages

pytestmark = pytest.mark.every_database(nightly=True)

STATES = ["succeeded", "failed", "running", "queued", "lost", "timed_out", "skipped"]


@pytest.fixture
async def job_id(world: World) -> int:
    return await world.jobs.create(ADMIN, await world.executor(), JOB)


async def executor_of(world: World, job_id: int) -> int:
    return (await world.jobs.get(ADMIN, job_id)).item.job.executor_id


async def all_pages(
    world: World, query: RunQuery, *, limit: int, actor: Actor = ADMIN
) -> list[int]:
    seen: list[int] = []
    cursor = None
    while True:
        page = await world.runs.page(actor, query, cursor=cursor, limit=limit)
        assert len(page.items) <= limit
        seen += (item.run.id for item in page.items)
        cursor = page.next
        if cursor is None:
            return seen


# --- lists -----------------------------------------------------------------------------------


@pytest.fixture
async def ledger(world: World) -> dict[int, dict[str, Any]]:
    """60 runs of three jobs of two executors in all states, many at the same instant."""
    billing, other = await world.executor(), await world.executor("other")
    jobs = [
        (billing, await world.jobs.create(ADMIN, billing, JOB)),
        (billing, await world.jobs.create(ADMIN, billing, JOB | {"name": "b"})),
        (other, await world.jobs.create(ADMIN, other, JOB)),
    ]
    rows: list[dict[str, Any]] = []
    for n in range(60):
        executor_id, job_id = jobs[n % 3]
        rows.append(
            {
                "executor_id": executor_id,
                "job_id": job_id,
                "state": STATES[n * 5 % 7],
                "scheduled_at": 1_000 + n // 4,
                "parameters": "{}",
                "claim_token": "secret",
                "result": "1",
            }
        )
    return dict(zip(world.add_runs(rows), rows, strict=True))


@pytest.mark.every_database
@pytest.mark.parametrize("scanned", [4, 10_000])
async def test_pages_meet_every_run_once_newest_first(
    world: World,
    ledger: dict[int, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    scanned: int,
) -> None:
    monkeypatch.setattr(run_pages, "MAX_SCANNED", scanned)
    monkeypatch.setattr(run_pages, "CHUNK", 2)
    first = next(iter(ledger.values()))
    executor_id, job_id = first["executor_id"], first["job_id"]
    groups = {
        None: set(STATES),
        "failed": {"failed"},
        "failed_any": {"failed", "timed_out", "lost"},
        "active": {"queued", "running"},
    }
    everything = sorted(
        ledger.items(), key=lambda each: (each[1]["scheduled_at"], each[0]), reverse=True
    )
    for state, narrow, limit in itertools.product(
        groups, (None, "executor", "job", "scope"), (1, 7, 60)
    ):
        if not IS_NIGHT and narrow is not None and limit != 7:
            continue  # by day each filter and each size, by night each with each
        query = RunQuery(
            state=state,
            executor_id=executor_id if narrow == "executor" else None,
            job_id=job_id if narrow == "job" else None,
            from_at=1_002,
            to_at=1_014,
        )
        actor = actor_with(Role.VIEWER, executor_id) if narrow == "scope" else ADMIN
        expected = [
            run_id
            for run_id, row in everything
            if row["state"] in groups[state]
            and 1_002 <= row["scheduled_at"] < 1_014
            and (narrow != "job" or row["job_id"] == job_id)
            and (narrow not in ("executor", "scope") or row["executor_id"] == executor_id)
        ]
        seen = await all_pages(world, query, limit=limit, actor=actor)
        assert seen == expected, (state, narrow, limit)


@pytest.mark.every_database
async def test_lists_hold_no_secrets_and_nothing_heavy(
    world: World, ledger: dict[int, dict[str, Any]]
) -> None:
    page = await world.runs.page(ADMIN, RunQuery(), limit=5)
    for item in page.items:
        assert (item.run.claim_token, item.run.parameters, item.run.result) == (None, None, None)
        assert item.executor_name in ("billing", "other")


async def test_runs_of_others_do_not_exist(world: World, ledger: dict[int, dict[str, Any]]) -> None:
    run_id, row = next(iter(ledger.items()))
    stranger = actor_with(Role.ADMIN, row["executor_id"] + 1_000)
    for query in (
        RunQuery(),
        RunQuery(job_id=row["job_id"]),
        RunQuery(executor_id=row["executor_id"]),
        RunQuery(state="failed"),
    ):
        assert await all_pages(world, query, limit=10, actor=stranger) == []
    for use in (
        world.runs.get(stranger, run_id),
        world.runs.log(stranger, run_id),
        world.runs.cancel(stranger, run_id),
        world.runs.retry(stranger, run_id),
        world.runs.get(ADMIN, 1),
        world.runs.cancel(ADMIN, 1),
    ):
        with pytest.raises(NotFound):
            await use


async def test_unknown_states_and_foreign_cursors_are_refused(world: World) -> None:
    for query, more in (
        (RunQuery(state="broken"), {}),
        (RunQuery(), {"cursor": "WyJhIiwxXQ"}),
        (RunQuery(), {"cursor": "eyJzY2hlZHVsZWRfYXQiOjFlOTksImlkIjoyfQ"}),
        (RunQuery(), {"limit": 501}),
    ):
        with pytest.raises(InvalidInput):
            await world.runs.page(ADMIN, query, **more)  # type: ignore[arg-type]


# --- one run ---------------------------------------------------------------------------------


async def test_a_run_shows_the_configuration_it_was_made_with(world: World, job_id: int) -> None:
    executor_id = await executor_of(world, job_id)
    node_id = world.node(executor_id, state="dead")
    run_id = await world.jobs.run_now(ADMIN, job_id)
    await world.jobs.update(
        ADMIN, job_id, JOB | {"parameters": {"new": 1}, "owner": "x"}, revision=1
    )
    world.change(
        sa.update(tables.run).values(claim_token="secret", node_id=node_id, attempt=2, tries=1),
        sa.insert(tables.run_attempt).values(
            run_id=run_id,
            attempt=1,
            state="failed",
            node_id=node_id,
            claim_token="secret",
            message="boom",
            log_lines=3,
        ),
    )
    detail = await world.runs.get(ADMIN, run_id)
    assert (detail.config.owner, detail.parameters) == ("", "{}")
    assert detail.item.run.claim_token is None
    assert detail.item.node_name == f"host-{node_id}"
    (attempt,) = detail.attempts
    assert (attempt.attempt.state, attempt.attempt.message, attempt.node_name) == (
        RunState.FAILED,
        "boom",
        f"host-{node_id}",
    )
    assert attempt.attempt.claim_token is None
    assert not detail.job_deleted
    await world.jobs.delete(ADMIN, job_id)
    assert (await world.runs.get(ADMIN, run_id)).job_deleted


async def test_a_queued_run_says_why_it_waits(world: World, job_id: int) -> None:
    executor_id = await executor_of(world, job_id)
    run_id = await world.jobs.run_now(ADMIN, job_id)

    async def code() -> str | None:
        waiting = (await world.runs.get(ADMIN, run_id)).waiting
        if waiting is not None:
            assert waiting.template % waiting.params
        return None if waiting is None else waiting.code

    assert await code() == "no_live_node"
    other = world.node(executor_id, handlers=["other"])
    assert await code() == "no_handler"
    node_id = world.node(executor_id, draining=True)
    assert await code() == "draining"
    node = sa.update(tables.node).where(tables.node.c.id == node_id)
    world.change(node.values(draining=False, in_use=4))
    assert await code() == "no_free_slot"
    world.change(node.values(in_use=0))
    assert await code() == "starting"
    world.change(node.values(lease_expires_at=1))
    assert await code() == "no_handler"
    world.change(sa.delete(tables.node).where(tables.node.c.id == other))
    assert await code() == "no_live_node"
    world.change(sa.update(tables.run).values(due_at=FAR, tries=1, attempt=1))
    assert await code() == "retry"
    world.change(sa.update(tables.run).values(scheduled_at=FAR, tries=0, attempt=0))
    assert await code() == "not_due"
    world.change(sa.update(tables.run).values(state="running"))
    assert await code() is None


# --- cancel ----------------------------------------------------------------------------------


@pytest.mark.every_database
async def test_a_queued_run_is_cancelled_at_once(world: World, job_id: int) -> None:
    run_id = await world.jobs.run_now(ADMIN, job_id)
    await world.runs.cancel(ADMIN, run_id)
    (row,) = world.runs_of_job(job_id)
    assert (row.state, row.reason) == ("cancelled", "cancelled")
    assert row.ended_at is not None
    with pytest.raises(Conflict) as caught:
        await world.runs.cancel(ADMIN, run_id)
    assert caught.value.code == "run.ended"
    assert world.audit()[-1] == ("run.cancelled", run_id)


@pytest.mark.every_database
async def test_a_live_run_gets_the_intent_and_the_sweeper_is_woken(
    world: World, job_id: int
) -> None:
    heard: list[str] = []
    world.events.listen(CANCEL, lambda: heard.append(CANCEL))
    executor_id = await executor_of(world, job_id)
    run_id = world.run(
        executor_id=executor_id, job_id=job_id, state="running", deadline_at=FAR, progress=0.5
    )
    await world.runs.cancel(ADMIN, run_id)
    (row,) = world.runs_of_job(job_id)
    assert (row.state, row.progress) == ("running", 0.5)
    assert row.cancel_requested_at is not None
    assert row.deadline_at == row.cancel_requested_at
    assert heard == [CANCEL]
    await world.runs.cancel(ADMIN, run_id)
    (again,) = world.runs_of_job(job_id)
    assert again.cancel_requested_at == row.cancel_requested_at
    assert [action for action, _ in world.audit()].count("run.cancelled") == 1


# --- retry -----------------------------------------------------------------------------------


async def test_a_retry_is_a_new_run_of_the_job_as_it_is_now(world: World, job_id: int) -> None:
    run_id = await world.jobs.run_now(ADMIN, job_id, parameters='{"month":1}')
    with pytest.raises(Conflict) as caught:
        await world.runs.retry(ADMIN, run_id)
    assert caught.value.code == "run.not_ended"
    ended = sa.update(tables.run).values(state="failed", ended_at=world.now, attempt=1)
    world.change(ended)
    await world.jobs.update(ADMIN, job_id, JOB | {"owner": "x"}, revision=1)
    retry_id = await world.runs.retry(ADMIN, run_id)
    detail = await world.runs.get(ADMIN, retry_id)
    run = detail.item.run
    assert (run.origin, run.retry_of, run.job_revision) == ("retry", run_id, 2)
    assert (run.requested_by, detail.parameters) == ("ada", '{"month":1}')
    other_id = await world.runs.retry(ADMIN, run_id, parameters='{"month": 2}')
    assert (await world.runs.get(ADMIN, other_id)).parameters == '{"month":2}'
    assert (await world.runs.get(ADMIN, run_id)).retried_by == sorted([retry_id, other_id])
    assert world.audit()[-1] == ("run.retried", other_id)


@pytest.mark.every_database
async def test_the_same_retry_is_one_run(world: World, job_id: int) -> None:
    executor_id = await executor_of(world, job_id)
    first, second = (
        world.run(executor_id=executor_id, job_id=job_id, state="failed", ended_at=1_000)
        for _ in range(2)
    )
    ids = await asyncio.gather(
        *(world.runs.retry(ADMIN, first, request_key="form-1") for _ in range(4))
    )
    assert len(set(ids)) == 1
    with pytest.raises(InvalidInput) as caught:
        await world.runs.retry(ADMIN, second, request_key="form-1")
    assert [p.code for p in caught.value.problems] == ["request_key.used"]


async def test_a_run_of_a_deleted_job_is_not_retried(world: World, job_id: int) -> None:
    executor_id = await executor_of(world, job_id)
    run_id = world.run(executor_id=executor_id, job_id=job_id, state="failed", ended_at=1_000)
    await world.jobs.delete(ADMIN, job_id)
    with pytest.raises(Conflict) as caught:
        await world.runs.retry(ADMIN, run_id)
    assert caught.value.code == "job.deleted"


async def test_viewers_see_and_operators_act(world: World, job_id: int) -> None:
    executor_id = await executor_of(world, job_id)
    viewer, operator = (actor_with(role, executor_id) for role in (Role.VIEWER, Role.OPERATOR))
    run_id = await world.jobs.run_now(operator, job_id)
    assert (await world.runs.get(viewer, run_id)).item.run.id == run_id
    for refused in (world.runs.cancel(viewer, run_id), world.runs.retry(viewer, run_id)):
        with pytest.raises(NotAllowed):
            await refused
    await world.runs.cancel(operator, run_id)
    await world.runs.retry(operator, run_id)
