"""Workflows from their claim to their end: each step runs once, when it may (guarantee G4)."""

from __future__ import annotations

import json

import pytest

from tests.admin.kit.engine import admin_with_node, new_id
from tests.admin.kit.messages import result
from tests.admin.kit.rows import add_job, ask, change, get_run, runs_of, states
from tests.admin.kit.workflows import Player, add_workflow, step, steps_of, told
from tickwheel_admin.domain.jobs.children import ChildLink, ChildOn
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.workflows.graph import MAX_DEPTH, JobStep, SubWorkflow
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database


@pytest.mark.every_database
async def test_steps_run_when_what_they_need_has_ended(database: Database) -> None:
    admin, node = await admin_with_node(database)
    other = await add_job(database, executor_id=node.executor_id, parameters='{"own":1,"x":0}')
    job_id = await add_workflow(
        database,
        step("extract"),
        step("left", "extract", parameters='{"files":"${steps.extract.result.files}"}'),
        step(
            "right",
            "extract",
            body=JobStep(job_id=other),
            parameters='{"x":"${parameters.month}","at":"${run.scheduled_at}"}',
        ),
        step("join", "left", "right"),
        step("rescue", "left:failed"),
        executor_id=node.executor_id,
        parameters='{"month":3}',
        output="join",
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)

    assert await player.claim() == ["extract"]
    await player.end("extract", extract={"files": ["a", "b"]})
    assert await player.claim() == ["left", "right"]
    given = {name: json.loads(bytes(r.parameters)) for name, r in player.requests.items()}
    assert given["left"] == {"files": ["a", "b"]}
    assert given["right"] == {"own": 1, "x": 3, "at": "2023-11-14T22:13:20Z"}
    await player.end("left")
    assert await player.claim() == []
    assert await told(database, run_id) == (
        "extract succeeded, left succeeded, right running, join waiting, rescue skipped needs"
    )
    await player.end("right")
    assert await player.play(join={"rows": 7}) == [["join"]]

    run = await get_run(database, run_id)
    assert (run.state, run.reason, run.message) == (RunState.SUCCEEDED, None, None)
    assert json.loads(run.result or "") == {"rows": 7}
    assert run.node_id is None
    assert run.deadline_at is None
    [right] = await runs_of(database, other)
    assert (right.origin, right.parent_run_id, right.works_for_at) == (
        Origin.STEP,
        run_id,
        run.scheduled_at,
    )


async def test_a_failure_that_another_step_is_there_for_does_not_count(database: Database) -> None:
    admin, node = await admin_with_node(database)
    graph = (
        step("load"),
        step("use", "load"),
        step("repair", "load:failed"),
        step("tell", "use:skipped"),
        step("clean", "use:ended", "repair:ended"),
    )
    job_id = await add_workflow(database, *graph, executor_id=node.executor_id)
    handled, fails = [await ask(database, job_id, after=n) for n in range(2)]
    player = Player(admin, node)

    await change(database, tables.run, fails, due_at=2**52)  # one after the other
    assert await player.play(fail=["load"]) == [["load"], ["repair", "tell"], ["clean"]]
    await change(database, tables.run, fails, due_at=0)
    assert await player.play(fail=["load", "repair"]) == [["load"], ["repair", "tell"], ["clean"]]

    assert await told(database, handled) == (
        "load failed failed, use skipped needs, repair succeeded, tell succeeded, clean succeeded"
    )
    assert await states(database, handled) == ["succeeded"]
    # `clean` runs in any case, so it makes the failure of `repair` not good.
    assert await states(database, fails) == ["failed steps"]


@pytest.mark.every_database
async def test_a_workflow_fails_by_what_nobody_handles(database: Database) -> None:
    admin, node = await admin_with_node(database)
    child = await add_job(database, executor_id=node.executor_id)
    job_id = await add_workflow(
        database,
        step("a"),
        step("b", "a"),
        step("c", "b"),
        step("beside"),
        executor_id=node.executor_id,
        children=(ChildLink(job_id=child, on=ChildOn.FAILURE),),
    )
    run_id = await ask(database, job_id)

    await Player(admin, node).play(fail=["a"])

    run = await get_run(database, run_id)
    assert (run.state, run.message) == (RunState.FAILED, "Failed: a.")
    assert await told(database, run_id) == (
        "a failed failed, b skipped needs, c skipped needs, beside succeeded"
    )
    assert [each.parent_run_id for each in await runs_of(database, child)] == [run_id]


