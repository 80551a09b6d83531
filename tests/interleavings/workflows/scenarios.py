"""Scenarios of workflows: their steps end at once on several admins, beside cancels and sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from tests.interleavings.baton import Actor
from tests.interleavings.props import EXECUTOR, StagedJob, is_live
from tests.interleavings.stage import PERSON, Stage, result_of
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.runs.run import FINAL, Origin, Run, RunState
from tickwheel_admin.domain.workflows.graph import (
    HANDLER,
    Approval,
    ForEach,
    HandlerStep,
    InlineJob,
    Need,
    Silence,
    Step,
    Workflow,
)
from tickwheel_admin.domain.workflows.retries import StepChoice, StepsAgain
from tickwheel_admin.domain.workflows.states import APPROVAL, StepState, StepStatus, request_key_of
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import DatabaseUnavailable
from tickwheel_admin.store.workflows.steps import ItemRun, insert_items, insert_steps

LANES = 4


def _fan_in(stage: Stage, nodes: Sequence[int]) -> tuple[StagedJob, Run, list[Run]]:
    """A running workflow of some lanes, all of them live, and a step that needs them all.

    Each lane has a node of its own: else the count of its slots would keep their ends apart.
    """
    hidden = stage.job()
    lanes = [Step(key=f"lane-{n}", body=HandlerStep(handler="hello")) for n in range(LANES)]
    join = Step(
        key="join",
        body=HandlerStep(handler="hello"),
        needs=tuple(Need(step=lane.key) for lane in lanes),
    )
    steps = (*lanes, join)
    inline = tuple(InlineJob(step=each.key, job_id=hidden.id, revision=1) for each in steps)
    job = stage.job(handler=HANDLER, workflow=Workflow(steps=steps, inline=inline))
    workflow = stage.workflow_run(job)
    runs = [
        stage.running(
            hidden,
            node_id,
            origin=Origin.STEP,
            parent_run_id=workflow.id,
            request_key=request_key_of(workflow.id, lane.key),
        )
        for lane, node_id in zip(lanes, nodes, strict=True)
    ]
    rows = [
        StepStatus(
            workflow_run_id=workflow.id,
            step_index=index,
            state=StepState.RUNNING,
            run_id=run.id,
            since=stage.began_at,
        )
        for index, run in enumerate(runs)
    ]
    rows.append(StepStatus(workflow_run_id=workflow.id, step_index=LANES, since=stage.began_at))
    stage.write(insert_steps, rows)
    return job, workflow, runs


def last_steps_end_at_once(stage: Stage) -> Iterator[None]:
    """The lanes of a fan-in end on several admins at once: what needs them all begins once."""
    admins = [stage.admin() for _ in range(stage.random.randint(2, 3))]
    nodes = [stage.node(heard_by=admins) for _ in range(LANES)]
    _, workflow, runs = _fan_in(stage, nodes)
    for number, admin in enumerate(admins):
        mine = [run for at, run in enumerate(runs) if at % len(admins) == number]
        said = [(admin.links.sessions[run.node_id or 0], result_of(run)) for run in mine]
        stage.acts(admin, "records", admin.records, *said)
    if stage.random.random() < 0.5:
        sweeper = stage.admin()
        stage.acts(sweeper, "sweeps", sweeper.sweeps)
    yield
    _expect_joins(stage, workflow, 1)
    finisher = admins[0]
    stage.finish(finisher)
    after = stage.run(workflow.id)
    stage.expect(after.state is RunState.SUCCEEDED, f"the workflow is {after.state.value}")


def a_cancel_meets_the_last_steps(stage: Stage) -> Iterator[None]:
    """Somebody cancels the workflow while its last steps end: it ends, and nothing runs on."""
    first, second, person, sweeper = [stage.admin() for _ in range(4)]
    nodes = [stage.node(heard_by=[first, second, sweeper]) for _ in range(LANES)]
    _, workflow, runs = _fan_in(stage, nodes)
    for number, admin in enumerate((first, second)):
        mine = runs[number::2]
        said = [(admin.links.sessions[run.node_id or 0], result_of(run)) for run in mine]
        stage.acts(admin, "records", admin.records, *said)
    stage.acts(person, "cancels", person.runs.cancel, PERSON, workflow.id)
    stage.acts(sweeper, "sweeps", sweeper.sweeps)
    yield
    for _ in range(3):
        stage.afterwards(sweeper.sweeps)
    stage.finish(first)
    stage.afterwards(sweeper.sweeps)
    after = stage.run(workflow.id)
    stage.expect(
        after.state in (RunState.CANCELLED, RunState.SUCCEEDED),
        f"the workflow is {after.state.value}",
    )
    for run in stage.runs():
        stage.expect(not is_live(run), f"run {run.id} is {run.state.value}")
    joins = [run for run in stage.runs() if (run.request_key or "").split(":")[2:3] == ["join"]]
    stage.expect(len(joins) <= 1, f"the last step runs {len(joins)} times")


def its_executor_is_deleted(stage: Stage) -> Iterator[None]:
    """The executor is deleted with its jobs while the last steps end: nothing waits or runs on."""
    first, second, deleting, sweeper = [stage.admin() for _ in range(4)]
    nodes = [stage.node(heard_by=[first, second, sweeper]) for _ in range(LANES)]
    _, workflow, runs = _fan_in(stage, nodes)
    for number, admin in enumerate((first, second)):
        mine = runs[number::2]
        said = [(admin.links.sessions[run.node_id or 0], result_of(run)) for run in mine]
        stage.acts(admin, "records", admin.records, *said)
    deletes = stage.acts(
        deleting, "deletes", deleting.executors.delete, PERSON, EXECUTOR, with_jobs=True
    )
    yield
    if deletes.error is not None:
        return  # the database gave up: somebody deletes it again
    for _ in range(3):
        stage.afterwards(sweeper.sweeps)
    after = stage.run(workflow.id)
    stage.expect(after.state in FINAL, f"the workflow is {after.state.value}")
    for run in stage.runs():
        stage.expect(run.state in FINAL, f"run {run.id} is {run.state.value}")
    joins = [run for run in stage.runs() if (run.request_key or "").split(":")[2:3] == ["join"]]
    stage.expect(len(joins) <= 1, f"the last step runs {len(joins)} times")


def items_end_at_once(stage: Stage) -> Iterator[None]:
    """Items end on several admins at once: as many begin as have ended, and each once."""
    admins = [stage.admin() for _ in range(2)]
    node_id = stage.node(heard_by=admins, slots=20)
    hidden = stage.job()
    count, most = 8, 4
    each = Step(
        key="each",
        body=HandlerStep(handler="hello"),
        for_each=ForEach(items=str(list(range(count))), max_parallel=most),
    )
    inline = (InlineJob(step="each", job_id=hidden.id, revision=1),)
    job = stage.job(handler=HANDLER, workflow=Workflow(steps=(each,), inline=inline))
    workflow = stage.workflow_run(job)
    runs = [
        stage.running(
            hidden,
            node_id,
            origin=Origin.STEP,
            parent_run_id=workflow.id,
            request_key=request_key_of(workflow.id, "each", item),
        )
        for item in range(most)
    ]
    row = StepStatus(
        workflow_run_id=workflow.id,
        step_index=0,
        state=StepState.RUNNING,
        since=stage.began_at,
        items=count,
        next_item=most,
        items_started=most,
    )
    stage.write(insert_steps, [row])
    items = [ItemRun(workflow.id, 0, item, run.id) for item, run in enumerate(runs)]
    stage.write(insert_items, items)
    for number, admin in enumerate(admins):
        said = [(admin.links.sessions[node_id], result_of(run)) for run in runs[number::2]]
        stage.acts(admin, "records", admin.records, *said)
    yield
    begun = Counter((run.request_key or "") for run in stage.runs() if run.parent_run_id)
    stage.expect(len(begun) == count, f"{len(begun)} of {count} items have begun")
    stage.finish(admins[0])
    after = stage.run(workflow.id)
    stage.expect(after.state is RunState.SUCCEEDED, f"the workflow is {after.state.value}")


def an_answer_meets_its_deadline(stage: Stage) -> Iterator[None]:
    """Two people answer a step, and its time is over at the same moment: one of them decides."""
    people = [stage.admin() for _ in range(2)]
    sweeper = stage.admin()
    stage.node(heard_by=[sweeper])
    hidden = stage.job()
    silence = stage.random.choice(tuple(Silence))
    steps = (
        Step(key="ask", body=Approval(deadline_ms=1_000, silence=silence)),
        Step(key="after", body=HandlerStep(handler="hello"), needs=(Need(step="ask"),)),
    )
    inline = (InlineJob(step="after", job_id=hidden.id, revision=1),)
    job = stage.job(handler=HANDLER, workflow=Workflow(steps=steps, inline=inline))
    workflow = stage.workflow_run(job)
    stage.change(tables.run, workflow.id, deadline_at=stage.began_at - 1)
    asked = StepStatus(
        workflow_run_id=workflow.id,
        step_index=0,
        state=StepState.READY,
        reason=APPROVAL,
        since=stage.began_at - 1_001,
        due_at=stage.began_at - 1,
    )
    waiting = StepStatus(workflow_run_id=workflow.id, step_index=1, since=stage.began_at)
    stage.write(insert_steps, [asked, waiting])
    said: list[tuple[Actor, bool]] = []
    for admin in people:
        approved = stage.random.random() < 0.5
        answer = admin.answers.answer
        told = f"says {'yes' if approved else 'no'}"
        actor = stage.acts(admin, told, answer, PERSON, workflow.id, "ask", approved=approved)
        said.append((stage.may_raise(actor, Conflict), approved))
    stage.acts(sweeper, "sweeps", sweeper.sweeps)
    yield
    row = stage.rows(sa.select(tables.workflow_step).where(tables.workflow_step.c.step_index == 0))
    (ask,) = row
    counted = [approved for actor, approved in said if actor.error is None]
    stage.expect(len(counted) <= 1, f"{len(counted)} people were told that they decided")
    meant = counted[0] if counted else silence is Silence.APPROVE
    stage.expect((ask.state == "succeeded") == meant, f"the step is {ask.state}, not {meant}")
    stage.expect((ask.decided_by is not None) == bool(counted), f"{ask.decided_by} decided")
    stage.finish(sweeper)
    begun = [run for run in stage.runs() if run.parent_run_id == workflow.id]
    stage.expect(len(begun) == meant, f"the step after it has {len(begun)} runs")


def retries_meet(stage: Stage) -> Iterator[None]:
    """People retry a failed run at once, one of them with two clicks: it is repeated once."""
    people = [stage.admin() for _ in range(3)]
    stage.node(heard_by=people[:1])
    hidden = stage.job()
    steps = (
        Step(key="done", body=HandlerStep(handler="hello")),
        Step(key="bad", body=HandlerStep(handler="hello"), needs=(Need(step="done"),)),
    )
    inline = tuple(InlineJob(step=each.key, job_id=hidden.id, revision=1) for each in steps)
    job = stage.job(handler=HANDLER, workflow=Workflow(steps=steps, inline=inline))
    workflow = stage.workflow_run(job)
    failed = {"state": RunState.FAILED.value, "ended_at": stage.began_at, "deadline_at": None}
    stage.change(tables.run, workflow.id, **failed)
    states = (StepState.SUCCEEDED, StepState.FAILED)
    rows = [
        StepStatus(workflow_run_id=workflow.id, step_index=n, state=state, since=stage.began_at)
        for n, state in enumerate(states)
    ]
    stage.write(insert_steps, rows)
    asked: list[Actor] = []
    for admin, key in zip(people, ("one", "one", "other"), strict=True):
        actor = stage.acts(
            admin,
            f"retries as {key}",
            admin.runs.retry,
            PERSON,
            workflow.id,
            request_key=key,
            steps=StepChoice(again=StepsAgain.FAILED),
        )
        asked.append(stage.may_raise(actor, Conflict))
    yield
    made = [run for run in stage.runs() if run.retry_of == workflow.id]
    stage.expect(len(made) == 1, f"there are {len(made)} retries")
    # Whoever met too many faults was told only that the database does not answer.
    told = [
        None if isinstance(actor.error, DatabaseUnavailable) else actor.error is None
        for actor in asked
    ]
    one, other = {*told[:2]} - {None}, {told[2]} - {None}
    agree = len(one) < 2 and not one & other
    stage.expect(agree, f"who was told that it is retried: {told}")
    stage.finish(people[0])
    for run in made:
        after = stage.run(run.id)
        stage.expect(after.state is RunState.SUCCEEDED, f"the retry is {after.state.value}")
        begun = [str(r.request_key) for r in stage.runs() if r.parent_run_id == run.id]
        stage.expect(begun == [request_key_of(run.id, "bad")], f"it did {begun} anew")


def _expect_joins(stage: Stage, workflow: Run, count: int) -> None:
    joins = [
        run
        for run in stage.runs()
        if run.parent_run_id == workflow.id and (run.request_key or "").endswith(":join:0")
    ]
    stage.expect(len(joins) == count, f"the last step runs {len(joins)} times")
    ended = stage.run(workflow.id).state in FINAL
    stage.expect(not ended, "the workflow ended before its last step")


SCENARIOS = (
    last_steps_end_at_once,
    a_cancel_meets_the_last_steps,
    its_executor_is_deleted,
    items_end_at_once,
    an_answer_meets_its_deadline,
    retries_meet,
)
