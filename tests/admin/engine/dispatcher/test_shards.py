"""Broadcasts and runs that are cut into shards: expanded once, and over with the last shard."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change, get_run, in_use, now, states
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.jobs.children import ChildLink, ChildOn
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.runs.rows import run_from_row
from tickwheel_admin.store.triggers.triggers import delete_unclaimed_fires
from tickwheel_shared.protocol import Cancel, CancelReason, Outcome, RunRequest


async def shards_of(database: Database, fire_id: int) -> list[Run]:
    wanted = sa.select(tables.run).where(tables.run.c.fire_id == fire_id)
    rows = await database.read(
        lambda conn: conn.execute(wanted.order_by(tables.run.c.shard_index)).all()
    )
    return [run_from_row(row) for row in rows]


async def claim(admin: Admin, *nodes: FakeSession) -> dict[int, RunRequest]:
    """What every node was sent, by run."""
    while await admin.engine.dispatcher.run_once():
        pass
    return {request.run: request for node in nodes for request in node.take(RunRequest)}


async def progress_of(database: Database, run_id: int) -> tuple[float | None, str | None]:
    columns = (tables.run.c.progress, tables.run.c.progress_text)
    row = await database.read(
        lambda conn: conn.execute(sa.select(*columns).where(tables.run.c.id == run_id)).one()
    )
    return row.progress, row.progress_text


def told(run: Run) -> object:
    return json.loads(run.result or "null")


# --- on every database ---------------------------------------------------------------------------


@pytest.mark.every_database
async def test_a_broadcast_runs_once_on_every_node(database: Database) -> None:
    admin = Admin(database)
    executor_id = new_executor_id()
    nodes = [await admin.add_node(executor_id, name=name) for name in "cab"]
    await admin.add_node(executor_id, name="other", handlers="something-else")
    cordoned = await admin.add_node(executor_id, name="cordoned")
    await change(database, tables.node, cordoned.node_id, cordoned=True)
    after = await add_job(database, executor_id=executor_id, handler="never")
    job_id = await add_job(
        database,
        executor_id=executor_id,
        routing=RoutingPolicy(strategy=Routing.BROADCAST),
        children=(ChildLink(job_id=after, on=ChildOn.ALWAYS),),
    )
    fire_id = await ask(database, job_id, parameters='{"x":1}', requested_by="ada")

    requests = await claim(admin, *nodes, cordoned)

    shards = await shards_of(database, fire_id)
    c, a, b = nodes
    assert [shard.pinned_node_id for shard in shards] == [a.node_id, b.node_id, c.node_id]
    assert [shard.node_id for shard in shards] == [shard.pinned_node_id for shard in shards]
    assert [requests[shard.id].shard_index for shard in shards] == [0, 1, 2]
    assert {requests[shard.id].shard_total for shard in shards} == {3}
    assert {bytes(request.parameters) for request in requests.values()} == {b'{"x":1}'}
    assert {shard.requested_by for shard in shards} == {"ada"}
    fire = await get_run(database, fire_id)
    assert (fire.state, fire.shard_total, fire.node_id) == (RunState.RUNNING, 3, None)

    by_node = {node.node_id: node for node in nodes}
    for ended, shard in enumerate(shards[:2], start=1):
        await admin.say(by_node[shard.node_id or 0], result(requests[shard.id]))
        share, text = await progress_of(database, fire_id)
        assert (round(share or 0, 3), text) == (round(ended / 3, 3), f"{ended}/3")
    assert await states(database, fire_id) == ["running"]
    await admin.say(by_node[shards[2].node_id or 0], result(requests[shards[2].id]))

    fire = await get_run(database, fire_id)
    assert (fire.state, fire.reason) == (RunState.SUCCEEDED, "shards")
    assert told(fire) == {"shards": {"succeeded": 3}}
    assert await progress_of(database, fire_id) == (None, None)
    children = await database.read(
        lambda conn: conn.execute(sa.select(tables.run).where(tables.run.c.job_id == after)).all()
    )
    assert [child.parent_run_id for child in children] == [fire_id]  # the fire's, and only its
    assert children[0].origin == Origin.CHILD.value


@pytest.mark.every_database
async def test_many_admins_expand_a_fire_once(database: Database) -> None:
    executor_id = new_executor_id()
    admins = [Admin(database, admin_id=number) for number in (1, 2, 3)]
    node = await admins[0].add_node(executor_id, slots=100)
    for admin in admins:
        admin.links.sessions[node.node_id] = node
    job_id = await add_job(
        database, executor_id=executor_id, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=7)
    )
    fires = [await ask(database, job_id, after=after) for after in range(5)]

    for _ in range(4):
        await asyncio.gather(*(admin.engine.dispatcher.run_once() for admin in admins))

    for fire_id in fires:
        shards = await shards_of(database, fire_id)
        assert [shard.shard_index for shard in shards] == list(range(7))
    requests = node.take(RunRequest)
    assert len({request.run for request in requests}) == len(requests) == 35

    # The ends of all shards of a fire, recorded by all admins at once: it ends once.
    parts = [requests[number::3] for number in range(3)]
    await asyncio.gather(
        *(
            admin.say(node, *(result(request) for request in part))
            for admin, part in zip(admins, parts, strict=True)
        )
    )
    assert await states(database, *fires) == ["succeeded shards"] * 5
    assert await in_use(database, node.node_id) == 0


@pytest.mark.every_database
async def test_a_claim_without_an_answer_has_used_its_ids(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated, it finds the fire in pieces already, and another one that is due meanwhile."""
    admin = Admin(database)
    executor_id = new_executor_id()
    await admin.add_node(executor_id)
    job_id = await add_job(
        database, executor_id=executor_id, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2)
    )
    fires = [await ask(database, job_id)]
    run = database.run

    async def run_and_lose_an_answer(work: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await run(work, *args, **kwargs)
        if len(fires) == 1 and await shards_of(database, fires[0]):
            fires.append(0)  # what asks for it passes through here as well
            fires[1] = await ask(database, job_id, after=1)
            answer = await run(work, *args, **kwargs)
        return answer

    monkeypatch.setattr(database, "run", run_and_lose_an_answer)
    await claim(admin)

    for fire_id in fires:
        assert [each.shard_index for each in await shards_of(database, fire_id)] == [0, 1]


@pytest.mark.every_database
async def test_serial_broadcasts_stand_in_line_at_each_node(database: Database) -> None:
    admin = Admin(database)
    executor_id = new_executor_id()
    slow, quick = [await admin.add_node(executor_id, name=name) for name in ("slow", "quick")]
    job_id = await add_job(
        database,
        executor_id=executor_id,
        routing=RoutingPolicy(strategy=Routing.BROADCAST),
        blocking=BlockingPolicy(strategy=Blocking.SERIAL),
    )
    fires = [await ask(database, job_id, after=after) for after in range(3)]

    await claim(admin)
    [on_slow] = slow.take(RunRequest)
    for fire_id in fires:
        [on_quick] = quick.take(RunRequest)  # the next fire there does not wait for the slow node
        shard = await get_run(database, on_quick.run)
        assert shard.fire_id == fire_id
        await admin.say(quick, result(on_quick))
        await claim(admin)
    assert slow.take(RunRequest) == []
    assert await states(database, *fires) == ["running"] * 3

    for fire_id in fires:
        assert (await get_run(database, on_slow.run)).fire_id == fire_id
        await admin.say(slow, result(on_slow))
        await claim(admin)
        on_slow = next(iter(slow.take(RunRequest)), on_slow)
    assert await states(database, *fires) == ["succeeded shards"] * 3


# --- how a fire ends -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "state", "message"),
    [
        ("succeeded succeeded", RunState.SUCCEEDED, None),
        ("skipped succeeded", RunState.SUCCEEDED, None),
        ("skipped skipped", RunState.SKIPPED, None),
        ("cancelled succeeded", RunState.CANCELLED, None),
        ("failed cancelled", RunState.FAILED, "1 of 2 shards failed."),
        ("timed_out failed", RunState.FAILED, "2 of 2 shards failed."),
        ("cut_off succeeded", RunState.FAILED, "1 of 2 shards failed."),
    ],
)
async def test_a_fire_ends_as_its_worst_shard(
    database: Database, admin: Admin, outcomes: str, state: RunState, message: str | None
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2))
    fire_id = await ask(database, job_id)
    requests = await claim(admin, node)

    for request, outcome in zip(requests.values(), outcomes.split(), strict=True):
        assert (await get_run(database, fire_id)).state is RunState.RUNNING
        await admin.say(node, accepted(request), result(request, Outcome(outcome)))

    fire = await get_run(database, fire_id)
    assert (fire.state, fire.reason, fire.message) == (state, "shards", message)
    counted = dict.fromkeys(outcomes.replace("cut_off", "lost").split(), 1)
    if len(counted) == 1:
        counted = dict.fromkeys(counted, 2)
    assert told(fire) == {"shards": counted}


