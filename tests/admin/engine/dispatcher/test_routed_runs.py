"""Routing through the claim: what outlives a restart, what admins agree on, why a run waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change, get_run, now, states
from tests.admin.kit.services import ADMIN, actor_with
from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.domain.routing.choice import choice_of
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.reasons import sentences
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import NO_MATCHING_NODE, NO_SLOT, RunState
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.engine.dispatcher.claim_decisions import FIRST_IN_LINE
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.overview.attention.service import AlarmKind, Attention
from tickwheel_admin.services.runs.waiting import Waiting, why_they_wait
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_admin.store.jobs.routing_memory import forget_ended_nodes
from tickwheel_admin.store.runs.retention import remove_ended_nodes
from tickwheel_shared.protocol import Outcome, Refusal, Refused, RunRequest


def by(strategy: Routing, **policy: Any) -> RoutingPolicy:
    return RoutingPolicy(strategy=strategy, **policy)


async def nodes_of(
    admin: Admin, executor_id: int, names: str = "abc", *, slots: int = 100
) -> list[FakeSession]:
    return [await admin.add_node(executor_id, name=name, slots=slots) for name in names]


def also_heard_by(admin: Admin, nodes: Sequence[FakeSession]) -> None:
    for node in nodes:
        admin.links.sessions[node.node_id] = node


async def routed(
    database: Database, admin: Admin, job_id: int, count: int, *, nodes: Sequence[FakeSession]
) -> str:
    """The nodes of so many runs, asked for one after the other: "abc"."""
    names = {node.node_id: name for node, name in zip(nodes, "abcdefgh", strict=False)}
    chosen = ""
    for _ in range(count):
        run_id = await ask(database, job_id)
        await admin.engine.dispatcher.run_once()
        chosen += names[(await get_run(database, run_id)).node_id or 0]
    return chosen


async def counts(database: Database, job_id: int) -> dict[int, int]:
    """Stored uses of a job, by node."""
    wanted = sa.select(tables.job_node.c.node_id, tables.job_node.c.uses).where(
        tables.job_node.c.job_id == job_id
    )
    rows = await database.read(lambda conn: conn.execute(wanted).all())
    return {row.node_id: row.uses for row in rows}


async def why(database: Database, *run_ids: int) -> dict[int, Waiting]:
    """Why runs wait, as a list would ask."""
    runs = [await get_run(database, run_id) for run_id in run_ids]

    def read(conn: sa.Connection) -> dict[int, Waiting]:
        configs = read_configs(conn, {(run.job_id, 1) for run in runs})
        return why_they_wait(conn, [(run, configs[run.job_id, 1]) for run in runs])

    return await database.read(read)


def told(choice: str | None) -> list[str]:
    reason = choice_of(choice)
    return [] if reason is None else [s.template % s.params for s in sentences(reason)]


async def test_a_node_that_does_not_tell_its_handlers_is_given_any(admin: Admin) -> None:
    executor_id = new_executor_id()
    node = await admin.add_node(executor_id, handlers=ANY_HANDLER)
    job_id = await add_job(admin.database, executor_id=executor_id)
    pinned = await Jobs(admin.database, Ids(admin.database), Events()).run_now(
        ADMIN, job_id, node_id=node.node_id
    )
    run_id = await ask(admin.database, job_id)

    await admin.engine.dispatcher.run_once()

    for each in (pinned, run_id):
        assert (await get_run(admin.database, each)).node_id == node.node_id


# --- on every database ---------------------------------------------------------------------------


@pytest.mark.every_database
async def test_turns_and_uses_survive_a_restart_and_are_one_for_all_admins(
    database: Database,
) -> None:
    executor_id = new_executor_id()
    first = Admin(database, admin_id=1)
    nodes = await nodes_of(first, executor_id)
    expected = {
        Routing.ROUND_ROBIN: "abcabc",
        Routing.LEAST_FREQUENTLY_USED: "abcabc",
        Routing.LEAST_RECENTLY_USED: "abcabc",
        Routing.WEIGHTED: "abcabc",
    }
    for strategy, turns in expected.items():
        job_id = await add_job(database, executor_id=executor_id, routing=by(strategy))
        chosen = ""
        for number in range(3):  # another admin, or the same one started again
            admin = Admin(database, admin_id=number + 1)
            also_heard_by(admin, nodes)
            chosen += await routed(database, admin, job_id, 2, nodes=nodes)
        assert chosen == turns, strategy
    newcomer = await first.add_node(executor_id, name="d", slots=100)
    used = await add_job(
        database, executor_id=executor_id, routing=by(Routing.LEAST_FREQUENTLY_USED)
    )
    assert await routed(database, first, used, 4, nodes=[*nodes, newcomer]) == "abcd"
    assert set((await counts(database, used)).values()) == {1}


@pytest.mark.every_database
async def test_admins_at_once_share_uses_out_exactly(database: Database) -> None:
    executor_id = new_executor_id()
    admins = [Admin(database, admin_id=number) for number in (1, 2, 3)]
    nodes = await nodes_of(admins[0], executor_id)
    for admin in admins:
        also_heard_by(admin, nodes)
    for strategy in (Routing.LEAST_FREQUENTLY_USED, Routing.LEAST_RECENTLY_USED):
        job_id = await add_job(database, executor_id=executor_id, routing=by(strategy))
        run_ids = [await ask(database, job_id) for _ in range(12)]
        while "queued" in await states(database, *run_ids):
            await asyncio.gather(*(admin.engine.dispatcher.run_once() for admin in admins))
        runs = [await get_run(database, run_id) for run_id in run_ids]
        assert Counter(run.node_id for run in runs) == {node.node_id: 4 for node in nodes}
        assert await counts(database, job_id) == {node.node_id: 4 for node in nodes}


@pytest.mark.every_database
async def test_what_no_node_can_take_is_told_although_it_is_put_off_each_time(
    database: Database,
) -> None:
    executor_id = new_executor_id()
    admin = Admin(database)
    await nodes_of(admin, executor_id)
    narrow = RoutingPolicy(selector="zone=moon")
    job_id = await add_job(database, executor_id=executor_id, routing=narrow)
    run_id = await ask(database, job_id)
    await change(database, tables.run, run_id, created_at=1)  # long ago
    await admin.engine.dispatcher.run_once()
    assert (await get_run(database, run_id)).due_at > await now(database)
    viewer = actor_with(Role.VIEWER, executor_id)
    (concern,) = [each for each in await Attention(database).get(viewer) if each.executor_id]
    assert (concern.kind, concern.run_id) == (AlarmKind.LATE, run_id)
    assert concern.why is not None
    assert concern.why.code == NO_MATCHING_NODE
    (item,) = await Executors(database, Ids(database), Events()).list(viewer)
    assert (item.waiting, item.waiting_since) == (1, 1_700_000_000_000)


@pytest.mark.every_database
async def test_busy_nodes_are_passed_over_by_all_admins(database: Database) -> None:
    executor_id = new_executor_id()
    one, two = Admin(database, admin_id=1), Admin(database, admin_id=2)
    a, b, c = nodes = await nodes_of(one, executor_id)
    also_heard_by(two, nodes)
    job_id = await add_job(database, executor_id=executor_id, routing=by(Routing.BUSY_OVER))
    other = await add_job(database, executor_id=executor_id, routing=by(Routing.FIRST))
    await ask(database, other)
    run_ids = [await ask(database, job_id) for _ in range(5)]

    await asyncio.gather(one.engine.dispatcher.run_once(), two.engine.dispatcher.run_once())
    await one.engine.dispatcher.run_once()

    runs = [await get_run(database, run_id) for run_id in run_ids]
    assert {run.node_id for run in runs} == {a.node_id, b.node_id, c.node_id, None}
    waiting = [run.id for run in runs if run.state is RunState.QUEUED]
    assert len(waiting) == 2
    reasons = await why(database, *waiting)
    assert {each.code for each in reasons.values()} == {"job_busy_everywhere"}
    assert {each.executor for each in reasons.values()} == {f"executor-{executor_id}"}

    (request,) = [each for each in b.take(RunRequest) if each.job_id == job_id]
    await one.say(b, accepted(request), result(request))
    three = Admin(database, admin_id=3)  # one that did not just meet another at these runs
    also_heard_by(three, nodes)
    await three.engine.dispatcher.run_once()
    (after,) = [await get_run(database, each) for each in waiting[:1]]
    assert after.node_id == b.node_id
    assert told(after.choice) == [
        "Busy over: the first by name that runs nothing of this job.",
        "a was running this job.",
    ]


# --- exactness -----------------------------------------------------------------------------------


async def test_turns_without_a_node_are_not_left_out(database: Database, admin: Admin) -> None:
    nodes = await nodes_of(admin, 1, "ab", slots=1)
    job_id = await add_job(database, routing=by(Routing.ROUND_ROBIN))
    for _ in range(7):
        await ask(database, job_id)
    await admin.engine.dispatcher.run_once()
    cursor = sa.select(tables.job.c.route_cursor).where(tables.job.c.id == job_id)
    assert await database.read(lambda conn: conn.execute(cursor).scalar_one()) == 2
    assert [len(node.take(RunRequest)) for node in nodes] == [1, 1]


async def test_only_what_was_claimed_counts_as_used(database: Database, admin: Admin) -> None:
    """Runs for a node that another admin hears are left to it, and counted by it."""
    nodes = await nodes_of(admin, 1, "ab")
    other = Admin(database, admin_id=2)
    also_heard_by(other, nodes)
    del admin.links.sessions[nodes[1].node_id]
    job_id = await add_job(database, routing=by(Routing.LEAST_FREQUENTLY_USED))
    run_ids = [await ask(database, job_id) for _ in range(6)]
    await admin.engine.dispatcher.run_once()
    assert await counts(database, job_id) == {nodes[0].node_id: 3, nodes[1].node_id: 0}
    await other.engine.dispatcher.run_once()
    assert await counts(database, job_id) == {node.node_id: 3 for node in nodes}
    assert set(await states(database, *run_ids)) == {"dispatched"}


async def test_a_chosen_node_counts_as_used(database: Database, admin: Admin) -> None:
    a, b = await nodes_of(admin, 1, "ab")
    job_id = await add_job(database, routing=by(Routing.LEAST_FREQUENTLY_USED))
    for _ in range(2):
        await ask(database, job_id, pinned_node_id=b.node_id)
        await admin.engine.dispatcher.run_once()
    assert await counts(database, job_id) == {a.node_id: 0, b.node_id: 2}
    assert await routed(database, admin, job_id, 3, nodes=[a, b]) == "aab"


async def test_uses_of_ended_nodes_are_forgotten(database: Database, admin: Admin) -> None:
    nodes = await nodes_of(admin, 1, "ab")
    job_id = await add_job(database, routing=by(Routing.LEAST_RECENTLY_USED))
    await routed(database, admin, job_id, 2, nodes=nodes)
    await change(database, tables.node, nodes[0].node_id, state="dead")
    await admin.engine.cleaner.run_once()
    assert await counts(database, job_id) == {nodes[1].node_id: 1}
    assert await database.run(forget_ended_nodes, limit=10) == 0
    await Jobs(database, Ids(database), Events()).delete(ADMIN, job_id)
    assert await counts(database, job_id) == {}


async def test_uses_do_not_outlive_a_node_that_ended_while_nobody_cleaned(
    database: Database, admin: Admin
) -> None:
    nodes = await nodes_of(admin, 1, "ab")
    job_id = await add_job(database, routing=by(Routing.LEAST_RECENTLY_USED))
    await routed(database, admin, job_id, 2, nodes=nodes)
    long_ago = {"state": "dead", "in_use": 0, "lease_expires_at": 1}
    await change(database, tables.node, nodes[0].node_id, **long_ago)
    assert await database.run(remove_ended_nodes, older_than_ms=1, limit=10) == 1
    assert await counts(database, job_id) == {nodes[1].node_id: 1}


async def test_many_jobs_that_count_uses_are_taken_in_parts(
    database: Database, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.engine.dispatcher.route_memory.MAX_USES", 4)
    (a, b) = await nodes_of(admin, 1, "ab")
    used = by(Routing.LEAST_FREQUENTLY_USED)
    jobs = [await add_job(database, routing=used) for _ in range(5)]
    for job_id in jobs * 2:
        await ask(database, job_id)
    taken = []
    while await admin.engine.dispatcher.run_once():
        taken.append(len(a.take(RunRequest)) + len(b.take(RunRequest)))
    assert taken == [4, 4, 2]
    for job_id in jobs:
        assert await counts(database, job_id) == {a.node_id: 1, b.node_id: 1}


async def test_a_crowd_at_one_node_steps_aside_for_longer_each_time_but_for_the_first(
    database: Database, admin: Admin
) -> None:
    (a, b) = await nodes_of(admin, 1, "ab", slots=1)
    await change(database, tables.node, a.node_id, in_use=1)
    narrow = await add_job(database, routing=by(Routing.PINNED, nodes=("a",)))
    crowd = [await ask(database, narrow) for _ in range(100)]
    run_id = await ask(database, await add_job(database))
    began_at = await now(database)
    passes = 0
    while (await get_run(database, run_id)).state is RunState.QUEUED:
        await admin.engine.dispatcher.run_once()
        passes += 1
    assert passes < 6
    assert len(b.take(RunRequest)) == 1
    runs = [await get_run(database, each) for each in crowd]
    assert all(each.due_at <= began_at for each in runs[:FIRST_IN_LINE])
    delays = [each.due_at - began_at for each in runs[FIRST_IN_LINE:] if each.reason == NO_SLOT]
    assert delays == sorted(delays)
    assert 500 <= delays[0] < 1_000 <= delays[-1]
    await change(database, tables.node, a.node_id, in_use=0)
    await change(database, tables.node, b.node_id, in_use=0)
    await admin.engine.dispatcher.run_once()
    assert [each.run for each in a.take(RunRequest)] == crowd[:1]


async def test_those_first_in_line_do_not_end_a_look_at_what_others_can_take(
    database: Database, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.engine.dispatcher.loop.RUNS_PER_BATCH", 10)
    (a, b) = await nodes_of(admin, 1, "ab")
    await change(database, tables.node, a.node_id, in_use=100)
    await ask(database, await add_job(database, routing=by(Routing.PINNED, nodes=("a",))))
    job_id = await add_job(database)
    for _ in range(20):
        await ask(database, job_id)
    while await admin.engine.dispatcher.run_once():
        pass
    assert len(b.take(RunRequest)) == 20


async def test_jobs_that_cannot_start_do_not_keep_others_out_of_their_part(
    database: Database, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.engine.dispatcher.route_memory.MAX_USES", 2)
    (a, b) = await nodes_of(admin, 1, "ab", slots=1)
    await change(database, tables.node, a.node_id, in_use=1, labels='{"zone":"eu"}')
    stuck = by(Routing.LEAST_FREQUENTLY_USED, selector="zone=eu")
    stuck_id = await ask(database, await add_job(database, routing=stuck), priority=1)
    other = by(Routing.LEAST_FREQUENTLY_USED)
    run_id = await ask(database, await add_job(database, routing=other))
    await admin.engine.dispatcher.run_once()
    await admin.engine.dispatcher.run_once()
    assert await states(database, stuck_id, run_id) == ["queued no_free_slot", "dispatched"]
    assert len(b.take(RunRequest)) == 1


# --- where runs may go ---------------------------------------------------------------------------


async def test_a_refusal_sends_a_failover_to_the_next(database: Database, admin: Admin) -> None:
    a, b, c = await nodes_of(admin, 1)
    job_id = await add_job(database, routing=by(Routing.FAILOVER, nodes=("c", "a")))
    run_id = await ask(database, job_id)
    (request,) = await admin.dispatch(c)
    assert told((await get_run(database, run_id)).choice) == [
        "Failover: number 1 in the job's order."
    ]
    refusal = Refused(
        run=request.run,
        attempt=request.attempt,
        token=request.token,
        reason=Refusal.UNKNOWN_HANDLER,
    )
    await admin.say(c, refusal)
    await change(database, tables.run, run_id, due_at=0)
    await admin.dispatch(a)
    after = await get_run(database, run_id)
    assert after.node_id == a.node_id
    assert told(after.choice) == [
        "Failover: number 2 in the job's order.",
        "c had refused the handler.",
    ]
    assert b.sent == []


async def test_runs_wait_for_nodes_that_match(database: Database, admin: Admin) -> None:
    a, b = await nodes_of(admin, 1, "ab")
    eu = by(Routing.ROUND_ROBIN, selector="zone=eu")
    selected = await ask(database, await add_job(database, routing=eu))
    named = await ask(database, await add_job(database, routing=by(Routing.PINNED, nodes=("c*",))))
    both = await ask(
        database,
        await add_job(database, routing=by(Routing.PINNED, nodes=("b",), selector="zone")),
    )
    fire = await ask(
        database, await add_job(database, routing=by(Routing.BROADCAST, selector="zone"))
    )
    waiting = (selected, named, both, fire)
    await admin.engine.dispatcher.run_once()

    assert await states(database, *waiting) == [f"queued {NO_MATCHING_NODE}"] * 4
    reasons = await why(database, *waiting)
    assert [reasons[run_id].code for run_id in waiting] == ["no_matching_node"] * 4
    assert [each.template % each.params for each in reasons.values()] == [
        "None of the 2 live nodes that offer its handler has the labels “zone=eu”.",
        "None of the 2 live nodes that offer its handler is named c*.",
        "None of the 2 live nodes that offer its handler is named b and has the labels “zone”.",
        "None of the 2 live nodes that offer its handler has the labels “zone”.",
    ]
    assert all(each.since is not None for each in reasons.values())

    await change(database, tables.node, b.node_id, labels='{"zone":"eu"}')
    for run_id in waiting:
        await change(database, tables.run, run_id, due_at=0)
    requests = await admin.dispatch_all(b)
    assert {request.run for request in requests} >= {selected, both}
    assert (await get_run(database, fire)).shard_total == 1
    assert a.sent == []
    assert await states(database, named) == [f"queued {NO_MATCHING_NODE}"]


async def test_a_chosen_node_has_the_run_whatever_the_job_says(
    database: Database, admin: Admin
) -> None:
    a, b, _ = await nodes_of(admin, 1)
    plain = await add_job(database, routing=by(Routing.PINNED, nodes=("a",)))
    cut = await add_job(
        database,
        routing=by(Routing.SHARDS, shards=3),
        blocking=BlockingPolicy(strategy=Blocking.SERIAL),
    )
    everywhere = await add_job(database, routing=by(Routing.BROADCAST))
    anywhere = await ask(database, cut)
    await admin.dispatch_all(a)
    shards_before = len(b.take(RunRequest))
    chosen = {"pinned_node_id": b.node_id}
    run_id = await ask(database, plain, **chosen)
    fires = [await ask(database, job_id, after=1, **chosen) for job_id in (cut, everywhere)]

    requests = await admin.dispatch_all(b)

    assert shards_before == 1
    assert told((await get_run(database, run_id)).choice) == ["This node was chosen for this run."]
    of_fire = sa.select(tables.run).where(tables.run.c.fire_id == fires[0])
    shards = await database.read(lambda conn: conn.execute(of_fire).all())
    assert {shard.pinned_node_id for shard in shards} == {b.node_id}
    # Each still stands in line behind the shard of its number, wherever that runs.
    assert {shard.state for shard in shards} == {"queued"}
    assert (await get_run(database, fires[1])).shard_total == 1
    assert Counter(request.job_id for request in requests) == {plain: 1, everywhere: 1}
    earlier = sa.select(tables.run.c.id).where(tables.run.c.fire_id == anywhere)
    ids = await database.read(lambda conn: list(conn.execute(earlier).scalars()))
    reasons = await why(database, *(shard.id for shard in shards))
    assert sorted(each.runs for each in reasons.values()) == sorted((each,) for each in ids)


async def test_a_page_of_waiting_runs_takes_few_queries(database: Database, admin: Admin) -> None:
    executors = [new_executor_id() for _ in range(4)]
    run_ids = []
    for executor_id in executors:
        node = await admin.add_node(executor_id, name="a", slots=1)
        await change(database, tables.node, node.node_id, in_use=1)
        serial = BlockingPolicy(strategy=Blocking.SERIAL)
        for config in (
            {"routing": by(Routing.FIRST)},
            {"routing": by(Routing.BUSY_OVER)},
            {"blocking": serial},
            {"handler": "other"},
            {"routing": by(Routing.PINNED, selector="gpu")},
        ):
            job_id = await add_job(database, executor_id=executor_id, **config)
            run_ids += [await ask(database, job_id) for _ in range(4)]
    await admin.engine.dispatcher.run_once()
    statements: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        statements.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    reasons = await why(database, *run_ids)
    sa.event.remove(database.engine, "before_cursor_execute", note)

    assert {each.code for each in reasons.values()} == {
        "blocked",
        "no_free_slot",
        "no_handler",
        "no_matching_node",
    }
    assert len(reasons) == 80
    asked = [each for each in statements if each.startswith("SELECT")]
    # One of each kind, one for each executor with jobs that pass over busy nodes; and the runs.
    assert len(asked) - len(run_ids) <= 8 + len(executors)


# --- the reason ----------------------------------------------------------------------------------


async def test_every_attempt_keeps_why_it_went_where_it_did(
    database: Database, admin: Admin
) -> None:
    a, b = await nodes_of(admin, 1, "ab")
    job_id = await add_job(
        database,
        routing=by(Routing.LEAST_BUSY),
        retry=RetryPolicy(retries=1, delay_ms=0, jitter=0.0),
    )
    await change(database, tables.node, a.node_id, in_use=90)
    run_id = await ask(database, job_id)
    (request,) = await admin.dispatch(b)
    await change(database, tables.node, b.node_id, cordoned=True)
    await admin.say(b, accepted(request), result(request, Outcome.FAILED))
    await change(database, tables.run, run_id, due_at=0)
    await admin.dispatch(a)

    assert told((await get_run(database, run_id)).choice) == [
        "The only node that could take it: 90 of 100 slots used.",
        "b was cordoned.",
    ]
    archived = sa.select(tables.run_attempt.c.choice).where(tables.run_attempt.c.run_id == run_id)
    choice = await database.read(lambda conn: conn.execute(archived).scalar_one())
    assert told(choice) == ["Least busy: 0 of 100 slots used."]


@pytest.mark.every_database
@pytest.mark.parametrize("strategy", [Routing.ROUND_ROBIN, Routing.WEIGHTED])
async def test_admins_with_a_node_each_do_not_pass_runs_to_each_other_for_ever(
    database: Database, strategy: Routing
) -> None:
    executor_id = new_executor_id()
    admins = [Admin(database, admin_id=number) for number in (1, 2)]
    for admin, name in zip(admins, "ab", strict=True):
        await admin.add_node(executor_id, name=name, slots=100)
    job_id = await add_job(database, executor_id=executor_id, routing=by(strategy))
    for first in (admins, admins[::-1]):
        for _ in range(3):
            run_id = await ask(database, job_id)
            for admin in first:
                await admin.engine.dispatcher.run_once()
            assert await states(database, run_id) == ["dispatched"]
