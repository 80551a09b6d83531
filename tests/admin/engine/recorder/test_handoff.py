"""What attempts hand on: a job's state to its next run, a checkpoint to the next try (G6)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, admin_with_node
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change, get_run, now, states
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.executors.node_leases import expire_nodes
from tickwheel_admin.store.runs.retention import remove_old_runs
from tickwheel_shared.protocol import Cancel, Checkpoint, Outcome, RunRequest

SERIAL = BlockingPolicy(strategy=Blocking.SERIAL)
AGAIN = RetryPolicy(retries=5, delay_ms=0)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def saved(request: RunRequest, seq: int, data: object, **changes: Any) -> Checkpoint:
    values = {"run": request.run, "attempt": request.attempt, "token": request.token}
    return Checkpoint(**(values | {"seq": seq, "data": raw(data)} | changes))


def given(request: RunRequest) -> tuple[Any, Any]:
    """The state and the checkpoint that an attempt begins from."""
    return json.loads(bytes(request.state)), json.loads(bytes(request.checkpoint))


async def start(admin: Admin, node: FakeSession, job_id: int) -> RunRequest:
    """A run of the job that its node has accepted."""
    await ask(admin.database, job_id)
    return await again(admin, node)


async def again(admin: Admin, node: FakeSession) -> RunRequest:
    """The next attempt that is due."""
    [request] = await admin.dispatch_all(node)
    await admin.say(node, accepted(request))
    return request


async def state_of(database: Database, job_id: int) -> Any:
    """(state, run that wrote it), or None when nobody has written one."""
    wanted = sa.select(tables.job_state).where(
        tables.job_state.c.job_id == job_id, tables.job_state.c.updated_at.is_not(None)
    )
    row = await database.read(lambda conn: conn.execute(wanted).one_or_none())
    return None if row is None else (json.loads(row.state), row.run_id)


async def lose(admin: Admin, node: FakeSession) -> None:
    """The node's lease ends, and with it what it runs."""
    at = await now(admin.database)
    values = {"lease_expires_at": at - 60_000, "full_lease_at": at - 60_000}
    await change(admin.database, tables.node, node.node_id, **values)
    admin.trust_own_view()
    assert await admin.database.run(expire_nodes) == [node.node_id]
    await admin.engine.sweeper.run_once()
    node.is_open = False


# --- on every database ---------------------------------------------------------------------------


