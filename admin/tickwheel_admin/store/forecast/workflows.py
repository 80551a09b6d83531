"""What a forecast knows of workflows: how their last runs went, and where open ones stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.forecast.situation import (
    MeasuredGraph,
    MeasuredStep,
    OpenRun,
    OpenStep,
)
from tickwheel_admin.domain.workflows.graph import Approval, Step, Wait, Workflow
from tickwheel_admin.domain.workflows.states import WHEN, StepState, StepStatus
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.workflows.steps import read_step_rows, readable_steps
from tickwheel_shared.workflows.parts import NEEDS, STOPPED

MEASURED_GRAPHS = 10  # last runs of each workflow
_UNTOLD = (NEEDS, STOPPED)  # skipped by these, it says nothing of its condition
_REVISIONS = sa.select(run.c.id, run.c.job_id, run.c.job_revision).where(among(run.c.id, "ids"))


def measured_graphs(
    conn: sa.Connection, run_ids: Mapping[int, Sequence[int]], configs: JobConfigs
) -> dict[int, tuple[MeasuredGraph, ...]]:
    """How the last runs of workflows went, by job.

    Args:
        run_ids: runs that have ended, by job, the newest first.
    """
    wanted = [run_id for found in run_ids.values() for run_id in found[:MEASURED_GRAPHS]]
    graphs, steps = _graphs_of(conn, wanted, configs), _steps_of(conn, wanted)
    return {
        job_id: tuple(
            _measured(graphs[run_id], steps.get(run_id, ()))
            for run_id in found[:MEASURED_GRAPHS]
            if run_id in graphs
        )
        for job_id, found in run_ids.items()
    }


def with_steps(
    conn: sa.Connection, open_runs: Sequence[OpenRun], configs: JobConfigs
) -> tuple[OpenRun, ...]:
    """The same runs, those of workflows that have started with their steps."""
    wanted = [each.id for each in open_runs if each.is_workflow and each.started_at is not None]
    if not wanted:
        return tuple(open_runs)
    graphs, steps = _graphs_of(conn, wanted, configs), _steps_of(conn, wanted)
    return tuple(
        replace(each, steps=_open_steps(graphs[each.id], steps.get(each.id, ())))
        if each.id in graphs
        else each
        for each in open_runs
    )


def _graphs_of(
    conn: sa.Connection, run_ids: Sequence[int], configs: JobConfigs
) -> dict[int, Workflow]:
    """The graphs that runs keep; those whose revision is gone are left out."""
    if not run_ids:
        return {}
    rows = conn.execute(_REVISIONS, {"ids": sorted(run_ids)}).all()
    known = configs.get_many(conn, {(row.job_id, row.job_revision) for row in rows})
    found = {}
    for row in rows:
        config = known.get((row.job_id, row.job_revision))
        if config is not None and config.workflow is not None:
            found[row.id] = config.workflow
    return found


def _steps_of(conn: sa.Connection, run_ids: Sequence[int]) -> dict[int, list[StepStatus]]:
    if not run_ids:
        return {}
    rows = read_step_rows(conn, run_ids)
    found: defaultdict[int, list[StepStatus]] = defaultdict(list)
    for run_id, mine in rows.items():
        found[run_id] = readable_steps(mine)
    return found


def _measured(graph: Workflow, steps: Sequence[StepStatus]) -> MeasuredGraph:
    """Only of steps of which the graph does not say everything."""
    found = {}
    for status in steps:
        if status.step_index >= len(graph.steps) or status.taken_from is not None:
            continue
        step = graph.steps[status.step_index]
        if status.has_ended and _is_open(step, status):
            found[step.key] = MeasuredStep(
                wanted=status.reason != WHEN,
                items=status.items,
                waited_ms=max(0, status.since - (status.started_at or status.since)),
                succeeded=status.state is StepState.SUCCEEDED,
            )
    return found


def _is_open(step: Step, status: StepStatus) -> bool:
    if status.state is StepState.SKIPPED and status.reason in _UNTOLD:
        return False
    waits = isinstance(step.body, Approval | Wait)
    return waits or step.when is not None or status.items is not None


def _open_steps(graph: Workflow, steps: Sequence[StepStatus]) -> tuple[OpenStep, ...]:
    return tuple(
        OpenStep(
            key=graph.steps[each.step_index].key,
            state=each.state,
            since=each.since,
            due_at=each.due_at,
            items=each.items,
            next_item=each.next_item,
            items_failed=each.items_failed,
        )
        for each in steps
        if each.state is not StepState.WAITING and each.step_index < len(graph.steps)
    )
