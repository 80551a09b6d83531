"""Which workflows use a job, or run steps on an executor: their steps fail when it is deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows.graph import HandlerStep, ScriptStep, Workflow
from tickwheel_admin.services.lists.heavy_reads import Breath, HeavyReads
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.jobs.child_links import named_jobs, workflows

MAX_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class UsingWorkflow:
    """A workflow with a step that would fail."""

    id: int
    name: str
    executor_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowsUsing:
    """The workflows that use something."""

    shown: Sequence[UsingWorkflow]  # by name; at most `MAX_SHOWN`, that the caller may see
    others: int  # beside them


class WorkflowUses:
    """Finds workflows by what they run. No index leads to them: each look reads every workflow,
    so that few are made at once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heavy = HeavyReads()

    async def of_job(self, actor: Actor, job_id: int) -> WorkflowsUsing:
        """Those that run the job.

        Raises:
            TooMany: too many looks of this person are under way.
        """

        def read(conn: sa.Connection) -> WorkflowsUsing:
            found = [each for each, workflow in _all(conn) if job_id in workflow.job_ids]
            return _uses(conn, actor, found)

        async with self._heavy.turn(actor.user_id):
            return await self._store.read(read)

    async def of_executor(self, actor: Actor, executor_id: int) -> WorkflowsUsing:
        """Those of other executors that run its jobs, or handlers and scripts on it.

        Raises:
            TooMany: likewise.
        """

        def read(conn: sa.Connection) -> WorkflowsUsing:
            graphs = dict(_all(conn))
            named = named_jobs(conn, {*graphs, *chain(*(w.job_ids for w in graphs.values()))})
            here = {job_id for job_id, job in named.items() if job.executor_id == executor_id}
            using = [
                job_id
                for job_id, workflow in graphs.items()
                if job_id not in here
                and (here.intersection(workflow.job_ids) or executor_id in _places(workflow))
            ]
            return _uses(conn, actor, using)

        async with self._heavy.turn(actor.user_id):
            return await self._store.read(read)


def _all(conn: sa.Connection) -> Iterator[tuple[int, Workflow]]:
    breath = Breath()
    for found in workflows(conn):
        yield found
        breath.take()


def _places(workflow: Workflow) -> set[int | None]:
    """The executors that its handlers and scripts name; None: the workflow's own."""
    bodies = (step.body for step in workflow.steps)
    return {body.executor_id for body in bodies if isinstance(body, HandlerStep | ScriptStep)}


def _uses(conn: sa.Connection, actor: Actor, job_ids: Collection[int]) -> WorkflowsUsing:
    found = named_jobs(conn, job_ids)
    visible = [
        (job.name, job_id, job.executor_id)
        for job_id, job in found.items()
        if actor.may(Permission.VIEW, job.executor_id)
    ]
    shown = sorted(visible)[:MAX_SHOWN]
    executors = executor_names(conn, {executor_id for _, _, executor_id in shown})
    return WorkflowsUsing(
        shown=[
            UsingWorkflow(id=job_id, name=name, executor_name=executors.get(executor_id, ""))
            for name, job_id, executor_id in shown
        ],
        others=len(found) - len(shown),
    )
