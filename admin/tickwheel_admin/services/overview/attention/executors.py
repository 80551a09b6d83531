"""Executors where runs wait, or would wait; and fires that are not even planned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
    told,
)
from tickwheel_admin.services.runs.waiting import Waiting, why_they_wait
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_admin.store.overview import attention as store
from tickwheel_admin.store.overview.attention import JobWithExecutor, Load, Scope
from tickwheel_admin.store.runs.queue_depth import COUNT_LIMIT, QueueDepth, queue_depths
from tickwheel_admin.store.triggers.pauses import Pauses

LATE_MS = 30_000
FULL_MS = 10_000
MAX_LATE_EXECUTORS = 10
LATE_SAMPLE = 3  # of the runs that wait longest at an executor
_MAY_GO_ON = frozenset({"no_free_slot", "pinned_node", "pool"})  # when what runs there now ends
# What people wait for on purpose.
_NOT_LATE = frozenset({"paused", "blocked", "not_due", "retry", "job_busy_everywhere"})


def late_planning(conn: sa.Connection, scope: Scope, pauses: Pauses, *, now: int) -> list[Concern]:
    """Triggers that should have been planned half a minute ago."""
    if pauses.everything is not None:
        return []
    count, oldest_at = store.overdue_triggers(
        conn, before=now - LATE_MS, without=pauses.executors, scope=scope
    )
    if not count:
        return []
    return [
        Concern(
            kind=AlarmKind.LATE,
            severity=Severity.ERROR,
            template="Planning is behind: %(count)s triggers are overdue.",
            params={"count": told(count, store.MAX_OVERDUE)},
            since=oldest_at,
        )
    ]


def executor_concerns(conn: sa.Connection, scope: Scope, *, now: int) -> list[Concern]:
    """Executors without nodes, full ones, and those where due runs wait although slots are free."""
    loads = store.loads(conn, scope=scope, now=now)
    waiting = queue_depths(conn, [each.id for each in loads], now=now)
    found = _without_nodes(conn, [each for each in loads if not each.live_nodes], waiting)
    full = [
        _full(load, queue)
        for load in loads
        if _is_full(load) and (queue := waiting.get(load.id)) and queue.since < now - FULL_MS
    ]
    found += full[:PER_KIND]
    found += late_runs(conn, loads, waiting, most=MAX_LATE_EXECUTORS, now=now).concerns
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRuns:
    """What was found at executors where runs wait although slots are free."""

    concerns: Sequence[Concern]
    left_out: Collection[int]  # executors that were too many to be asked about


def late_runs(
    conn: sa.Connection,
    loads: Sequence[Load],
    waiting: Mapping[int, QueueDepth],
    *,
    most: int,
    now: int,
) -> LateRuns:
    """Of each executor, the run that waits longest for something that nobody meant it to.

    Args:
        most: executors that are asked about, run by run: those whose runs wait longest.
    """
    suspects = [
        (load, queue)
        for load in loads
        if load.live_nodes
        and not _is_full(load)
        and (queue := waiting.get(load.id))
        and queue.since < now - LATE_MS
    ]
    suspects.sort(key=lambda each: each[1].since)
    return LateRuns(
        concerns=_late(conn, suspects[:most], now=now),
        left_out=[load.id for load, _ in suspects[most:]],
    )


def _is_full(load: Load) -> bool:
    return bool(load.live_nodes and load.open_slots and not load.free_slots)


def _without_nodes(
    conn: sa.Connection, loads: Sequence[Load], waiting: Mapping[int, QueueDepth]
) -> list[Concern]:
    """Executors with jobs that fire, or with runs that wait: also when both were paused since."""
    active = store.with_active_jobs(conn, [each.id for each in loads if not each.paused])
    concerned = [load for load in loads if load.id in active or load.id in waiting]
    # Those where runs wait come first.
    concerned.sort(key=lambda load: load.id not in waiting)
    ended_at = store.last_node_ended(conn, [load.id for load in concerned[:PER_KIND]])
    found = []
    for load in concerned[:PER_KIND]:
        queue = waiting.get(load.id)
        found.append(
            _of_executor(
                load,
                kind=AlarmKind.NO_NODES,
                severity=Severity.ERROR,
                template="“%(executor)s” has jobs, but no live node."
                if queue is None
                else "%(waiting)s runs of “%(executor)s” wait, and it has no live node.",
                params={
                    "executor": load.name,
                    "waiting": None if queue is None else told(queue.waiting, COUNT_LIMIT),
                },
                since=ended_at.get(load.id) or (None if queue is None else queue.since),
            )
        )
    return found


def _full(load: Load, queue: QueueDepth) -> Concern:
    return _of_executor(
        load,
        kind=AlarmKind.FULL,
        severity=Severity.WARNING,
        template="All %(slots)d slots of “%(executor)s” are taken; %(waiting)s runs wait.",
        params={
            "slots": load.open_slots,
            "executor": load.name,
            "waiting": told(queue.waiting, COUNT_LIMIT),
        },
        since=queue.since,
    )


def _late(
    conn: sa.Connection, suspects: Sequence[tuple[Load, QueueDepth]], *, now: int
) -> list[Concern]:
    oldest = {
        load.id: store.waiting_longest(
            conn, load.id, before=now - LATE_MS, now=now, limit=LATE_SAMPLE
        )
        for load, _ in suspects
    }
    runs = [run for of_executor in oldest.values() for run in of_executor]
    configs = read_configs(conn, {(run.job_id, run.job_revision) for run in runs})
    reasons = why_they_wait(conn, [(run, configs[run.job_id, run.job_revision]) for run in runs])
    named = store.named_jobs(conn, [run.job_id for run in runs])
    found = []
    for load, queue in suspects:
        for run in oldest[load.id]:
            why = reasons.get(run.id)
            if why is not None and why.code not in _NOT_LATE:
                found.append(_late_run(load, queue, run, why, named.get(run.job_id)))
                break
    return found


def _late_run(
    load: Load, queue: QueueDepth, run: Run, why: Waiting, job: JobWithExecutor | None
) -> Concern:
    is_full = why.code == "no_free_slot"  # of the nodes that it may run on
    may_go_on = why.code in _MAY_GO_ON
    return _of_executor(
        load,
        kind=AlarmKind.FULL if is_full else AlarmKind.LATE,
        severity=Severity.WARNING if may_go_on else Severity.ERROR,
        template="%(waiting)s due runs of “%(executor)s” wait, among them run %(run)d.",
        params={
            "waiting": told(queue.waiting, COUNT_LIMIT),
            "executor": load.name,
            "run": run.id,
        },
        since=why.since,
        run_id=run.id,
        job_id=run.job_id,
        job_name=None if job is None else job.name,
        why=why,
    )


def _of_executor(load: Load, **more: Any) -> Concern:
    return Concern(executor_id=load.id, executor_name=load.name, **more)
