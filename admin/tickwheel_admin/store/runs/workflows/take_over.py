"""What the run of a workflow takes over from the one that it repeats."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, WHOLE_FIRE, WORKFLOW, Run, RunState
from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.domain.workflows.retries import StepsTaken, part_taken
from tickwheel_admin.domain.workflows.states import BY_HANDLER, PASSED_BY_HAND, StepStatus
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.tables import run, run_retry, workflow_item, workflow_step
from tickwheel_admin.store.runs.runs import lock_runs
from tickwheel_admin.store.workflows.steps import (
    ItemRun,
    insert_items,
    insert_steps,
    read_steps,
    with_all_steps,
)

_FAILURE_VALUES = sorted(state.value for state in FAILURES)
_workflow = run.alias("workflow")
_item = workflow_item.c
# A run that a workflow's end or a purge may delete at any time is gone already.
_RESULTS = (
    sa.select(run.c.id)
    .join(_workflow, _workflow.c.id == run.c.parent_run_id)
    .where(among(run.c.id, "ids"))
)


def lock_sources(conn: sa.Connection, ended: Run) -> bool:
    """Keep the results that a retry of a workflow's run may take over from being deleted.

    They are of this run, or of those that it was a retry of itself; whoever deletes runs of steps
    locks the runs of their workflows. Returns whether the run is still there.
    """
    earlier = sa.select(run_retry.c.run_id).where(run_retry.c.retry_id == ended.id)
    return ended.id in lock_runs(conn, {ended.id, *conn.execute(earlier).scalars()})


def ended_steps(conn: sa.Connection, ended: Run, graph: Workflow) -> list[StepStatus]:
    """The steps of a workflow's run that has ended, all of its graph."""
    stored = read_steps(conn, [ended.id]).get(ended.id, [])
    return with_all_steps(ended, graph, stored)


def gone_results(
    conn: sa.Connection, steps: Sequence[StepStatus], indices: Collection[int]
) -> list[int]:
    """Those of these steps whose runs, or those of their workflow, have been deleted."""
    # What was passed by hand has no result.
    with_run = [n for n in indices if steps[n].run_id and steps[n].reason != PASSED_BY_HAND]
    single = {steps[n].run_id or 0: n for n in with_run}
    there = set(conn.execute(_RESULTS, {"ids": sorted(single)}).scalars()) if single else set()
    gone = [index for run_id, index in single.items() if run_id not in there]
    return sorted(gone + [n for n in indices if steps[n].items and _items_gone(conn, steps[n])])


def _items_gone(conn: sa.Connection, status: StepStatus) -> bool:
    found = conn.execute(
        sa.select(sa.func.count(), sa.func.count(_workflow.c.id))
        .select_from(workflow_item)
        .outerjoin(run, run.c.id == _item.run_id)
        .outerjoin(_workflow, _workflow.c.id == run.c.parent_run_id)
        .where(_of_step(status.workflow_run_id, status.step_index))
    ).one()
    return found[0] != found[1]


def write_take_over(
    conn: sa.Connection, steps: Sequence[StepStatus], taken: StepsTaken, *, run_id: int, now: int
) -> None:
    """Write it for a run that is queued by the same transaction.

    Args:
        steps: of the run that is repeated.
    """
    rows, items = list(taken.rows), list[ItemRun]()
    for old, new in taken.whole:
        items += [
            ItemRun(run_id, new, item.item_index, item.run_id)
            for item in _items(conn, steps[old], done_only=False)
        ]
    for old, new in taken.partly:
        found = _items(conn, steps[old], done_only=True)
        if not found:
            continue
        items += [ItemRun(run_id, new, item.item_index, item.run_id) for item in found]
        succeeded = sum(item.state == RunState.SUCCEEDED.value for item in found)
        rows.append(
            part_taken(
                steps[old],
                run_id,
                new,
                succeeded=succeeded,
                skipped=len(found) - succeeded,
                now=now,
            )
        )
    insert_steps(conn, rows)
    insert_items(conn, items)


def _items(conn: sa.Connection, status: StepStatus, *, done_only: bool) -> Sequence[Any]:
    """(item_index, run_id, state) of the items that have a run."""
    wanted = (
        sa.select(_item.item_index, _item.run_id, run.c.state)
        .select_from(workflow_item)
        .outerjoin(run, run.c.id == _item.run_id)
        .where(_of_step(status.workflow_run_id, status.step_index))
    )
    if done_only:
        skipped = sa.and_(
            unindexed(run.c.state) == RunState.SKIPPED.value, run.c.reason == BY_HANDLER
        )
        done = sa.or_(unindexed(run.c.state) == RunState.SUCCEEDED.value, skipped)
        wanted = wanted.where(done)
    return conn.execute(wanted).all()


def failed_runs_of_steps(
    conn: sa.Connection, run_id: int, *, steps: Collection[int] | None = None
) -> Mapping[int, int]:
    """Instants of the runs of steps that failed, by id; also those within sub-workflows.

    Args:
        steps: of the workflow's run, by index; None: all of them.
    """
    found: dict[int, int] = {}
    above, chosen = [run_id], steps
    while above:
        inner: list[int] = []
        fires: list[int] = []
        for table in (workflow_step, workflow_item):
            wanted = (
                sa.select(run.c.id, run.c.scheduled_at, run.c.shard_index)
                .join_from(table, run, run.c.id == table.c.run_id)
                .where(
                    among(table.c.workflow_run_id, "above"),
                    unindexed(run.c.state).in_(_FAILURE_VALUES),
                )
            )
            if chosen is not None:
                wanted = wanted.where(table.c.step_index.in_(sorted(chosen)))
            for row in conn.execute(wanted, {"above": above}):
                if row.id not in found and row.shard_index == WORKFLOW:
                    inner.append(row.id)
                if row.shard_index == WHOLE_FIRE:
                    fires.append(row.id)
                found[row.id] = row.scheduled_at
        if fires:
            shards = sa.select(run.c.id, run.c.scheduled_at).where(
                among(run.c.fire_id, "fires"), unindexed(run.c.state).in_(_FAILURE_VALUES)
            )
            rows = conn.execute(shards, {"fires": fires})
            found |= {row.id: row.scheduled_at for row in rows}
        above, chosen = inner, None
    return found


def _of_step(run_id: int, step_index: int) -> sa.ColumnElement[bool]:
    return sa.and_(_item.workflow_run_id == run_id, _item.step_index == step_index)
