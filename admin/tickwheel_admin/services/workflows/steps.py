"""The steps of a workflow's run, and the items of a step, as people look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from msgspec import structs

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows.graph import (
    HandlerStep,
    JobStep,
    ScriptStep,
    Step,
    SubWorkflow,
    Workflow,
)
from tickwheel_admin.domain.workflows.states import StepState, StepStatus
from tickwheel_admin.domain.workflows.timeline import critical_path
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.details import visible_item
from tickwheel_admin.services.workflows.names import names_of_step_jobs
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.jobs.jobs import get_config
from tickwheel_admin.store.workflows.steps import read_step_rows, readable_steps, with_all_steps
from tickwheel_admin.store.workflows.views import ItemView as ItemView
from tickwheel_admin.store.workflows.views import (
    StepRun,
    StepTry,
    first_items,
    page_items,
    places_of_jobs,
    runs_of_steps,
    tries_of_runs,
)


class ItemKey(NamedTuple):
    """A place in the items of a step: after this one."""

    item_index: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """A step with how it stands.

    Of a step on an executor that the reader may not see, neither its message nor its run is told.
    """

    step: Step
    status: StepStatus
    run: StepRun | None  # None: it has none, or one for each item, or is not for the reader
    waits_for: tuple[str, ...]  # of a step that waits: the steps that have not ended yet
    is_critical: bool  # the length of the whole hangs on it
    tries: tuple[StepTry, ...] = ()  # attempts of its run that others followed, oldest first
    work_began_at: int | None = None  # of its run's newest attempt, or of its first item
    job_name: str | None = None  # of the job or workflow that it runs, if the reader may see it

    @property
    def message(self) -> str | None:
        """What is told of how it stands: of a failed one also how its run's message begins."""
        if self.status.message is None and self.run and self.status.state is StepState.FAILED:
            return self.run.message
        return self.status.message


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowView:
    """The run of a workflow with its steps."""

    run: Run
    workflow: Workflow  # of the run's revision
    steps: tuple[StepView, ...]  # in the order of the graph

    @property
    def ended(self) -> int:
        """How many steps have ended, however."""
        return sum(view.status.has_ended for view in self.steps)


