"""Workflow runs whose deadline is past: their steps are stopped, or an instant has come."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa
from msgspec.structs import replace

from tickwheel_admin.domain.alarms.run_signals import signals_of_moves
from tickwheel_admin.domain.errors import DEFECTS
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.run import (
    CANCEL_REPEAT_MS,
    CHECK_MS,
    LIVE,
    TIMEOUT,
    Move,
    Run,
    RunState,
)
from tickwheel_admin.domain.workflows.ends import WORKFLOW_TIMEOUT
from tickwheel_admin.domain.workflows.moves import given_up
from tickwheel_admin.engine.sweeper.deadlines import RUNS_PER_BATCH, SweepResult
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.deadlines import set_deadlines
from tickwheel_admin.store.runs.follow_ups import FollowUpResult, move_with_follow_ups
from tickwheel_admin.store.runs.runs import lock_runs, move_runs
from tickwheel_admin.store.runs.workflows.advance import advance_workflows
from tickwheel_admin.store.runs.workflows.books import graph_of
from tickwheel_admin.store.runs.workflows.step_runs import open_step_runs, stopping_workflows


def sweep_workflows(
    conn: sa.Connection,
    ids: Collection[int],
    configs: JobConfigs,
    run_ids: Sequence[int] = (),
) -> SweepResult:
    """Stop the steps of workflows that are to end; let the others go on.

    Runs of steps are locked before those of their workflows, as everywhere.

    Raises:
        TooFewIds: as `move_with_follow_ups`.
    """
    now = now_ms(conn)
    late = stopping_workflows(conn, ids, configs, now=now)
    open_ids = open_step_runs(conn, late, limit=RUNS_PER_BATCH) if late else []
    steps = lock_runs(conn, open_ids)
    locked = {
        run_id: run
        for run_id, run in lock_runs(conn, ids).items()
        if run.is_workflow and run.state is RunState.RUNNING
    }
    moves = [
        run_moves.stop_wanted(locked[run_id], reason=TIMEOUT, now=now)
        for run_id in sorted(late)
        if run_id in locked and locked[run_id].cancel_requested_at is None
    ]
    stopping = locked | {move.after.id: move.after for move in moves}
    for step in steps.values():
        workflow = stopping.get(step.parent_run_id or 0)
        if workflow is not None and workflow.cancel_requested_at is not None:
            moves += _stops(step, workflow, now=now)
    swept = SweepResult(moved=len(moves))
    swept.followed = move_with_follow_ups(conn, moves, configs=configs, now=now, run_ids=run_ids)
    advanced = advance_workflows(
        conn, looked_at=locked, mend=True, configs=configs, now=now, run_ids=run_ids
    )
    followed = move_with_follow_ups(conn, advanced.moves, configs=configs, now=now, run_ids=run_ids)
    swept.moved += len(advanced.moves)
    swept.followed = FollowUpResult(
        queued=swept.followed.queued + advanced.queued + followed.queued,
        armed=swept.followed.armed + followed.armed,
    )
    ended = {move.after.id for move in advanced.moves}
    set_deadlines(
        conn,
        [
            (run_id, now + CANCEL_REPEAT_MS)
            for run_id, run in stopping.items()
            if run.cancel_requested_at is not None and run_id not in ended
        ],
    )
    return swept


def give_up_workflow(conn: sa.Connection, run_id: int, configs: JobConfigs) -> bool:
    """Look at a run again later that a defect keeps from being swept; returns whether it ended.

    One whose revision cannot be read ends: nothing could ever be decided of it, and what would
    follow from its end is not known either. Its alarms are.
    """
    now = now_ms(conn)
    found = [run for run in lock_runs(conn, [run_id]).values() if run.state in LIVE]
    moves = []
    for run in found:
        try:
            graph_of(conn, run, configs)
        except DEFECTS as error:
            moves.append(given_up(run, error, now=now))
    move_runs(conn, moves)
    add_signals(conn, signals_of_moves(moves, now=now))
    if not moves:
        set_deadlines(conn, [(run.id, now + CHECK_MS) for run in found])
    return bool(moves)


def _stops(step: Run, workflow: Run, *, now: int) -> list[Move]:
    """What stops the run of a step; nothing when it was asked to end already."""
    reason = workflow.cancel_reason or "operator"
    if reason == TIMEOUT:  # of the whole: the step is not to be tried again
        reason = WORKFLOW_TIMEOUT
    if step.state is RunState.QUEUED:
        wanted = replace(step, cancel_reason=reason, cancelled_by=workflow.cancelled_by)
        return [replace(run_moves.cancelled_while_queued(wanted, now=now), before=step)]
    asked = step.cancel_requested_at is not None and step.cancel_reason != TIMEOUT
    if step.state not in LIVE or asked:
        return []
    return [run_moves.stop_wanted(step, reason=reason, now=now, by=workflow.cancelled_by)]
