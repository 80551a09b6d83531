"""A second check of what waits for the end of a run, in case that end did not wake it (G3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.moves import cancelled_while_queued
from tickwheel_admin.domain.runs.run import FINAL, RunState
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.deletion import runs_of_deleted_executors
from tickwheel_admin.store.runs.follow_ups import (
    FollowUpResult,
    arm_fixed_delays,
    move_with_follow_ups,
    unpark,
)
from tickwheel_admin.store.runs.lanes import BlockingLane, stalled_jobs
from tickwheel_admin.store.runs.runs import lock_runs
from tickwheel_admin.store.triggers.planning import states_of_fires, unarmed_fixed_delays

TRIGGERS_PER_LOOK = 1_000
RUNS_PER_LOOK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """What was set going again, and how far the search went."""

    looked_to: int  # trigger id up to which this call searched; 0: all were searched
    followed: FollowUpResult


def repair_stalled(conn: sa.Connection, *, after: int) -> RepairResult:
    """Unpark runs of jobs without a live run, and arm fixed delays that no run will arm.

    On a cluster whose row locks are local, a run may be parked on one server while the run before
    it ends on another one. Other causes need SQL from outside.

    Args:
        after: the trigger id that the previous call ended with.
    """
    now = now_ms(conn)
    lanes = {BlockingLane(job_id=job_id): 1 for job_id in stalled_jobs(conn)}
    queued = unpark(conn, lanes, now=now) if lanes else 0
    found, looked_to = unarmed_fixed_delays(conn, after=after, limit=TRIGGERS_PER_LOOK)
    states = states_of_fires(conn, found)
    stalled = {
        (trigger_id, fired_at)
        for trigger_id, fired_at in found.items()
        if trigger_id not in states or states[trigger_id] in FINAL
    }
    armed = arm_fixed_delays(conn, stalled, now=now) if stalled else 0
    return RepairResult(looked_to=looked_to, followed=FollowUpResult(queued=queued, armed=armed))


def cancel_orphans(
    conn: sa.Connection, configs: JobConfigs, run_ids: Sequence[int] = ()
) -> tuple[int, FollowUpResult]:
    """Cancel queued runs of deleted executors; returns how many runs these were.

    They are left when a parent ends, or a node refuses, while the executor is being deleted.

    Raises:
        TooFewIds: as `move_with_follow_ups`.
    """
    waiting = runs_of_deleted_executors(conn, limit=RUNS_PER_LOOK)
    if not waiting:
        return 0, FollowUpResult()
    now = now_ms(conn)
    moves = [
        cancelled_while_queued(each, now=now, reason="job_deleted")
        for each in lock_runs(conn, waiting).values()
        if each.state is RunState.QUEUED
    ]
    followed = move_with_follow_ups(conn, moves, configs=configs, now=now, run_ids=run_ids)
    return len(moves), followed