async def test_a_value_that_is_missing_fails_its_step_by_name(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("a"),
        step("b", "a", parameters='{"x":"${steps.a.result.count}"}'),
        step("c", "b:failed"),
        step("d", "a", when='parameters.mode == "full"'),
        executor_id=node.executor_id,
        parameters='{"mode":"part"}',
    )
    run_id = await ask(database, job_id)

    assert await Player(admin, node).play(a={}) == [["a"], ["c"]]

    assert await told(database, run_id) == (
        "a succeeded, b failed value.missing, c succeeded, d skipped when"
    )
    b = (await steps_of(database, run_id))[1]
    assert b.message is not None
    assert "steps.a.result.count" in b.message


async def test_the_job_of_a_step_may_be_gone(database: Database) -> None:
    admin, node = await admin_with_node(database)
    other = await add_job(database, executor_id=node.executor_id)
    await change(database, tables.job, other, deleted_at=1)
    job_id = await add_workflow(
        database, step("a", body=JobStep(job_id=other)), executor_id=node.executor_id
    )
    run_id = await ask(database, job_id)

    assert await Player(admin, node).play() == []

    assert await told(database, run_id) == "a failed job_deleted"
    assert await states(database, run_id) == ["failed steps"]


@pytest.mark.every_database
async def test_a_step_is_tried_again_as_its_job_says(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("a"),
        step("b", "a"),
        executor_id=node.executor_id,
        retry=RetryPolicy(retries=1, delay_ms=0),
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)

    await player.claim()
    await player.end("a:failed")
    assert await told(database, run_id) == "a running, b waiting"
    assert await player.play() == [["a"], ["b"]]
    assert await states(database, run_id) == ["succeeded"]


async def test_a_handler_that_skips_its_run_skips_its_step(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database, step("a"), step("b", "a"), step("c", "a:ended"), executor_id=node.executor_id
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)

    await player.claim()
    await player.end("a:skipped")
    await player.play()

    assert await told(database, run_id) == "a skipped by_handler, b skipped needs, c succeeded"


@pytest.mark.every_database
async def test_a_workflow_may_be_a_step_of_another_one(database: Database) -> None:
    admin, node = await admin_with_node(database)
    inner = await add_workflow(
        database,
        step("x", parameters='{"n":"${parameters.n}"}'),
        executor_id=node.executor_id,
        output="x",
        parameters='{"n":0}',
    )
    outer = await add_workflow(
        database,
        step("sub", body=SubWorkflow(job_id=inner), parameters='{"n":5}'),
        step("after", "sub", parameters='{"got":"${steps.sub.result}"}'),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, outer)
    player = Player(admin, node)

    assert await player.claim() == ["x"]
    assert json.loads(bytes(player.requests["x"].parameters)) == {"n": 5}
    await player.end("x", x=[1, 2])
    assert await player.claim() == ["after"]
    assert json.loads(bytes(player.requests["after"].parameters)) == {"got": [1, 2]}
    await player.end("after")

    assert await states(database, run_id) == ["succeeded"]


async def test_workflows_that_call_themselves_end(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = next(new_id)
    job_id = await add_workflow(
        database, step("again", body=SubWorkflow(job_id=job_id + 1)), executor_id=node.executor_id
    )
    run_id = await ask(database, job_id)

    assert await Player(admin, node).play() == []

    assert await states(database, run_id) == ["failed steps"]
    assert len(await runs_of(database, job_id)) == MAX_DEPTH


@pytest.mark.every_database
async def test_the_last_steps_of_a_fan_in_may_end_in_one_batch(database: Database) -> None:
    admin, node = await admin_with_node(database, slots=20)
    lanes = [step(f"lane-{n}") for n in range(8)]
    job_id = await add_workflow(
        database, *lanes, step("join", *(each.key for each in lanes)), executor_id=node.executor_id
    )
    first, second = [await ask(database, job_id, after=n) for n in range(2)]
    requests = await admin.dispatch_all(node)
    await admin.say(node, *map(result, requests), *map(result, requests))  # told twice

    joins = await admin.dispatch_all(node)

    found = [await get_run(database, request.run) for request in joins]
    assert sorted(each.parent_run_id or 0 for each in found) == sorted([first, second])
    await admin.say(node, *map(result, joins))
    assert await states(database, first, second) == ["succeeded"] * 2
