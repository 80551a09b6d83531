"""Run now: parameters over the job's, on a chosen node, after a delay; once for each key."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.services import ADMIN, JOB, World
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.services.runs.requests import MAX_DELAY_MS
from tickwheel_admin.store.database import tables

pytestmark = pytest.mark.turned_clock

OWN = JOB | {"parameters": {"a": {"x": 1}, "b": 2}}


@pytest.fixture
async def job_id(world: World, executor_id: int) -> int:
    return await world.jobs.create(ADMIN, executor_id, OWN)


async def refusal_of(call: Any) -> tuple[str, str]:
    with pytest.raises(InvalidInput) as caught:
        await call
    (problem,) = caught.value.problems
    return problem.field, problem.code


# --- parameters ------------------------------------------------------------------------------


async def test_parameters_lie_over_the_jobs_key_by_key(world: World, job_id: int) -> None:
    plain = await world.jobs.run_now(ADMIN, job_id)
    asked = await world.jobs.run_now(ADMIN, job_id, parameters='{"a": {"y": 2}, "c": null}')
    detail = await world.runs.get(ADMIN, asked)
    assert detail.parameters == '{"a":{"y":2},"b":2,"c":null}'
    assert (await world.runs.get(ADMIN, plain)).parameters == '{"a":{"x":1},"b":2}'


async def test_a_retrys_lie_over_those_of_the_ended_run(
    world: World, executor_id: int, job_id: int
) -> None:
    mine = {"executor_id": executor_id, "job_id": job_id, "state": "failed"}
    given = world.run(**mine, parameters='{"a":5}')
    bare = world.run(**mine)
    expected = {
        (given, None): '{"a":5}',
        (given, '{"b": 6}'): '{"a":5,"b":6}',
        (bare, '{"b": 6}'): '{"a":{"x":1},"b":6}',
        (bare, None): '{"a":{"x":1},"b":2}',
    }
    for (run_id, parameters), merged in expected.items():
        again = await world.runs.retry(ADMIN, run_id, parameters=parameters)
        assert (await world.runs.get(ADMIN, again)).parameters == merged


async def test_a_triggers_lie_between_the_jobs_and_a_requests(
    world: World, executor_id: int
) -> None:
    rate = {"kind": "fixed_rate", "every_seconds": 60, "parameters": {"b": 3, "t": 1}}
    job_id = await world.jobs.create(
        ADMIN, executor_id, OWN | {"name": "timed", "triggers": [rate]}
    )
    fired = world.run(  # as a fire of the trigger is written
        executor_id=executor_id,
        job_id=job_id,
        state="failed",
        parameters='{"a":{"x":1},"b":3,"t":1}',
    )
    again = await world.runs.retry(ADMIN, fired, parameters='{"b": 4}')
    assert (await world.runs.get(ADMIN, again)).parameters == '{"a":{"x":1},"b":4,"t":1}'
    by_hand = await world.jobs.run_now(ADMIN, job_id, parameters='{"b": 4}')
    assert (await world.runs.get(ADMIN, by_hand)).parameters == '{"a":{"x":1},"b":4}'


async def test_together_they_may_have_64_kib(world: World, executor_id: int) -> None:
    big = "x" * 40_000
    job_id = await world.jobs.create(
        ADMIN, executor_id, JOB | {"name": "big", "parameters": {"a": big}}
    )
    over = world.jobs.run_now(ADMIN, job_id, parameters=f'{{"b": "{big}"}}')
    assert await refusal_of(over) == ("parameters", "json.too_large")
    replaced = await world.jobs.run_now(ADMIN, job_id, parameters=f'{{"a": "{big}y"}}')
    assert (await world.runs.get(ADMIN, replaced)).parameters == f'{{"a":"{big}y"}}'


# --- nodes -----------------------------------------------------------------------------------


async def test_a_chosen_node_is_the_only_one(world: World, executor_id: int, job_id: int) -> None:
    old, new = (
        world.node(executor_id, name="twin", connected_at=world.now + age, cordoned=True)
        for age in (0, 5)
    )
    by_id = await world.jobs.run_now(ADMIN, job_id, node_id=old)
    by_name = await world.jobs.run_now(ADMIN, job_id, node="twin")
    anywhere = await world.jobs.run_now(ADMIN, job_id)
    pinned = {row.id: row.pinned_node_id for row in world.runs_of_job(job_id)}
    assert pinned == {by_id: old, by_name: new, anywhere: None}


async def test_a_node_that_cannot_run_it_is_refused(
    world: World, executor_id: int, job_id: int
) -> None:
    other = await world.executor("other")
    gone = world.node(executor_id, name="gone", state="gone", ended_at=1)
    lacking = world.node(executor_id, name="lacking", handlers=["another"])
    theirs = world.node(other, name="theirs")
    theirs_gone = world.node(other, name="theirs-gone", state="gone", ended_at=1)
    for chosen, refusal in (
        ({"node_id": gone}, ("node_id", "node.ended")),
        ({"node": "gone"}, ("node", "node.unknown")),
        ({"node_id": lacking}, ("node_id", "node.lacks_handler")),
        ({"node": "lacking"}, ("node", "node.lacks_handler")),
        ({"node_id": theirs}, ("node_id", "node.unknown")),
        ({"node": "theirs"}, ("node", "node.unknown")),
        ({"node_id": theirs_gone}, ("node_id", "node.unknown")),
        ({"node_id": 999}, ("node_id", "node.unknown")),
    ):
        assert await refusal_of(world.jobs.run_now(ADMIN, job_id, **chosen)) == refusal
    assert world.runs_of_job(job_id) == []


async def test_the_same_key_is_the_same_run_also_when_its_node_has_ended(
    world: World, executor_id: int, job_id: int
) -> None:
    node_id = world.node(executor_id)
    wish = {"node_id": node_id, "parameters": '{"b": 9}', "request_key": "k"}
    first = await world.jobs.run_now(ADMIN, job_id, **wish)
    world.change(sa.update(tables.node).values(state="gone", ended_at=1))
    assert await world.jobs.run_now(ADMIN, job_id, **wish) == first
    assert len(world.runs_of_job(job_id)) == 1


# --- delay -----------------------------------------------------------------------------------


async def test_a_delay_is_waited_for(world: World, job_id: int, clock: Clock) -> None:
    run_id = await world.jobs.run_now(ADMIN, job_id, delay_ms=90_000)
    run = (await world.runs.get(ADMIN, run_id)).item.run
    assert (run.created_at, run.scheduled_at, run.due_at) == (
        clock.now,
        clock.now + 90_000,
        clock.now + 90_000,
    )
    waiting = (await world.runs.get(ADMIN, run_id)).waiting
    assert waiting is not None
    assert waiting.code == "not_due"
    await world.runs.cancel(ADMIN, run_id)
    assert (await world.runs.get(ADMIN, run_id)).item.run.state == "cancelled"


@pytest.mark.parametrize("delay_ms", [-1, MAX_DELAY_MS + 1])
async def test_a_delay_out_of_range_is_refused(world: World, job_id: int, delay_ms: int) -> None:
    asked = world.jobs.run_now(ADMIN, job_id, delay_ms=delay_ms)
    assert await refusal_of(asked) == ("delay_seconds", "out_of_range")