async def test_only_the_failed_shard_is_tried_again(database: Database, admin: Admin) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(
        database,
        routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2),
        retry=RetryPolicy(retries=1, delay_ms=0),
    )
    fire_id = await ask(database, job_id)
    good, bad = (await claim(admin, node)).values()
    await admin.say(node, result(good), result(bad, Outcome.FAILED))

    assert await states(database, fire_id) == ["running"]
    assert await progress_of(database, fire_id) == (0.5, "1/2")
    [again] = (await claim(admin, node)).values()
    assert (again.run, again.shard_index, again.try_number) == (bad.run, bad.shard_index, 2)
    await admin.say(node, result(again))

    assert told(await get_run(database, fire_id)) == {"shards": {"succeeded": 2}}


async def test_two_shards_that_end_in_one_batch_end_their_fire(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=3))
    fire_id = await ask(database, job_id)
    requests = (await claim(admin, node)).values()

    await admin.say(node, *map(accepted, requests), *map(result, requests), *map(result, requests))

    assert await states(database, fire_id) == ["succeeded shards"]


async def test_a_late_result_of_a_shard_changes_no_fire_that_has_ended(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    job_id = await add_job(database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=1))
    fire_id = await ask(database, job_id)
    [request] = (await claim(admin, node)).values()
    await change(database, tables.node, node.node_id, state="dead")
    await admin.engine.sweeper.run_once()
    assert await states(database, fire_id) == ["failed shards"]

    await admin.say(node, result(request))

    assert await states(database, request.run, fire_id) == ["succeeded", "failed shards"]


