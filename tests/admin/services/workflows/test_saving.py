"""Saving workflows: hidden jobs, names, permissions, circles, and the way back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput, NotAllowed, Problem
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.jobs.inline_steps import MAX_NAME_CHARS
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.domain.workflows.graph import MAX_DEPTH, Workflow
from tickwheel_admin.services.jobs.history import JobHistory
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.services.jobs.yaml import from_yaml, to_yaml
from tickwheel_admin.services.runs.edits import RetryRevision
from tickwheel_admin.services.workflows.names import with_ids
from tickwheel_admin.services.workflows.steps import WorkflowRuns
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

pytestmark = pytest.mark.every_database(nightly=True)

EXTRACT = {"key": "extract", "handler": "extract"}
LOAD = {"key": "load", "handler": "load", "needs": ["extract"]}


def flow(*steps: dict[str, Any], name: str = "month-end", **changes: Any) -> dict[str, Any]:
    return {"name": name, "workflow": {"steps": list(steps)}} | changes


def hidden(world: World) -> dict[str, tuple[int, int, bool]]:
    """The jobs with a slash in their names: id, revision, and whether they are still hidden."""
    job = tables.job.c
    wanted = sa.select(job.name, job.id, job.revision, job.deleted_at).order_by(job.id)
    return {
        row.name: (row.id, row.revision, row.deleted_at == tables.OF_WORKFLOW)
        for row in world.rows(wanted.where(job.name.like("%/%")))
    }


async def workflow_of(world: World, job_id: int) -> Workflow:
    workflow = (await world.jobs.get(ADMIN, job_id)).item.job.config.workflow
    assert workflow is not None
    return workflow


async def problems(world: World, executor_id: int, raw: Any, actor: Actor = ADMIN) -> list[Any]:
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.create(actor, executor_id, raw)
    return [(problem.field, problem.code) for problem in caught.value.problems]


async def test_handlers_and_scripts_become_hidden_jobs(world: World, executor_id: int) -> None:
    script = {"language": "shell", "source": "echo done"}
    clean = {"key": "clean", "script": script, "needs": ["load"], "retries": 2}
    with pytest.raises(NotAllowed):
        await world.jobs.create(ADMIN, executor_id, flow(EXTRACT, LOAD, clean))
    writer = replace(ADMIN, scripts=frozenset({ALL_EXECUTORS}))
    job_id = await world.jobs.create(writer, executor_id, flow(EXTRACT, LOAD, clean))

    made = hidden(world)
    assert list(made) == ["month-end/extract", "month-end/load", "month-end/clean"]
    workflow = await workflow_of(world, job_id)
    assert [workflow.job_of(key) for key in ("extract", "load", "clean")] == [
        (made[f"month-end/{key}"][0], 1) for key in ("extract", "load", "clean")
    ]
    page = await world.jobs.page(ADMIN, JobQuery())
    assert [item.job.id for item in page.items] == [job_id]
    shown = (await world.jobs.get(ADMIN, job_id)).raw["workflow"]["steps"][2]
    assert shown["script"]["source"] == "echo done"


async def test_a_step_keeps_its_job_while_it_keeps_its_key(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, flow(EXTRACT, LOAD))
    before = hidden(world)
    await world.jobs.update(ADMIN, job_id, flow(EXTRACT, LOAD | {"retries": 3}), revision=1)
    first = await workflow_of(world, job_id)
    extract, load = before["month-end/extract"][0], before["month-end/load"][0]
    assert [first.job_of("extract"), first.job_of("load")] == [(extract, 1), (load, 2)]

    await world.jobs.update(ADMIN, job_id, flow(EXTRACT, name="close"), revision=2)
    renamed = hidden(world)
    assert renamed["close/extract"] == (extract, 2, True)
    assert renamed["month-end/load"] == (load, 2, False)

    history = JobHistory(world.database, Ids(world.database), world.events)
    await history.roll_back(ADMIN, job_id, 2, expected_revision=3)
    back = await workflow_of(world, job_id)
    assert back.steps == first.steps
    assert back.job_of("extract") == (extract, 3)
    again = back.job_of("load")
    assert again is not None
    assert again[0] != load  # it was gone meanwhile, and what ran then is not its past

    await world.jobs.delete(ADMIN, job_id)
    assert not any(is_hidden for _, _, is_hidden in hidden(world).values())
    await world.jobs.create(ADMIN, executor_id, flow(EXTRACT))  # the names are free


async def test_saving_the_same_again_changes_nothing(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, flow(EXTRACT, LOAD))
    assert await world.jobs.update(ADMIN, job_id, flow(EXTRACT, LOAD), revision=1) == 1
    assert {revision for _, revision, _ in hidden(world).values()} == {1}


async def test_yaml_names_jobs_and_executors(world: World, executor_id: int) -> None:
    other_id = await world.executor("warehouse")
    mine = await world.jobs.create(ADMIN, executor_id, JOB | {"name": "mine"})
    theirs = await world.jobs.create(ADMIN, other_id, JOB | {"name": "theirs"})
    raw = flow(
        {"key": "a", "job": "mine"},
        {"key": "b", "job": {"executor": "warehouse", "name": "theirs"}},
        {"key": "c", "handler": "copy", "executor": "warehouse"},
    )
    job_id = await world.jobs.create(ADMIN, executor_id, raw)
    workflow = await workflow_of(world, job_id)
    assert workflow.job_ids == (mine, theirs)
    assert list(hidden(world)) == [f"month-end/c ({job_id})"]

    detail = await world.jobs.get(ADMIN, job_id)
    text = to_yaml(detail.raw)
    assert from_yaml(text)["workflow"] == raw["workflow"]
    assert await world.jobs.update(ADMIN, job_id, from_yaml(text), revision=1) == 1

    stranger = actor_with(Role.VIEWER, executor_id)  # sees ids of what is not for them
    steps = (await world.jobs.get(stranger, job_id)).raw["workflow"]["steps"]
    assert [step.get("job", step.get("executor")) for step in steps] == ["mine", theirs, other_id]
    runs = WorkflowRuns(world.database)
    assert await runs.job_names(ADMIN, workflow) == {"a": "mine", "b": "theirs"}
    assert await runs.job_names(stranger, workflow) == {"a": "mine"}
    assert parse_job(json.loads(json.dumps(detail.raw)) | raw | {"workflow": None, "handler": "x"})


async def test_a_script_that_no_node_runs_is_told_at_the_script(
    world: World, executor_id: int
) -> None:
    world.node(executor_id, handlers=["extract"])
    raw = flow({"key": "s", "script": {"language": "shell", "source": "echo"}})
    writer = replace(ADMIN, scripts=frozenset({ALL_EXECUTORS}))
    with pytest.raises(InvalidInput) as refused:
        await world.jobs.create(writer, executor_id, raw)
    assert [(each.field, each.code) for each in refused.value.problems] == [
        ("workflow.steps[0].script", "handler.unknown")
    ]


async def test_what_is_not_there_is_refused(world: World, executor_id: int) -> None:
    world.node(executor_id, handlers=["extract"])
    plain = await world.jobs.create(ADMIN, executor_id, JOB | {"handler": "extract"})
    raw = flow(
        EXTRACT,
        {"key": "b", "job": 999},
        {"key": "c", "workflow": plain},
        {"key": "d", "handler": "extrakt"},
        {"key": "e", "handler": "extract", "executor": 999},
        {"key": "f", "handler": "extract", "parameters": {"x": "${secret.none}"}},
    )
    assert await problems(world, executor_id, raw) == [
        ("workflow.steps[1].job", "workflow.unknown_job"),
        ("workflow.steps[2].workflow", "workflow.no_workflow"),
        ("workflow.steps[3].handler", "handler.unknown"),
        ("workflow.steps[4].executor", "workflow.unknown_executor"),
        ("workflow.steps[5].parameters.x", "secret.unknown"),
    ]
    raw = flow(
        {"key": "a", "job": "none"},
        {"key": "b", "job": {"executor": "none", "name": "x"}},
        {"key": "c", "job": {"name": "x"}},
        {"key": "d", "handler": "extract", "executor": "none"},
    )
    assert await problems(world, executor_id, raw) == [
        ("workflow.steps[0].job", "workflow.unknown_job_name"),
        ("workflow.steps[1].job.executor", "workflow.unknown_executor_name"),
        ("workflow.steps[2].job", "workflow.job"),
        ("workflow.steps[3].executor", "workflow.unknown_executor_name"),
    ]


async def test_all_names_are_looked_up_at_once(world: World, executor_id: int) -> None:
    other = await world.executor("warehouse")
    names = [f"job-{n}" for n in range(6)]
    for name in names:
        await world.jobs.create(ADMIN, other, JOB | {"name": name})
    steps: list[dict[str, Any]] = [
        {"key": f"s{n}", "job": {"executor": "warehouse", "name": name}}
        for n, name in enumerate(names)
    ]
    steps += [{"key": f"t{n}", "job": f"none-{n}"} for n in range(6)]
    statements: list[str] = []

    def read(conn: sa.Connection) -> tuple[Any, list[Problem]]:
        sa.event.listen(
            conn, "before_cursor_execute", lambda c, cursor, text, *more: statements.append(text)
        )
        return with_ids(conn, ADMIN, executor_id, flow(*steps))

    found, refused = await world.database.read(read)
    assert len([text for text in statements if text.startswith("SELECT")]) == 2
    assert len({step["job"] for step in found["workflow"]["steps"][:6]}) == 6
    assert [each.code for each in refused] == ["workflow.unknown_job_name"] * 6


async def test_one_must_be_allowed_to_run_what_a_workflow_runs(
    world: World, executor_id: int
) -> None:
    other_id = await world.executor("warehouse")
    theirs = await world.jobs.create(ADMIN, other_id, JOB | {"name": "theirs"})
    raw = flow({"key": "a", "job": theirs}, {"key": "b", "handler": "x", "executor": other_id})
    developer = actor_with(Role.DEVELOPER, executor_id)
    assert await problems(world, executor_id, raw, developer) == [
        ("workflow.steps[0].job", "workflow.unknown_job"),
        ("workflow.steps[1].executor", "workflow.unknown_executor"),
    ]
    grants = {executor_id: Role.DEVELOPER, other_id: Role.VIEWER}
    watching = Actor(user_id=3, name="cyd", grants=grants)
    assert await problems(world, executor_id, raw, watching) == [
        ("workflow.steps[0].job", "workflow.not_allowed"),
        ("workflow.steps[1].executor", "workflow.not_allowed"),
    ]
    # What the workflow runs already, whoever edits it may leave in it.
    job_id = await world.jobs.create(ADMIN, executor_id, raw)
    more = raw["workflow"]["steps"]
    await world.jobs.update(developer, job_id, flow(*more, EXTRACT), revision=1)
    for changed in (
        {"key": "c", "job": theirs},  # the same, under another name
        more[0] | {"parameters": {"all": True}},
        more[0] | {"for_each": [1, 2]},
        more[1] | {"parameters": {"all": True}},
        more[1] | {"retries": 5},
        more[1] | {"when": "run.id > 0"},
        more[1] | {"needs": ["extract"]},
    ):
        others = [each for each in (*more, EXTRACT) if each["key"] != changed["key"]]
        with pytest.raises(InvalidInput):
            await world.jobs.update(developer, job_id, flow(*others, changed), revision=2)


async def test_hidden_jobs_have_names_of_their_own(world: World, executor_id: int) -> None:
    """Also those of two workflows whose long names differ only at their ends."""
    for end in "xy":
        raw = flow(EXTRACT, name="w" * (MAX_NAME_CHARS - 1) + end)
        await world.jobs.create(ADMIN, executor_id, raw)
    assert len({*hidden(world)}) == 2
    assert all(len(name) <= MAX_NAME_CHARS for name in hidden(world))


async def test_workflows_run_in_no_circle(world: World, executor_id: int) -> None:
    inner = await world.jobs.create(ADMIN, executor_id, flow(EXTRACT, name="inner"))
    middle = await world.jobs.create(ADMIN, executor_id, JOB | {"children": [{"job": inner}]})
    outer = await world.jobs.create(
        ADMIN, executor_id, flow({"key": "a", "job": middle}, name="outer")
    )
    closing = flow(EXTRACT, {"key": "again", "workflow": outer}, name="inner")
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.update(ADMIN, inner, closing, revision=1)
    (problem,) = caught.value.problems
    assert (problem.field, problem.code) == (
        "workflow.steps[1].workflow",
        "workflow.circle_of_jobs",
    )
    assert problem.params["path"] == "inner → outer → invoices → inner"

    await world.jobs.update(ADMIN, middle, JOB, revision=1)
    await world.jobs.update(ADMIN, inner, closing, revision=1)
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.update(ADMIN, middle, JOB | {"children": [{"job": inner}]}, revision=2)
    assert [problem.code for problem in caught.value.problems] == ["child.circle"]


async def test_workflows_lie_within_each_other_to_a_depth(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, flow(EXTRACT, name="w1"))
    for number in range(2, MAX_DEPTH + 1):
        steps = {"key": "inner", "workflow": job_id}
        job_id = await world.jobs.create(ADMIN, executor_id, flow(steps, name=f"w{number}"))
    raw = flow({"key": "inner", "workflow": job_id}, name="last")
    assert await problems(world, executor_id, raw) == [("workflow.steps", "workflow.too_deep")]


async def test_constants_are_checked_against_the_schema(world: World, executor_id: int) -> None:
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in "nmo"},
        "required": ["m", "o"],
    }
    world.change(
        sa.insert(tables.handler_schema).values(
            executor_id=executor_id, handler="extract", schema=json.dumps(schema),
            said_by=1, said_at=1,
        )
    )  # fmt: skip
    given = {"n": "3", "m": "${parameters.m}"}
    raw = flow(EXTRACT | {"parameters": given})
    assert await problems(world, executor_id, raw) == [
        ("workflow.steps[0].parameters.n", "wrong_type"),
        ("workflow.steps[0].parameters.o", "required"),  # nobody gives it later
    ]


async def test_an_old_revision_brings_no_rights_back(world: World, executor_id: int) -> None:
    """A retry with the revision of the run asks for the steps that were taken out since."""
    other_id = await world.executor("warehouse")
    theirs = await world.jobs.create(ADMIN, other_id, JOB | {"name": "theirs"})
    script = {"key": "clean", "script": {"language": "shell", "source": "echo done"}}
    taken_out = (
        {"key": "theirs", "job": theirs},
        {"key": "there", "handler": "x", "executor": other_id},
        script,
    )
    writer = replace(ADMIN, scripts=frozenset({ALL_EXECUTORS}))
    operator = actor_with(Role.OPERATOR, executor_id)
    original = RetryRevision.ORIGINAL
    for number, each in enumerate(taken_out):
        raw = flow(EXTRACT, each, name=f"w{number}")
        job_id = await world.jobs.create(writer, executor_id, raw)
        old = world.run(executor_id=executor_id, job_id=job_id, job_revision=1, state="failed")
        await world.runs.retry(operator, old, revision=original)  # it is in the workflow

        await world.jobs.update(ADMIN, job_id, flow(EXTRACT, name=f"w{number}"), revision=1)
        with pytest.raises(NotAllowed):
            await world.runs.retry(operator, old, revision=original)
        await world.runs.retry(writer, old, revision=original)
        await world.runs.retry(operator, old)

    both = replace(operator, grants={executor_id: Role.OPERATOR, other_id: Role.OPERATOR})
    job_id = await world.jobs.create(writer, executor_id, flow(EXTRACT, *taken_out))
    old = world.run(executor_id=executor_id, job_id=job_id, job_revision=1, state="failed")
    slower = script | {"timeout_seconds": 60}
    await world.jobs.update(writer, job_id, flow(EXTRACT, slower), revision=1)
    await world.runs.retry(both, old, revision=original)  # the script itself is still there


async def test_an_old_revision_goes_not_round_an_approval_that_was_added(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, flow(EXTRACT, name="unasked"))
    old = world.run(executor_id=executor_id, job_id=job_id, job_revision=1, state="failed")
    asks = {"key": "check", "approval": {"roles": ["admin"]}}
    await world.jobs.update(ADMIN, job_id, flow(EXTRACT, asks, name="unasked"), revision=1)
    operator = actor_with(Role.OPERATOR, executor_id)

    with pytest.raises(NotAllowed) as refused:
        await world.runs.retry(operator, old, revision=RetryRevision.ORIGINAL)
    assert refused.value.code == "workflow.new_approval"
    await world.runs.retry(ADMIN, old, revision=RetryRevision.ORIGINAL)
    await world.runs.retry(operator, old)