class WorkflowRuns:
    """Use cases of the runs of workflows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, actor: Actor, run_id: int) -> WorkflowView:
        """The steps of a workflow's run; before it is claimed, all of them wait.

        Raises:
            NotFound: a run that is gone, that the caller may not see, or of no workflow.
        """
        return await self._store.read(read_workflow, actor, run_id)

    async def job_names(self, actor: Actor, workflow: Workflow) -> dict[str, str]:
        """The names of the jobs that steps run, by step; only what the caller may see."""
        if not workflow.job_ids:
            return {}
        return await self._store.read(names_of_step_jobs, actor, workflow)

    async def items(
        self,
        actor: Actor,
        run_id: int,
        key: str,
        *,
        state: RunState | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[ItemView]:
        """Items of a step that have a run, in the order of their list.

        Args:
            state: only those whose run stands so.

        Raises:
            NotFound: likewise; or the workflow has no such step.
        """
        check_limit(limit)
        after = decode_cursor(cursor, ItemKey)

        def read(conn: sa.Connection) -> list[ItemView]:
            _, workflow = workflow_of(conn, actor, run_id)
            if key not in workflow.index_of:
                raise not_found()
            found = page_items(
                conn,
                run_id,
                workflow.index_of[key],
                after=-1 if after is None else after.item_index,
                state=state,
                limit=limit + 1,
            )
            return [_seen_item(actor, item) for item in found]

        found = await self._store.read(read)
        items = found[:limit]
        more = len(found) > limit
        return Page(
            items=items,
            next=encode_cursor(ItemKey(items[-1].item_index)) if more else None,
        )


def read_workflow(conn: sa.Connection, actor: Actor, run_id: int) -> WorkflowView:
    """The same within a transaction."""
    run, workflow = workflow_of(conn, actor, run_id)
    # A row that is unreadable is shown as if it were not there: its run must have a page.
    stored = readable_steps(read_step_rows(conn, [run_id]).get(run_id, ()))
    steps = with_all_steps(run, workflow, stored)
    hidden = _hidden(conn, actor, run, workflow)
    steps = [_without_run(each) if each.step_index in hidden else each for each in steps]
    runs = runs_of_steps(conn, [step.run_id for step in steps if step.run_id is not None])
    tries = tries_of_runs(conn, [each.id for each in runs.values() if each.attempt > 1])
    with_items = [step.step_index for step in steps if step.items and step.step_index not in hidden]
    begun = first_items(conn, run_id, with_items)
    critical = set(critical_path(workflow, steps))
    job_names = names_of_step_jobs(conn, actor, workflow)
    return WorkflowView(
        run=run,
        workflow=workflow,
        steps=tuple(
            StepView(
                step=step,
                status=status,
                run=None if status.run_id is None else runs.get(status.run_id),
                waits_for=_waits_for(workflow, step, steps)
                if status.state is StepState.WAITING
                else (),
                is_critical=status.step_index in critical,
                tries=tries.get(status.run_id or 0, ()),
                work_began_at=begun.get(status.step_index, status.started_at)
                if status.run_id is None
                else _work_began_at(status, runs, tries),
                job_name=job_names.get(step.key),
            )
            for step, status in zip(workflow.steps, steps, strict=True)
        ),
    )


def state_of(word: str) -> RunState:
    """The state that a word names.

    Raises:
        InvalidInput: on "state".
    """
    try:
        return RunState(word)
    except ValueError:
        choices = ", ".join(RunState)
        raise InvalidInput.one(
            "state", "not_one_of", "This must be one of %(choices)s.", choices=choices
        ) from None


def workflow_of(conn: sa.Connection, actor: Actor, run_id: int) -> tuple[Run, Workflow]:
    """The run with the graph that it keeps; raises as `WorkflowRuns.get`."""
    run = visible_item(conn, actor, run_id).run
    workflow = get_config(conn, run.job_id, run.job_revision).workflow
    if workflow is None:
        raise not_found()
    return run, workflow


def _hidden(conn: sa.Connection, actor: Actor, run: Run, workflow: Workflow) -> frozenset[int]:
    """Indices of the steps on executors that the actor may not see."""
    if actor.scope(Permission.VIEW) is None:
        return frozenset()
    of_jobs = places_of_jobs(conn, workflow.job_ids)
    hidden = set()
    for index, step in enumerate(workflow.steps):
        executor_id: int | None = run.executor_id
        if isinstance(step.body, JobStep | SubWorkflow):
            executor_id = of_jobs.get(step.body.job_id)
        elif isinstance(step.body, HandlerStep | ScriptStep):
            executor_id = step.body.executor_id or run.executor_id
        if executor_id is None or not actor.may(Permission.VIEW, executor_id):
            hidden.add(index)
    return frozenset(hidden)


def _without_run(status: StepStatus) -> StepStatus:
    return structs.replace(status, run_id=None, message=None)


def _seen_item(actor: Actor, item: ItemView) -> ItemView:
    if actor.may(Permission.VIEW, item.executor_id):
        return item
    return item._replace(run_id=None, message=None)


def _work_began_at(
    status: StepStatus, runs: Mapping[int, StepRun], tries: Mapping[int, Sequence[StepTry]]
) -> int | None:
    """When the newest attempt of its run began; None: it has not, or ended in the queue."""
    run_id = status.run_id or 0
    run = runs.get(run_id)
    if run is None:  # it was deleted since
        return status.started_at
    before = tries.get(run_id, ())
    # A run that waits for its next try still has the instants of the one before.
    if run.state is RunState.QUEUED or (before and before[-1].attempt == run.attempt):
        return None
    return run.started_at


def _waits_for(workflow: Workflow, step: Step, steps: Sequence[StepStatus]) -> tuple[str, ...]:
    return tuple(
        need.step for need in step.needs if not steps[workflow.index_of[need.step]].has_ended
    )