# --- nodes that go -------------------------------------------------------------------------------


async def test_shards_of_a_broadcast_run_nowhere_else(database: Database, admin: Admin) -> None:
    stays, dies = await admin.add_node(1, name="b"), await admin.add_node(1, name="a")
    job_id = await add_job(
        database,
        routing=RoutingPolicy(strategy=Routing.BROADCAST),
        retry=RetryPolicy(retries=3, delay_ms=0),
    )
    fire_id = await ask(database, job_id)
    requests = await claim(admin, stays, dies)
    tried, left = await shards_of(database, fire_id)
    assert (tried.node_id, left.node_id) == (dies.node_id, stays.node_id)

    await change(database, tables.node, dies.node_id, state="dead", ended_at=1)
    del admin.links.sessions[dies.node_id]
    await admin.engine.sweeper.run_once()
    assert await states(database, tried.id) == ["queued retry_after_lost"]
    assert await claim(admin, stays) == {}

    assert await states(database, tried.id) == ["lost node_gone"]
    await admin.say(stays, result(requests[left.id]))
    fire = await get_run(database, fire_id)
    assert (fire.state, told(fire)) == (RunState.FAILED, {"shards": {"lost": 1, "succeeded": 1}})
    # What its node has done is told later, perhaps; nothing stands between that and the ledger.
    await admin.say(stays, result(requests[tried.id]))
    assert await states(database, tried.id) == ["succeeded"]
    archived = sa.select(tables.run_attempt.c.attempt)
    assert await database.read(lambda conn: conn.execute(archived).all()) == []


