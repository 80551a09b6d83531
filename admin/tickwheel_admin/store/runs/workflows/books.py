"""Runs of workflows that go on: locked, with their steps as these stand under the lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

import sqlalchemy as sa

from tickwheel_admin.domain.errors import DEFECTS
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.runs import lock_runs
from tickwheel_admin.store.runs.workflows.defects import Defects
from tickwheel_admin.store.workflows.steps import read_step_rows, steps_from, with_all_steps


def lock_books(
    conn: sa.Connection,
    run_ids: Iterable[int],
    configs: JobConfigs,
    *,
    now: int,
    defects: Defects,
) -> dict[int, WorkflowBook]:
    """The workflow runs that go on, locked, with their steps, which are read under the lock.

    Args:
        defects: takes those that are unreadable, by SQL from outside or of a newer version.
    """
    locked = {
        run_id: run
        for run_id, run in lock_runs(conn, run_ids).items()
        if run.is_workflow and run.state is RunState.RUNNING
    }
    if not locked:
        return {}
    graphs = _graphs(conn, locked, configs, defects)
    stored = read_step_rows(conn, graphs)
    books: dict[int, WorkflowBook] = {}
    for run_id, graph in graphs.items():
        run = locked[run_id]
        there = defects.guard(run, steps_from, stored.get(run_id, ()))
        if there is None:
            continue
        steps = with_all_steps(run, graph, there)
        with_rows = {each.step_index for each in there}
        books[run_id] = WorkflowBook(run, graph, steps, stored=with_rows, now=now)
    return books


def _graphs(
    conn: sa.Connection, locked: Mapping[int, Run], configs: JobConfigs, defects: Defects
) -> dict[int, Workflow]:
    wanted = {(run.job_id, run.job_revision) for run in locked.values()}
    with suppress(*DEFECTS):  # told below, of the run that it is about
        configs.get_many(conn, wanted)  # all of them at once
    found = {
        run_id: defects.guard(run, graph_of, conn, run, configs) for run_id, run in locked.items()
    }
    return {run_id: graph for run_id, graph in found.items() if graph is not None}


def graph_of(conn: sa.Connection, run: Run, configs: JobConfigs) -> Workflow:
    """The graph that a workflow's run keeps.

    Raises:
        LookupError, ValueError: its revision is gone, is unreadable or has no steps.
    """
    revision = run.job_id, run.job_revision
    graph = configs.get_many(conn, {revision})[revision].workflow
    if graph is None:
        raise LookupError(f"revision {revision} has no steps")
    return graph
