"""Retries by hand: of many runs, of all that match, and of failed shards only."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.runs import batches as run_batches
from tickwheel_admin.services.runs import service as runs_service
from tickwheel_admin.services.runs.bulk import key_for
from tickwheel_admin.services.runs.service import RetryRevision, RunQuery
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import StatementRefused

pytestmark = pytest.mark.every_database(nightly=True)

SHARDS = {"routing": "shards", "shards": 4}


async def job_with(world: World, executor_id: int, **changes: Any) -> int:
    return await world.jobs.create(ADMIN, executor_id, JOB | changes)


def fire_with(world: World, executor_id: int, job_id: int, *states: str, **changes: Any) -> int:
    """An ended fire whose shards ended so."""
    mine = {"executor_id": executor_id, "job_id": job_id, "shard_total": len(states)}
    ended = {"ended_at": 1_000} | changes
    fire = world.run(**mine, shard_index=-1, state="failed", parameters='{"a":1}', **ended)
    for index, state in enumerate(states):
        pinned = {"pinned_node_id": index + 1} if changes else {}
        world.run(**mine, fire_id=fire, shard_index=index, state=state, ended_at=900, **pinned)
    return fire


def new_runs(world: World, job_id: int) -> list[Any]:
    return [row for row in world.runs_of_job(job_id) if row.origin == "retry"]


# --- shards ----------------------------------------------------------------------------------


@pytest.mark.every_database
async def test_only_the_failed_shards_are_done_again(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, start_within_seconds=60, **SHARDS)
    fire = fire_with(world, executor_id, job_id, "succeeded", "failed", "cancelled", "lost")
    again = await world.runs.retry(ADMIN, fire, failed_shards_only=True)
    rows = {row.shard_index: row for row in new_runs(world, job_id)}
    assert sorted(rows) == [-1, 1, 3]
    new = rows[-1]
    assert (new.id, new.state, new.shard_total, new.retry_of) == (again, "running", 4, fire)
    assert new.deadline_at is not None
    for shard in (rows[1], rows[3]):
        assert (shard.state, shard.fire_id, shard.shard_total) == ("queued", again, 4)
        assert (shard.parameters, shard.attempt) == ('{"a":1}', 0)
        assert shard.due_at <= world.now < shard.deadline_at  # its start-by deadline
    assert (await world.runs.get(ADMIN, fire)).retried_by == [again]


async def test_a_single_shard_is_done_again_as_itself(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, **SHARDS)
    fire = fire_with(world, executor_id, job_id, "succeeded", "succeeded", "failed", "failed")
    shard = (await world.runs.get(ADMIN, fire)).shards[2].run.id
    again = await world.runs.retry(ADMIN, shard, parameters='{"b": 2}')
    rows = {row.shard_index: row for row in new_runs(world, job_id)}
    assert sorted(rows) == [-1, 2]
    assert (rows[-1].id, rows[2].fire_id) == (again, again)
    assert rows[2].parameters == '{"b":2}'
    assert rows[-1].retry_of == shard


async def test_a_whole_fire_is_an_ordinary_new_one(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, **SHARDS)
    fire = fire_with(world, executor_id, job_id, "failed", "failed", "failed", "failed")
    await world.runs.retry(ADMIN, fire)
    (new,) = new_runs(world, job_id)
    assert (new.state, new.shard_index) == ("queued", -1)


async def test_shards_of_a_broadcast_keep_their_nodes(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, routing="broadcast")
    fire = fire_with(world, executor_id, job_id, "failed", "failed", node_id=None)
    with pytest.raises(Conflict) as caught:
        await world.runs.retry(ADMIN, fire, failed_shards_only=True)
    assert caught.value.code == "run.nodes_gone"
    node_id = world.node(executor_id)
    world.change(sa.update(tables.node).where(tables.node.c.id == node_id).values(id=2))
    await world.runs.retry(ADMIN, fire, failed_shards_only=True)
    rows = {row.shard_index: row for row in new_runs(world, job_id)}
    assert (rows[0].state, rows[0].reason, rows[0].pinned_node_id) == ("skipped", "node_gone", 1)
    assert (rows[1].state, rows[1].pinned_node_id) == ("queued", 2)


@pytest.mark.parametrize(
    ("blocking", "keys"),
    [
        ("parallel", {-1: None, 0: None}),
        ("serial", {-1: None, 0: 0}),
        ("discard_later", {-1: 1, 0: None}),
        ("cover_early", {-1: 1, 0: None}),
    ],
)
async def test_shards_stand_in_line_as_after_a_claim(
    world: World, executor_id: int, blocking: str, keys: dict[int, int | None]
) -> None:
    job_id = await job_with(world, executor_id, blocking=blocking, **SHARDS)
    fire = fire_with(world, executor_id, job_id, "failed", "succeeded")
    await world.runs.retry(ADMIN, fire, failed_shards_only=True)
    assert {row.shard_index: row.blocking_key for row in new_runs(world, job_id)} == {
        index: None if key is None else job_id * 2 + key for index, key in keys.items()
    }


@pytest.mark.parametrize("blocking", ["discard_later", "cover_early"])
async def test_no_second_fire_runs_beside_one_that_forbids_it(
    world: World, executor_id: int, blocking: str
) -> None:
    job_id = await job_with(world, executor_id, blocking=blocking, concurrency=2, **SHARDS)
    fire = fire_with(world, executor_id, job_id, "failed", "succeeded")
    await world.runs.retry(ADMIN, fire, failed_shards_only=True)
    await world.runs.retry(ADMIN, fire, failed_shards_only=True)
    with pytest.raises(Conflict) as caught:
        await world.runs.retry(ADMIN, fire, failed_shards_only=True)
    assert caught.value.code == "run.job_busy"


async def test_shards_that_cannot_be_done_again_by_themselves(
    world: World, executor_id: int
) -> None:
    job_id = await job_with(world, executor_id, **SHARDS)
    well = fire_with(world, executor_id, job_id, "succeeded", "cancelled")
    with pytest.raises(Conflict) as caught:
        await world.runs.retry(ADMIN, well, failed_shards_only=True)
    assert caught.value.code == "run.no_failed_shards"
    failed = fire_with(world, executor_id, job_id, "failed")
    await world.jobs.update(ADMIN, job_id, JOB, revision=1)
    with pytest.raises(Conflict) as caught:
        await world.runs.retry(ADMIN, failed, failed_shards_only=True)
    assert caught.value.code == "run.not_sharded"
    assert new_runs(world, job_id) == []


@pytest.mark.every_database
async def test_the_same_retry_of_shards_is_one_fire(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, **SHARDS)
    fire = fire_with(world, executor_id, job_id, "failed", "failed")
    ids = {
        await world.runs.retry(ADMIN, fire, failed_shards_only=True, request_key="k")
        for _ in range(2)
    }
    assert len(ids) == 1
    assert len(new_runs(world, job_id)) == 3


# --- what a retry is given -------------------------------------------------------------------


async def test_a_retry_has_the_parameters_that_its_run_had(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, parameters={"of": "then", "kept": 1})
    mine = {"executor_id": executor_id, "job_id": job_id, "state": "failed", "ended_at": 1_000}
    plain, own = world.run(**mine), world.run(**mine, parameters='{"of":"trigger","kept":1}')
    changed = JOB | {"parameters": {"of": "now"}, "timeout_seconds": 60}
    await world.jobs.update(ADMIN, job_id, changed, revision=1)

    async def given(run_id: int) -> tuple[int, Any]:
        detail = await world.runs.get(ADMIN, run_id)
        return detail.item.run.job_revision, json.loads(detail.parameters)

    then = {"of": "then", "kept": 1}
    assert await given(plain) == (1, then)
    first = await world.runs.retry(ADMIN, plain)
    assert await given(first) == (2, then)
    world.change(sa.update(tables.run).values(state="failed", ended_at=1))
    assert await given(await world.runs.retry(ADMIN, first)) == (2, then)
    assert await given(await world.runs.retry(ADMIN, own)) == (2, {"of": "trigger", "kept": 1})
    bulk = await world.runs.retry_many(
        ADMIN, [plain], request_key="k", parameters='{"more": 2}', include_retried=True
    )
    assert await given(bulk.runs[0]) == (2, then | {"more": 2})

    original = RetryRevision.ORIGINAL
    again = await world.runs.retry(ADMIN, plain, revision=original)
    bulk = await world.runs.retry_many(
        ADMIN, [plain], request_key="l", revision=original, include_retried=True
    )
    assert len(bulk.runs) == 1
    for run_id in (again, *bulk.runs):
        assert await given(run_id) == (1, then)
        (row,) = [row for row in world.runs_of_job(job_id) if row.id == run_id]
        assert row.parameters is None  # the revision's own, of which no run keeps a copy


async def test_a_retry_works_for_the_instant_of_its_run(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id, **SHARDS)
    fire = fire_with(world, executor_id, job_id, "failed")
    world.change(sa.update(tables.run).where(tables.run.c.id == fire).values(scheduled_at=1_000))
    again = await world.runs.retry(ADMIN, fire, failed_shards_only=True)
    rows = new_runs(world, job_id)
    assert {(row.nominal_at, row.scheduled_at > 1_000) for row in rows} == {(1_000, True)}
    world.change(
        sa.update(tables.run).where(tables.run.c.id == again).values(state="failed", ended_at=1)
    )
    last = await world.runs.retry(ADMIN, again)
    assert (await world.runs.get(ADMIN, last)).item.run.works_for_at == 1_000


# --- many ------------------------------------------------------------------------------------


@pytest.mark.every_database
async def test_many_runs_are_cancelled_one_by_one(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id)
    other = await world.executor("other")
    mine = {"executor_id": executor_id, "job_id": job_id}
    queued = world.run(**mine, state="queued", attempt=0, tries=0)
    live = world.run(**mine, state="running", deadline_at=FAR)
    ended = world.run(**mine)
    hidden = world.run(executor_id=other, job_id=job_id, state="queued")
    operator = actor_with(Role.OPERATOR, executor_id)
    bulk = await world.runs.cancel_many(operator, [queued, live, ended, hidden, 999, queued])
    assert (bulk.runs, bulk.done, bulk.next) == ([queued, live], 2, None)
    assert bulk.skipped == {"run.ended": 1, "not_found": 2}
    for ids in ([], range(1, 1_002)):
        with pytest.raises(InvalidInput):
            await world.runs.cancel_many(ADMIN, ids)


@pytest.mark.every_database
async def test_many_retries_are_the_same_when_sent_again(world: World, executor_id: int) -> None:
    job_id = await job_with(world, executor_id)
    mine = {"executor_id": executor_id, "job_id": job_id}
    failed = world.add_runs([mine | {"state": "failed", "ended_at": 1_000}] * 3)
    live = world.run(**mine, state="running", deadline_at=FAR)
    first = await world.runs.retry_many(
        ADMIN, [*failed, live], request_key="form", parameters='{"n":1}'
    )
    assert first.skipped == {"run.not_ended": 1}
    again = await world.runs.retry_many(ADMIN, failed, request_key="form")
    assert again.runs == first.runs
    assert [row.retry_of for row in new_runs(world, job_id)] == failed
    assert {row.parameters for row in new_runs(world, job_id)} == {'{"n":1}'}
    with pytest.raises(InvalidInput):
        await world.runs.retry_many(ADMIN, failed, request_key="k", parameters="[]")


@pytest.mark.every_database
async def test_fifty_are_cancelled_in_a_transaction_each_with_its_own_outcome(
    world: World, executor_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await job_with(world, executor_id)
    mine = {"executor_id": executor_id, "job_id": job_id, "deadline_at": FAR}
    queued = world.add_runs([mine | {"state": "queued", "attempt": 0}] * 60)
    fire = world.run(**mine, state="running", shard_index=-1, shard_total=3)
    shards = world.add_runs(
        mine | {"state": "queued", "shard_index": index, "fire_id": fire, "attempt": 0}
        for index in range(3)
    )
    ended = world.run(**mine)
    wanted = [*queued[:30], fire, *shards, ended, *queued[30:]]
    transactions: list[str] = []
    run = world.database.run

    async def counted(work: Any, /, *args: Any, **kwargs: Any) -> Any:
        transactions.append(work.__name__)
        return await run(work, *args, **kwargs)

    monkeypatch.setattr(world.database, "run", counted)
    bulk = await world.runs.cancel_many(ADMIN, wanted)

    # Shards go by themselves when their whole fire is cancelled with them.
    assert transactions.count("cancel_runs") == 2
    assert transactions.count("cancel") == 3
    assert bulk.runs == [each for each in wanted if each != ended]
    assert bulk.skipped == {"run.ended": 1}
    rows = {row.id: row for row in world.runs_of_job(job_id)}
    assert {rows[each].state for each in (*queued, *shards, fire)} == {"cancelled"}
    noted = [run_id for action, run_id in world.audit() if action == "run.cancelled"]
    assert sorted(noted) == sorted([*queued, fire, *shards])


@pytest.mark.parametrize(
    "refusal", [StatementRefused("x"), sa.exc.IntegrityError("x", {}, Exception())]
)
async def test_a_batch_that_is_refused_is_done_one_by_one(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    world = World(sqlite_url)
    executor_id = await world.executor()

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise refusal

    for name in ("cancel_runs", "retry_runs"):
        monkeypatch.setattr(run_batches, name, refused)
    job_id = await job_with(world, executor_id)
    mine = {"executor_id": executor_id, "job_id": job_id}
    queued, failed = world.run(**mine, state="queued"), world.run(**mine, state="failed")
    bulk = await world.runs.cancel_many(ADMIN, [queued, failed])
    assert (bulk.runs, bulk.skipped) == ([queued], {"run.ended": 1})
    bulk = await world.runs.retry_many(ADMIN, [failed, 999], request_key="k")
    assert (bulk.done, bulk.skipped) == (1, {"not_found": 1})
    world.close()


async def test_many_retries_have_each_its_own_outcome(world: World, executor_id: int) -> None:
    plain = await job_with(world, executor_id)
    cut = await job_with(world, executor_id, name="cut", **SHARDS)
    gone = await job_with(world, executor_id, name="gone")
    fire = fire_with(world, executor_id, cut, "succeeded", "failed", "failed")
    fine = fire_with(world, executor_id, cut, "succeeded", "succeeded")
    mine = {"executor_id": executor_id, "state": "failed"}
    failed, orphan = world.run(**mine, job_id=plain), world.run(**mine, job_id=gone)
    live = world.run(executor_id=executor_id, job_id=plain, state="running", deadline_at=FAR)
    taken = world.run(executor_id=executor_id, job_id=plain, request_key=f"key:{failed}")
    part = world.run(**mine, job_id=plain, origin="step", parent_run_id=live)
    await world.jobs.delete(ADMIN, gone)
    wish: dict[str, Any] = {"request_key": "key", "failed_shards_only": True}
    wanted = [failed, fire, fine, orphan, live, part, 999]
    bulk = await world.runs.retry_many(ADMIN, wanted, **wish)
    assert bulk.skipped == {
        "request_key.used": 1,  # by a run that retries nothing
        "run.no_failed_shards": 1,
        "job.deleted": 1,
        "run.not_ended": 1,
        "run.is_step": 1,
        "not_found": 1,
    }
    (again,) = bulk.runs
    assert [row.shard_index for row in new_runs(world, cut)] == [-1, 1, 2]
    assert (await world.runs.get(ADMIN, again)).item.run.retry_of == fire
    assert (await world.runs.retry_many(ADMIN, wanted, **wish)).runs == [again]
    assert taken in {row.id for row in world.runs_of_job(plain)}


@pytest.mark.every_database
async def test_all_that_match_are_done_in_steps(
    world: World, executor_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_service, "STEP", 3)
    job_id = await job_with(world, executor_id)
    mine = {"executor_id": executor_id, "job_id": job_id}
    failed = world.add_runs([mine | {"state": "failed", "ended_at": 1_000}] * 7)
    world.add_runs([mine] * 2)
    query = RunQuery(job_id=job_id)

    async def in_steps(cancel: bool) -> list[list[int]]:
        steps, cursor = [], None
        while True:
            bulk = (
                await world.runs.cancel_matching(ADMIN, query, cursor=cursor)
                if cancel
                else await world.runs.retry_matching(ADMIN, query, request_key="all", cursor=cursor)
            )
            steps.append(bulk.runs)
            cursor = bulk.next
            if cursor is None:
                return steps

    steps = await in_steps(cancel=False)
    assert max(map(len, steps)) == 3
    assert sorted(row.retry_of for row in new_runs(world, job_id)) == failed
    made = sorted(run_id for step in steps for run_id in step)
    assert made == sorted(row.id for row in new_runs(world, job_id))
    cancelled = await in_steps(cancel=True)
    assert sorted(run_id for step in cancelled for run_id in step) == made
    assert {row.state for row in new_runs(world, job_id)} == {"cancelled"}


@pytest.mark.every_database
async def test_lists_and_bulk_retries_see_fires_and_not_their_shards(
    world: World, executor_id: int
) -> None:
    job_id = await job_with(world, executor_id, **SHARDS)
    fire = fire_with(world, executor_id, job_id, *["failed"] * 40)
    before = world.run(
        executor_id=executor_id, job_id=job_id, state="failed", scheduled_at=1, ended_at=2
    )
    for query in (RunQuery(), RunQuery(state="failed_any"), RunQuery(executor_id=executor_id)):
        page = await world.runs.page(ADMIN, query, limit=5)
        assert [item.run.id for item in page.items] == [fire, before]
    item = (await world.jobs.get(ADMIN, job_id)).item
    assert [mark.id for mark in item.recent] == [before, fire]
    bulk = await world.runs.retry_matching(
        ADMIN, RunQuery(), request_key="k", failed_shards_only=True
    )
    assert (bulk.done, bulk.skipped) == (2, {})
    assert len(new_runs(world, job_id)) == 41 + 1


@pytest.mark.every_database
def test_keys_of_many_retries_fit_the_column() -> None:
    assert key_for("form", 5) == "form:5"
    long = "x" * 100
    assert len(key_for(long, 2**53)) <= 100
    assert key_for(long, 1) != key_for("y" * 100, 1)