async def test_a_shard_that_never_started_on_a_node_that_went_is_skipped(
    database: Database, admin: Admin
) -> None:
    full = await admin.add_node(1, name="full", slots=1)
    other = await admin.add_node(1, name="other")
    await change(database, tables.node, full.node_id, in_use=1)
    job_id = await add_job(database, routing=RoutingPolicy(strategy=Routing.BROADCAST))
    fire_id = await ask(database, job_id)
    [request] = (await claim(admin, full, other)).values()
    [waiting] = [
        shard for shard in await shards_of(database, fire_id) if shard.state is RunState.QUEUED
    ]
    assert waiting.pinned_node_id == full.node_id

    await change(database, tables.node, full.node_id, state="gone", in_use=0)
    del admin.links.sessions[full.node_id]
    await claim(admin, other)
    assert await states(database, waiting.id) == ["skipped node_gone"]
    await admin.say(other, result(request))
    assert told(await get_run(database, fire_id)) == {"shards": {"skipped": 1, "succeeded": 1}}


async def test_a_draining_node_keeps_its_shards_waiting(database: Database, admin: Admin) -> None:
    node, other = await admin.add_node(1, name="a"), await admin.add_node(1, name="b")
    await change(database, tables.node, node.node_id, slots=1, in_use=1)
    fire_id = await ask(
        database, await add_job(database, routing=RoutingPolicy(strategy=Routing.BROADCAST))
    )
    await claim(admin, node, other)
    await change(database, tables.node, node.node_id, draining=True, in_use=0)

    assert await claim(admin, node, other) == {}
    waiting = (await shards_of(database, fire_id))[0]
    assert waiting.state is RunState.QUEUED

    await change(database, tables.node, node.node_id, draining=False)
    assert list(await claim(admin, node, other)) == [waiting.id]


async def test_shards_of_a_fire_that_is_yet_to_come_are_not_taken_back(
    database: Database, admin: Admin
) -> None:
    """As it looks to an edit when the database's clock was set back after the claim."""
    await admin.add_node(1)
    job_id = await add_job(database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2))
    fire_id = await ask(database, job_id)
    await change(database, tables.run, fire_id, trigger_id=7)
    await claim(admin)
    for shard in await shards_of(database, fire_id):
        await change(database, tables.run, shard.id, state="queued", attempt=0)

    assert await database.run(delete_unclaimed_fires, 7, after=0) == 0
    assert len(await shards_of(database, fire_id)) == 2


# --- stopping a fire -----------------------------------------------------------------------------


async def test_cancelling_a_fire_cancels_its_shards(database: Database, admin: Admin) -> None:
    node = await admin.add_node(1, slots=2)
    job_id = await add_job(
        database,
        routing=RoutingPolicy(strategy=Routing.SHARDS, shards=4),
        retry=RetryPolicy(retries=3, delay_ms=0),
    )
    fire_id = await ask(database, job_id)
    requests = list((await claim(admin, node)).values())
    await admin.say(node, *map(accepted, requests))

    await Runs(database, Ids(database), admin.events).cancel(ADMIN, fire_id)
    await admin.engine.sweeper.run_once()
    shards = await shards_of(database, fire_id)
    assert [shard.state for shard in shards[2:]] == [RunState.CANCELLED] * 2
    await admin.engine.sweeper.run_once()
    cancels = node.take(Cancel)
    assert {cancel.run for cancel in cancels} == {request.run for request in requests}
    assert {cancel.reason for cancel in cancels} == {CancelReason.OPERATOR}
    assert (await get_run(database, fire_id)).state is RunState.RUNNING

    await admin.say(
        node, result(requests[0], Outcome.CANCELLED), result(requests[1], Outcome.CANCELLED)
    )
    fire = await get_run(database, fire_id)
    assert (fire.state, told(fire)) == (RunState.CANCELLED, {"shards": {"cancelled": 4}})
    assert await in_use(database, node.node_id) == 0


