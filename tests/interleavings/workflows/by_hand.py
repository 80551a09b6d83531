"""Scenarios of people who skip a step, pause before it or retry a run while something else happens
to what they decided about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from tests.interleavings.baton import Actor
from tests.interleavings.stage import PERSON, Stage, result_of
from tickwheel_admin.domain.errors import Conflict, NotFound
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.workflows.graph import (
    HANDLER,
    HandlerStep,
    InlineJob,
    Need,
    Step,
    Workflow,
)
from tickwheel_admin.domain.workflows.retries import StepChoice, StepsAgain
from tickwheel_admin.domain.workflows.states import (
    BREAKPOINT,
    PASSED_BY_HAND,
    StepState,
    StepStatus,
    request_key_of,
)
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs.purge import purge_runs
from tickwheel_admin.store.runs.retention import remove_old_runs
from tickwheel_admin.store.workflows.steps import insert_steps
from tickwheel_shared.protocol import Outcome

WORK, NEXT, LAST = range(3)


def _chain(stage: Stage, node_ids: Sequence[int]) -> tuple[Run, list[Run]]:
    """A running workflow: `work` → `next` → `last`, and `other` beside it; `work` and `other` are
    live, each on a node of its own.
    """
    hidden = stage.job()
    body = HandlerStep(handler="hello")
    steps = (
        Step(key="work", body=body),
        Step(key="next", body=body, needs=(Need(step="work"),)),
        Step(key="last", body=body, needs=(Need(step="next"),)),
        Step(key="other", body=body),
    )
    inline = tuple(InlineJob(step=each.key, job_id=hidden.id, revision=1) for each in steps)
    job = stage.job(handler=HANDLER, workflow=Workflow(steps=steps, inline=inline))
    workflow = stage.workflow_run(job)
    live = [
        stage.running(
            hidden,
            node_id,
            origin=Origin.STEP,
            parent_run_id=workflow.id,
            request_key=request_key_of(workflow.id, key),
        )
        for key, node_id in zip(("work", "other"), node_ids, strict=True)
    ]
    rows = [
        StepStatus(workflow_run_id=workflow.id, step_index=index, since=stage.began_at, **more)
        for index, more in enumerate(
            (
                {"state": StepState.RUNNING, "run_id": live[0].id},
                {},
                {},
                {"state": StepState.RUNNING, "run_id": live[1].id},
            )
        )
    ]
    stage.write(insert_steps, rows)
    return workflow, live


def a_skip_meets_the_end_of_its_run(stage: Stage) -> Iterator[None]:
    """Somebody skips a step while its run fails: what was told is so, and it is passed on once."""
    first, second, person = [stage.admin() for _ in range(3)]
    nodes = [stage.node(heard_by=[first, second]) for _ in range(2)]
    workflow, (work, other) = _chain(stage, nodes)
    if stage.random.random() < 0.5:  # it was lost, and its result comes too late: others followed
        lost = {"state": RunState.LOST.value, "ended_at": stage.began_at, "deadline_at": None}
        stage.change(tables.run, work.id, **lost)
        stage.change(tables.node, nodes[0], in_use=0)
        _set_step(stage, workflow, WORK, StepState.FAILED, "lost")
        _set_step(stage, workflow, NEXT, StepState.SKIPPED, "needs")
        _set_step(stage, workflow, LAST, StepState.SKIPPED, "needs")
        outcome = Outcome.SUCCEEDED
    else:
        outcome = Outcome.FAILED
    stage.acts(first, "records", first.records, (_socket(first, work), result_of(work, outcome)))
    if stage.random.random() < 0.5:
        said = (_socket(second, other), result_of(other))
        stage.acts(second, "records the other", second.records, said)
    skips = _skips(stage, person, workflow, "work")
    yield
    is_passed = _step(stage, workflow, WORK).reason == PASSED_BY_HAND
    stage.expect(
        skips.error is not None or is_passed, "a skip was confirmed, and the step is not passed"
    )
    _ends_with_runs_of(stage, first, workflow, ["next", "last"] if is_passed else [])


def a_skip_meets_the_start(stage: Stage) -> Iterator[None]:
    """Somebody skips a step while what it needs ends: it has a run, or it is passed."""
    first, second, person = [stage.admin() for _ in range(3)]
    nodes = [stage.node(heard_by=[first, second]) for _ in range(2)]
    workflow, live = _chain(stage, nodes)
    for admin, run in zip((first, second), live, strict=True):
        stage.acts(admin, "records", admin.records, (_socket(admin, run), result_of(run)))
    skips = _skips(stage, person, workflow, "next")
    yield
    is_passed = _step(stage, workflow, NEXT).reason == PASSED_BY_HAND
    stage.expect(
        skips.error is not None or is_passed, "a skip was confirmed, and the step is not passed"
    )
    _ends_with_runs_of(stage, first, workflow, ["last"] if is_passed else ["next", "last"])


def a_pause_meets_the_start(stage: Stage) -> Iterator[None]:
    """Somebody pauses before a step while what it needs ends: it has a run, or it waits."""
    first, second, person = [stage.admin() for _ in range(3)]
    nodes = [stage.node(heard_by=[first, second]) for _ in range(2)]
    workflow, live = _chain(stage, nodes)
    for admin, run in zip((first, second), live, strict=True):
        stage.acts(admin, "records", admin.records, (_socket(admin, run), result_of(run)))
    pauses = stage.acts(
        person, "pauses", person.interventions.pause, PERSON, workflow.id, "next", paused=True
    )
    stage.may_raise(pauses, Conflict)
    yield
    step = _step(stage, workflow, NEXT)
    paused = step.state == StepState.READY.value and step.reason == BREAKPOINT
    stage.expect(
        pauses.error is not None or paused, f"a pause was confirmed, and the step is {step.state}"
    )
    begun = _runs_of(stage, workflow).count("next")
    stage.expect(begun == (not paused), f"the step is {step.state}, and has {begun} runs")
    if paused:
        answer = person.answers.answer

        async def let_go() -> None:
            await answer(PERSON, workflow.id, "next", approved=True)

        stage.afterwards(let_go)
    _ends_with_runs_of(stage, first, workflow, ["next", "last"])


def a_retry_meets_the_retention(stage: Stage) -> Iterator[None]:
    """Old runs are deleted while somebody retries what needs their results: either is refused."""
    person, cleaner = [stage.admin() for _ in range(2)]
    stage.node(heard_by=[person])
    hidden = stage.job()
    body = HandlerStep(handler="hello")
    needs = {"needs": (Need(step="done"),), "parameters": '{"of":"${steps.done.result}"}'}
    steps = (Step(key="done", body=body), Step(key="bad", body=body, **needs))
    inline = tuple(InlineJob(step=each.key, job_id=hidden.id, revision=1) for each in steps)
    job = stage.job(handler=HANDLER, workflow=Workflow(steps=steps, inline=inline))
    workflow = stage.workflow_run(job)
    over = {"ended_at": stage.began_at, "deadline_at": None}
    stage.change(tables.run, workflow.id, state=RunState.FAILED.value, **over)
    done = stage.queued(
        hidden,
        origin=Origin.STEP,
        parent_run_id=workflow.id,
        request_key=request_key_of(workflow.id, "done"),
    )
    succeeded = {"state": RunState.SUCCEEDED.value, "result": '"kept"'}
    stage.change(tables.run, done.id, **succeeded, **over)
    rows = [
        StepStatus(workflow_run_id=workflow.id, step_index=n, since=stage.began_at, **more)
        for n, more in enumerate(
            (
                {"state": StepState.SUCCEEDED, "run_id": done.id},
                {"state": StepState.FAILED, "reason": "failed"},
            )
        )
    ]
    stage.write(insert_steps, rows)
    retries = stage.acts(
        person,
        "retries",
        person.runs.retry,
        PERSON,
        workflow.id,
        steps=StepChoice(again=StepsAgain.FAILED),
    )
    stage.may_raise(retries, Conflict, NotFound)
    store = cleaner.seat.store
    gone = stage.random.choice(([done.id], [done.id, workflow.id], None))
    if gone is None:
        stage.acts(cleaner, "cleans up", store.run, _remove_all_old)
    else:
        stage.acts(cleaner, f"purges {gone}", store.run, purge_runs, gone)
    yield
    again = [run for run in stage.runs() if run.retry_of == workflow.id]
    stage.expect(bool(again) == (retries.error is None), f"retries: {again}, {retries.error!r}")
    if again:
        stage.finish(person)
        given = [run.parameters for run in stage.runs() if run.parent_run_id == again[0].id]
        # Galera does not hold locks of rows that neither side writes on other servers: there the
        # step may find its value gone and fail, but it never runs with another one.
        kept = ['{"of":"kept"}']
        allowed = (kept, []) if stage.cluster.kind == "galera" else (kept,)
        stage.expect(given in allowed, f"what needs the result was given {given}")


def _remove_all_old(conn: sa.Connection) -> int:
    return remove_old_runs(conn, older_than_ms=-60_000, limit=100)


def _skips(stage: Stage, person: Any, workflow: Run, key: str) -> Actor:
    skip = person.interventions.skip
    actor = stage.acts(person, "skips", skip, PERSON, workflow.id, key, reason="known")
    return stage.may_raise(actor, Conflict)


def _socket(admin: Any, run: Run) -> Any:
    return admin.links.sessions[run.node_id]


def _set_step(stage: Stage, workflow: Run, index: int, state: StepState, reason: str) -> None:
    step = tables.workflow_step.c

    def write(conn: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
        here = sa.and_(step.workflow_run_id == workflow.id, step.step_index == index)
        for row in rows:
            conn.execute(sa.update(tables.workflow_step).where(here).values(row))

    stage.write(write, [{"state": state.value, "reason": reason}])


def _step(stage: Stage, workflow: Run, index: int) -> Any:
    step = tables.workflow_step.c
    here = sa.and_(step.workflow_run_id == workflow.id, step.step_index == index)
    (row,) = stage.rows(sa.select(tables.workflow_step).where(here))
    return row


def _runs_of(stage: Stage, workflow: Run) -> list[str]:
    """The steps that have runs, once for each."""
    return sorted(
        (run.request_key or "").split(":")[2]
        for run in stage.runs()
        if run.parent_run_id == workflow.id
    )


def _ends_with_runs_of(stage: Stage, admin: Any, workflow: Run, keys: Sequence[str]) -> None:
    stage.finish(admin)
    begun = _runs_of(stage, workflow)
    stage.expect(begun == sorted(["work", "other", *keys]), f"these steps have run: {begun}")
    state = stage.run(workflow.id).state
    meant = RunState.SUCCEEDED if keys else RunState.FAILED
    stage.expect(state is meant, f"the workflow is {state.value}")


SCENARIOS = (
    a_skip_meets_the_end_of_its_run,
    a_skip_meets_the_start,
    a_pause_meets_the_start,
    a_retry_meets_the_retention,
)