@pytest.mark.every_database
async def test_a_counter_counts_every_success_and_a_retry_goes_on_from_its_checkpoint(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(database, executor_id=node.executor_id, blocking=SERIAL, retry=AGAIN)
    for n in range(1, 4):
        request = await start(admin, node, job_id)
        assert given(request) == ({"n": n - 1} if n > 1 else {}, None)
        text = {"done": n, "file": "发票\0.csv"}
        await admin.say(node, saved(request, 2, text), saved(request, 1, "older"))
        # What a failed attempt would leave for the next run is not kept; for its retry it is.
        await admin.say(node, result(request, Outcome.FAILED, state=raw({"n": 99})))
        retried = await again(admin, node)
        assert given(retried) == ({"n": n - 1} if n > 1 else {}, text)
        await admin.say(node, result(retried, state=raw({"n": n})))
        assert await state_of(database, job_id) == ({"n": n}, request.run)


@pytest.mark.every_database
async def test_only_the_attempt_that_has_the_state_writes_it(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(
        database, executor_id=node.executor_id, blocking=SERIAL, retry=RetryPolicy(on_lost=False)
    )
    first = await start(admin, node, job_id)
    await lose(admin, node)
    late = result(first, state=raw({"by": "first"}))
    other = await admin.add_node(node.executor_id)
    second = await start(admin, other, job_id)

    await admin.say(node, late)  # it ends its run after all; the next one has begun without it
    assert await states(database, first.run) == ["succeeded"]
    assert await state_of(database, job_id) is None
    await admin.say(other, result(second, state=raw({"by": "second"})))
    assert await state_of(database, job_id) == ({"by": "second"}, second.run)

    third = await start(admin, other, job_id)
    assert given(third) == ({"by": "second"}, None)
    await lose(admin, other)
    await admin.say(other, result(third, state=raw({"by": "third"})))  # nobody has it yet
    assert await state_of(database, job_id) == ({"by": "third"}, third.run)


@pytest.mark.every_database
async def test_the_newest_checkpoint_of_the_current_attempt_is_kept(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_job(database, executor_id=node.executor_id, retry=AGAIN)
    first = await start(admin, node, job_id)
    await admin.say(node, saved(first, 3, "third"))
    await admin.say(node, saved(first, 2, "second"))  # it came by another way
    await admin.say(node, saved(first, 3, "third again"))
    await admin.say(node, result(first, Outcome.FAILED, checkpoint=raw("last")))
    await admin.say(node, saved(first, 4, "after its end"))
    second = await again(admin, node)
    assert given(second) == (None, "last")
    await admin.say(node, saved(first, 9, "stale"), saved(second, 9, "forged", token="other"))
    await admin.say(node, result(second, Outcome.FAILED))
    third = await again(admin, node)
    assert given(third) == (None, "last")  # the second left none
    await admin.say(node, saved(third, 1, ["new"]), result(third, Outcome.TIMED_OUT))
    assert given(await again(admin, node)) == (None, ["new"])


@pytest.mark.every_database
async def test_checkpoints_go_with_their_runs(database: Database) -> None:
    admin, node = await admin_with_node(database)
    request = await start(admin, node, await add_job(database, executor_id=node.executor_id))
    await admin.say(node, saved(request, 1, 1), result(request))
    await change(database, tables.run, request.run, scheduled_at=1)

    await database.run(remove_old_runs, older_than_ms=86_400_000, limit=500)

    wanted = sa.select(tables.run_checkpoint).where(tables.run_checkpoint.c.run_id == request.run)
    assert await database.read(lambda conn: conn.execute(wanted).all()) == []


# --- the rules, on SQLite ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "kept"),
    [
        (Outcome.SUCCEEDED, True),
        (Outcome.SKIPPED, True),
        (Outcome.FAILED, False),
        (Outcome.TIMED_OUT, False),
        (Outcome.CANCELLED, False),
        (Outcome.CUT_OFF, False),
    ],
)
async def test_success_and_skipping_write_the_state(
    database: Database, admin: Admin, node: FakeSession, outcome: Outcome, kept: bool
) -> None:
    job_id = await add_job(database, blocking=SERIAL)
    request = await start(admin, node, job_id)
    ended = result(request, outcome, state=raw({"n": 1}), checkpoint=raw("here"))
    await admin.say(node, ended, ended)
    assert await state_of(database, job_id) == (({"n": 1}, request.run) if kept else None)


async def test_a_result_that_leaves_the_state_alone_changes_nothing(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=SERIAL)
    first = await start(admin, node, job_id)
    await admin.say(node, result(first, state=raw({"n": 1})))
    await admin.say(node, result(await start(admin, node, job_id)))
    assert await state_of(database, job_id) == ({"n": 1}, first.run)


@pytest.mark.parametrize(
    ("blocking", "routing", "keeps"),
    [
        (SERIAL, RoutingPolicy(), True),
        (BlockingPolicy(strategy=Blocking.DISCARD_LATER), RoutingPolicy(), True),
        (BlockingPolicy(strategy=Blocking.COVER_EARLY), RoutingPolicy(), True),
        (BlockingPolicy(), RoutingPolicy(), False),
        (BlockingPolicy(strategy=Blocking.SERIAL, concurrency=2), RoutingPolicy(), False),
        (SERIAL, RoutingPolicy(strategy=Routing.SHARDS, shards=2), False),
        (SERIAL, RoutingPolicy(strategy=Routing.BROADCAST), False),
    ],
)
def test_jobs_whose_runs_go_one_by_one_keep_a_state(
    blocking: BlockingPolicy, routing: RoutingPolicy, keeps: bool
) -> None:
    config = JobConfig(name="j", handler="h", blocking=blocking, routing=routing)
    assert config.keeps_state is keeps


async def test_a_parallel_job_is_given_no_state_and_keeps_none(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database)
    request = await start(admin, node, job_id)
    assert given(request) == (None, None)
    await admin.say(node, result(request, state=raw({"n": 1})))
    assert await states(database, request.run) == ["succeeded"]
    assert await state_of(database, job_id) is None


async def test_what_comes_after_another_attempt_began_writes_nothing(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=SERIAL, retry=AGAIN)
    first = await start(admin, node, job_id)
    await lose(admin, node)
    other = await admin.add_node(1)
    second = await again(admin, other)
    assert (second.run, second.attempt) == (first.run, 2)
    await admin.say(
        node,
        saved(first, 7, "stale"),
        result(first, state=raw({"by": "stale"})),
    )
    assert await state_of(database, job_id) is None
    await admin.say(other, result(second, Outcome.FAILED))
    assert given(await again(admin, other)) == ({}, None)


async def test_a_lost_attempt_still_says_how_far_it_came(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=SERIAL, retry=AGAIN)
    request = await start(admin, node, job_id)
    await lose(admin, node)
    stopped = result(request, Outcome.CUT_OFF, checkpoint=raw({"done": 4}))
    await admin.say(node, saved(request, 1, {"done": 1}), stopped)
    assert await states(database, request.run) == ["queued retry_after_lost"]
    assert given(await again(admin, await admin.add_node(1))) == ({}, {"done": 4})


async def test_a_try_is_told_whether_an_earlier_one_was_lost(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, retry=AGAIN)
    first = await start(admin, node, job_id)
    await admin.say(node, result(first, Outcome.FAILED))
    second = await again(admin, node)
    await lose(admin, node)
    other = await admin.add_node(1)
    third = await again(admin, other)
    await admin.say(other, result(third, Outcome.FAILED))
    fourth = await again(admin, other)
    of_another_run = await start(admin, other, job_id)
    recovering = [each.recovering for each in (first, second, third, fourth, of_another_run)]
    assert recovering == [False, False, True, True, False]


async def test_a_covered_run_leaves_no_state(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    covering = BlockingPolicy(strategy=Blocking.COVER_EARLY)
    job_id = await add_job(database, blocking=covering)
    older = await start(admin, node, job_id)
    newer = await ask(database, job_id, after=10)
    assert await admin.dispatch_all(node) == []
    await admin.engine.sweeper.run_once()
    assert node.take(Cancel)
    await admin.say(node, result(older, Outcome.CANCELLED, state=raw({"by": "older"})))
    request = await again(admin, node)
    assert (request.run, given(request)) == (newer, ({}, None))


async def test_a_batch_recorded_twice_is_recorded_once(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    job_id = await add_job(database, blocking=SERIAL)
    request = await start(admin, node, job_id)
    ended = result(request, state=raw({"n": 1}))
    await admin.say(node, ended)
    before = await state_of(database, job_id), await get_run(database, request.run)
    following = await start(admin, node, job_id)
    await admin.say(node, ended, result(request, state=raw({"n": 2})))
    assert (await state_of(database, job_id), await get_run(database, request.run)) == before
    await admin.say(node, result(following, state=raw({"n": 3})))
    assert await state_of(database, job_id) == ({"n": 3}, following.run)