async def test_a_cancelled_fire_of_very_many_shards_starts_none_of_them_any_more(
    database: Database, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones do not end, and there are more than one sweep takes."""
    monkeypatch.setattr("tickwheel_admin.engine.sweeper.deadlines.RUNS_PER_BATCH", 3)
    node = await admin.add_node(1, slots=3)
    fire_id = await ask(
        database, await add_job(database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=9))
    )
    requests = list((await claim(admin, node)).values())
    await admin.say(node, *map(accepted, requests))

    await Runs(database, Ids(database), admin.events).cancel(ADMIN, fire_id)
    for _ in range(4):
        await change(database, tables.run, fire_id, deadline_at=await now(database))
        await admin.engine.sweeper.run_once()

    shards = await shards_of(database, fire_id)
    assert [shard.state for shard in shards] == [RunState.RUNNING] * 3 + [RunState.CANCELLED] * 6


async def test_a_fire_that_its_last_shard_did_not_end_is_ended_by_the_sweeper(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    fire_id = await ask(
        database, await add_job(database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=1))
    )
    [request] = (await claim(admin, node)).values()
    await change(database, tables.run, request.run, fire_id=None)  # as if its row were not seen
    await admin.say(node, result(request))
    await change(database, tables.run, request.run, fire_id=fire_id)
    assert await states(database, fire_id) == ["running"]

    await change(database, tables.run, fire_id, deadline_at=1)
    await admin.engine.sweeper.run_once()

    assert await states(database, fire_id) == ["succeeded shards"]


# --- blocking strategies of whole fires ----------------------------------------------------------


async def test_serial_shards_stand_in_line_at_their_index(database: Database, admin: Admin) -> None:
    node = await admin.add_node(1)
    blocking = BlockingPolicy(strategy=Blocking.SERIAL)
    job_id = await add_job(
        database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2), blocking=blocking
    )
    fires = [await ask(database, job_id, after=after) for after in range(2)]

    first = list((await claim(admin, node)).values())
    assert [(await get_run(database, r.run)).fire_id for r in first] == [fires[0]] * 2
    await admin.say(node, result(first[1]))
    [second] = (await claim(admin, node)).values()
    assert second.shard_index == first[1].shard_index
    assert (await get_run(database, second.run)).fire_id == fires[1]


async def test_a_whole_fire_is_discarded_while_a_shard_of_another_is_live(
    database: Database, admin: Admin
) -> None:
    node = await admin.add_node(1)
    blocking = BlockingPolicy(strategy=Blocking.DISCARD_LATER)
    job_id = await add_job(
        database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2), blocking=blocking
    )
    first, second = [await ask(database, job_id, after=after) for after in range(2)]

    one, two = (await claim(admin, node)).values()
    assert await states(database, first, second) == ["running", "skipped discarded"]
    assert await shards_of(database, second) == []
    await admin.say(node, result(one))
    third = await ask(database, job_id, after=3)
    await claim(admin, node)
    assert await states(database, third) == ["skipped discarded"]

    await admin.say(node, result(two))
    fourth = await ask(database, job_id, after=4)
    assert len(await claim(admin, node)) == 2
    assert await states(database, first, fourth) == ["succeeded shards", "running"]


async def test_a_whole_fire_is_covered_by_a_newer_one(database: Database, admin: Admin) -> None:
    node = await admin.add_node(1)
    blocking = BlockingPolicy(strategy=Blocking.COVER_EARLY)
    job_id = await add_job(
        database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2), blocking=blocking
    )
    first = await ask(database, job_id)
    requests = list((await claim(admin, node)).values())
    await admin.say(node, *map(accepted, requests))

    second = await ask(database, job_id, after=1)
    assert await claim(admin, node) == {}
    assert await states(database, second) == ["queued blocked"]
    await admin.engine.sweeper.run_once()
    await admin.engine.sweeper.run_once()
    assert {cancel.reason for cancel in node.take(Cancel)} == {CancelReason.COVERED}
    await admin.say(node, result(requests[0], Outcome.CANCELLED))
    assert await claim(admin, node) == {}  # one shard of the old fire is still there
    await admin.say(node, result(requests[1], Outcome.CANCELLED))

    assert len(await claim(admin, node)) == 2
    assert await states(database, first, second) == ["cancelled shards", "running"]
    assert await states(database, *(r.run for r in requests)) == ["cancelled covered"] * 2


async def test_a_fire_without_a_node_waits_for_one(database: Database, admin: Admin) -> None:
    other = await admin.add_node(1, handlers="something-else")
    fire_id = await ask(
        database, await add_job(database, routing=RoutingPolicy(strategy=Routing.BROADCAST))
    )

    await claim(admin, other)

    fire = await get_run(database, fire_id)
    assert (fire.state, fire.reason) == (RunState.QUEUED, "no_node_offers_handler")
    assert fire.due_at > await now(database)
