"""Child jobs: asked for once, with what their parent returned (guarantee G4)."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from msgspec import structs

from tests.admin.kit.engine import Admin, FakeSession, admin_with_node, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change, get_run, now, states
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.jobs.children import ChildLink, ChildOn, parameters_of_child
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.moves import node_gone
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids, TooFewIds
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.rows import run_from_row
from tickwheel_admin.store.runs.runs import lock_runs
from tickwheel_shared.protocol import Outcome, ResultReceipt


async def runs_of(database: Database, job_id: int) -> list[Run]:
    wanted = sa.select(tables.run).where(tables.run.c.job_id == job_id).order_by(tables.run.c.id)
    return [run_from_row(row) for row in await database.read(lambda c: c.execute(wanted).all())]


@pytest.mark.every_database
async def test_children_follow_the_ends_they_wait_for(database: Database) -> None:
    admin = Admin(database)
    executor_id, other_executor = new_executor_id(), new_executor_id()
    node = await admin.add_node(executor_id)
    on = {
        when: await add_job(
            database,
            executor_id=other_executor,
            parameters='{"own":1,"x":0}',
            priority=3,
            start_within_ms=60_000,
        )
        for when in ChildOn
    }
    job_id = await add_job(
        database,
        executor_id=executor_id,
        children=tuple(ChildLink(job_id=child, on=when) for when, child in on.items()),
    )
    succeeds, fails, is_cancelled = [await ask(database, job_id, after=n) for n in range(3)]
    requests = {request.run: request for request in await admin.dispatch_all(node)}

    await admin.say(
        node,
        result(requests[succeeds], value={"x": [1, 2]}),
        result(requests[fails], Outcome.FAILED, message="no"),
        result(requests[is_cancelled], Outcome.CANCELLED),
    )
    await admin.say(node, *(result(request) for request in requests.values()))  # all of it again

    found = {when: await runs_of(database, child) for when, child in on.items()}
    assert {when: [run.parent_run_id for run in runs] for when, runs in found.items()} == {
        ChildOn.SUCCESS: [succeeds],
        ChildOn.FAILURE: [fails],
        ChildOn.ALWAYS: [succeeds, fails],
    }
    [child] = found[ChildOn.SUCCESS]
    assert (child.origin, child.state, child.executor_id) == (
        Origin.CHILD,
        RunState.QUEUED,
        other_executor,
    )
    assert json.loads(child.parameters or "") == {"own": 1, "x": [1, 2]}
    assert (child.priority, child.request_key) == (3, f"child-of:{succeeds}")
    assert (child.deadline_at or 0) - child.due_at == 60_000
    assert json.loads(found[ChildOn.FAILURE][0].parameters or "") == {"own": 1, "x": 0}

    # It runs like any other, and hears nothing of the pause of its executor.
    await change(database, tables.executor, other_executor, paused_at=1)
    other = await admin.add_node(other_executor)
    started = {request.run for request in await admin.dispatch_all(other)}
    assert started == {run.id for runs in found.values() for run in runs}


@pytest.mark.every_database
async def test_ids_that_a_commit_without_an_answer_used_are_not_given_again(
    database: Database,
) -> None:
    """What is repeated may end another run, whose child must not pass for the first one's."""
    executor_id = new_executor_id()
    child = await add_job(database, executor_id=executor_id)
    link = ChildLink(job_id=child, on=ChildOn.FAILURE)
    job_id = await add_job(database, executor_id=executor_id, children=(link,))
    parents = [await ask(database, job_id, after=after) for after in range(2)]

    def end(conn: sa.Connection, run_id: int, ids: list[int]) -> None:
        [run] = lock_runs(conn, [run_id]).values()
        move = node_gone(structs.replace(run, tries=1), now=run.created_at)
        move_with_follow_ups(conn, [move], configs=JobConfigs(), now=run.created_at, run_ids=ids)

    ids = await Ids(database).take_many("run", 2)
    await database.run(end, parents[0], ids[:1])
    with pytest.raises(TooFewIds) as more:
        await database.run(end, parents[1], ids[:1])
    assert more.value.count == 2
    await database.run(end, parents[1], ids)

    asked = {each.id: each.parent_run_id for each in await runs_of(database, child)}
    assert asked == dict(zip(ids, parents, strict=True))


@pytest.mark.every_database
async def test_a_child_exists_once_whoever_asks_for_it(database: Database) -> None:
    """Its row is there already, from a commit whose answer never came or a restored backup."""
    admin, node = await admin_with_node(database)
    child = await add_job(database, executor_id=node.executor_id, handler="later")
    job_id = await add_job(
        database, executor_id=node.executor_id, children=(ChildLink(job_id=child),)
    )
    parents = [await ask(database, job_id, after=after) for after in range(2)]
    there = await ask(
        database,
        child,
        origin=Origin.CHILD,
        parent_run_id=parents[0],
        request_key=f"child-of:{parents[0]}",
    )
    requests = await admin.dispatch_all(node)

    await admin.say(node, *map(result, requests))

    assert await states(database, *parents) == ["succeeded"] * 2
    children = await runs_of(database, child)
    assert len(children) == 2
    assert {run.parent_run_id: run.id for run in children}[parents[0]] == there


async def test_only_the_last_try_asks_for_children(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    child = await add_job(database, handler="later")
    job_id = await add_job(
        database,
        retry=RetryPolicy(retries=1, delay_ms=0),
        children=(ChildLink(job_id=child, on=ChildOn.FAILURE),),
    )
    await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, result(request, Outcome.FAILED))
    assert await runs_of(database, child) == []

    [request] = await admin.dispatch_all(node)
    await admin.say(node, result(request, Outcome.TIMED_OUT))
    assert len(await runs_of(database, child)) == 1


async def test_a_late_result_asks_for_no_second_child(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    children = {when: await add_job(database, handler="later") for when in ChildOn}
    links = tuple(ChildLink(job_id=child, on=when) for when, child in children.items())
    job_id = await add_job(database, children=links)
    run_id = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await change(database, tables.node, node.node_id, state="dead")
    await admin.engine.sweeper.run_once()
    assert await states(database, run_id) == ["lost node_lost"]

    await admin.say(node, result(request))

    assert (await get_run(database, run_id)).state is RunState.SUCCEEDED
    counts = {when: len(await runs_of(database, child)) for when, child in children.items()}
    assert counts == {ChildOn.SUCCESS: 0, ChildOn.FAILURE: 1, ChildOn.ALWAYS: 1}


async def test_skips_and_cancels_ask_for_nothing(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    child = await add_job(database, handler="later")
    links = (ChildLink(job_id=child, on=ChildOn.ALWAYS),)
    job_id = await add_job(database, children=links, start_within_ms=1_000)
    by_handler = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await admin.say(node, result(request, Outcome.SKIPPED, message="nothing to do"))
    expired, cancelled = [await ask(database, job_id, after=n) for n in (1, 2)]
    await change(database, tables.run, expired, deadline_at=1)
    await Runs(database, Ids(database), admin.events).cancel(ADMIN, cancelled)
    await admin.engine.sweeper.run_once()

    assert await states(database, by_handler, expired, cancelled) == [
        "skipped by_handler",
        "skipped expired",
        "cancelled cancelled",
    ]
    assert await runs_of(database, child) == []


async def test_a_deleted_child_job_holds_nothing_up(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    deleted, stays = [await add_job(database, handler="later") for _ in range(2)]
    await change(database, tables.job, deleted, deleted_at=await now(database))
    links = (ChildLink(job_id=deleted), ChildLink(job_id=stays))
    run_id = await ask(database, await add_job(database, children=links))
    [request] = await admin.dispatch_all(node)

    await admin.say(node, result(request))

    assert await states(database, run_id) == ["succeeded"]
    assert await runs_of(database, deleted) == []
    assert len(await runs_of(database, stays)) == 1


async def test_many_children_of_a_batch_get_ids_of_their_own(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1, slots=100)
    children = [await add_job(database, handler="later") for _ in range(20)]
    job_id = await add_job(database, children=tuple(ChildLink(job_id=child) for child in children))
    parents = [await ask(database, job_id, after=after) for after in range(30)]
    requests = await admin.dispatch_all(node)

    await admin.say(node, *map(accepted, requests), *map(result, requests))

    assert await states(database, *parents) == ["succeeded"] * 30
    found = [run for child in children for run in await runs_of(database, child)]
    assert len({run.id for run in found}) == len(found) == 600
    assert len(node.take(ResultReceipt)) == 30


async def test_what_the_sweeper_ends_has_children_too(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    child = await add_job(database, handler="later")
    links = (ChildLink(job_id=child, on=ChildOn.FAILURE),)
    lost = await ask(database, await add_job(database, children=links))
    timed_out = await ask(database, await add_job(database, children=links, timeout_ms=1_000))
    requests = await admin.dispatch_all(node)
    await admin.say(node, *map(accepted, requests))

    admin.trust_own_view()
    await change(database, tables.run, timed_out, deadline_at=1, started_at=1)
    await admin.engine.sweeper.run_once()
    assert await states(database, timed_out) == ["timed_out timeout_not_enforced"]
    assert [run.parent_run_id for run in await runs_of(database, child)] == [timed_out]

    await change(database, tables.node, node.node_id, state="dead")
    await admin.engine.sweeper.run_once()
    assert await states(database, lost) == ["lost node_lost"]
    assert {run.parent_run_id for run in await runs_of(database, child)} == {timed_out, lost}


async def test_children_stand_in_line_like_all_runs_of_their_job(
    database: Database, admin: Admin, node: FakeSession
) -> None:
    child = await add_job(database, blocking=BlockingPolicy(strategy=Blocking.SERIAL))
    job_id = await add_job(database, children=(ChildLink(job_id=child),))
    for after in range(2):
        await ask(database, job_id, after=after)
    await admin.say(node, *map(result, await admin.dispatch_all(node)))

    assert len(await admin.dispatch_all(node)) == 1
    assert [run.reason for run in await runs_of(database, child)] == [None, "blocked"]


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [
        ('{"a":1}', None, '{"a":1}'),
        ('{"a":1}', "null", '{"a":1}'),
        ('{"a":1}', "{}", '{"a":1}'),
        ('{"a":1,"b":2}', '{"b":{"c":[]},"d":null}', '{"a":1,"b":{"c":[]},"d":null}'),
        ("{}", ' {"a":1}', '{"a":1}'),
        ("{}", "[1,2]", '{"result":[1,2]}'),
        ('{"result":0}', '"text"', '{"result":"text"}'),
        ("{}", "false", '{"result":false}'),
        # What no number of ours can hold is passed on as it was written.
        ('{"a":12345678901234567890}', '{"b":1e999}', '{"a":12345678901234567890,"b":1e999}'),
        ("{}", "1e999", '{"result":1e999}'),
    ],
)
def test_parameters_are_laid_over(own: str, given: str | None, expected: str) -> None:
    assert parameters_of_child(own, given) == expected
