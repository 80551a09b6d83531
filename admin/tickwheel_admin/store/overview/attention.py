"""What may need attention: each query reads a bounded part of one index, without locks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.runs.run import FAILURES, LIVE, Origin, Run, RunState
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import (
    IS_NO_PART,
    STANDS_ALONE,
    listed_as,
    queued_for,
)
from tickwheel_admin.store.database.scans import beyond
from tickwheel_admin.store.database.tables import ALIVE, executor, job, node, run, trigger
from tickwheel_admin.store.runs.queue_depth import COUNT_LIMIT, first_try_put_off
from tickwheel_admin.store.runs.rows import SELECTED_RUN, run_from_selected

SCANNED = 5_000  # entries looked at for those of some executors only
MAX_FAILED = 500
FAILURES_SCANNED = 20_000  # entries of each state, for those of some executors only
CHUNK = 1_000  # of them at once
MAX_SUCCESSES = 20_000
MAX_LOST_NODES = 500
RETRIES_WITHIN = 500
LEASES_BEFORE_MS = 86_400_000
MAX_LIVE = 2_000
MAX_OVERDUE = 1_000
MAX_EXECUTORS = 1_000

Scope = frozenset[int] | None  # executors; None: all


class FailedRun(NamedTuple):
    """A run that failed, timed out or was lost."""

    scheduled_at: int
    id: int
    job_id: int
    executor_id: int
    state: str
    node_id: int | None
    retry_of: int | None
    ended_at: int | None

    @property
    def at(self) -> int:
        """When it failed."""
        return self.ended_at or self.scheduled_at


class RunningRun(NamedTuple):
    """A run that is running."""

    id: int
    job_id: int
    started_at: int
    is_step: bool  # of a workflow


class JobWithExecutor(NamedTuple):
    """A job that is not deleted."""

    name: str
    executor_id: int
    executor_name: str


class LostNode(NamedTuple):
    """A node whose lease ended."""

    id: int
    name: str
    executor_id: int
    ended_at: int


class BrokenTrigger(NamedTuple):
    """A trigger that cannot be computed."""

    id: int
    job_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """An executor and what its live nodes can take."""

    id: int
    name: str
    paused: bool
    live_nodes: int
    open_slots: int  # of those that take new runs
    free_slots: int  # of those


def newest_failures(conn: sa.Connection, *, since: int, scope: Scope) -> list[FailedRun]:
    """The newest runs that were scheduled since then and failed.

    Shards and tries of scripts are left out, and so are steps: their fire, or their workflow, fails
    with them unless that is tolerated.
    """
    found: list[FailedRun] = []
    for state in FAILURES:
        found += _failures_in(conn, state, since=since, scope=scope)
    return sorted(found, key=lambda each: each[:2], reverse=True)[:MAX_FAILED]


def _failures_in(
    conn: sa.Connection, state: RunState, *, since: int, scope: Scope
) -> list[FailedRun]:
    """Of one state. Up to `FAILURES_SCANNED` of other executors may lie between those in scope."""
    found: list[FailedRun] = []
    lately = sa.and_(listed_as(state), run.c.scheduled_at >= since, STANDS_ALONE)
    scanned, size = 0, MAX_FAILED
    while scanned < FAILURES_SCANNED and len(found) < MAX_FAILED:
        entries = _newest_entries(conn, lately, limit=size)
        ids = [each.id for each in entries if scope is None or each.executor_id in scope]
        found += _failed_among(conn, ids)
        if len(entries) < size:
            break
        last, scanned, size = entries[-1], scanned + size, CHUNK
        lately = sa.and_(
            listed_as(state),
            run.c.scheduled_at >= since,
            STANDS_ALONE,
            *beyond(last.scheduled_at, last.id, of=run.c.scheduled_at, newer=False),
        )
    return found


def _failed_among(conn: sa.Connection, run_ids: Sequence[int]) -> list[FailedRun]:
    """The runs, found by their ids."""
    if not run_ids:
        return []
    rows = conn.execute(
        sa.select(
            run.c.scheduled_at,
            run.c.id,
            run.c.job_id,
            run.c.executor_id,
            run.c.state,
            run.c.node_id,
            run.c.retry_of,
            run.c.ended_at,
        ).where(run.c.id.in_(run_ids))
    )
    return [FailedRun(*row) for row in rows]


def newest_successes(conn: sa.Connection, *, since: int) -> tuple[dict[int, int], int]:
    """(successes of each executor, since when they are counted): the newest `MAX_SUCCESSES` ones.

    Read from `ix_run_by_state` alone, and of the same runs as failures: neither shards nor steps
    nor tries of scripts.
    """
    newest = reading(
        sa.select(run.c.executor_id, run.c.scheduled_at)
        .where(listed_as(RunState.SUCCEEDED), run.c.scheduled_at >= since, STANDS_ALONE)
        .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
        .limit(MAX_SUCCESSES),
        run,
        "ix_run_by_state",
    ).subquery()
    rows = conn.execute(
        sa.select(
            newest.c.executor_id,
            sa.func.count().label("runs"),
            sa.func.min(newest.c.scheduled_at).label("first_at"),
        ).group_by(newest.c.executor_id)
    ).all()
    cut = sum(row.runs for row in rows) >= MAX_SUCCESSES
    counted_from = min(int(row.first_at) for row in rows) if cut else since
    return {row.executor_id: int(row.runs) for row in rows}, counted_from


def is_retried_since(conn: sa.Connection, of: FailedRun) -> bool:
    """Whether the failed retry, or what it retried, is being retried again or was with success.

    Looks at the job's next `RETRIES_WITHIN` runs.
    """
    later = reading(
        sa.select(run.c.retry_of, run.c.state)
        .where(run.c.job_id == of.job_id, run.c.scheduled_at >= of.at)
        .order_by(run.c.scheduled_at, run.c.id)
        .limit(RETRIES_WITHIN),
        run,
        "ix_run_of_job",
    ).subquery()
    hopeful = {RunState.SUCCEEDED, RunState.QUEUED} | LIVE
    found = sa.select(later.c.retry_of).where(
        later.c.retry_of.in_([of.id, of.retry_of]),
        later.c.state.in_(sorted(state.value for state in hopeful)),
    )
    return conn.execute(found.limit(1)).first() is not None


def next_fires_of_jobs(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, int]:
    """When each of the jobs fires next; those that do not are left out."""
    rows = conn.execute(
        sa.select(trigger.c.job_id, sa.func.min(trigger.c.next_fire_at).label("at"))
        .where(
            trigger.c.job_id.in_(sorted(set(job_ids))),
            unindexed(trigger.c.next_fire_at).is_not(None),
        )
        .group_by(trigger.c.job_id)
    )
    return {row.job_id: int(row.at) for row in rows}


def lost_nodes(conn: sa.Connection, *, since: int, scope: Scope) -> list[LostNode]:
    """Nodes that were declared dead since then, the newest first."""
    statement = (
        sa.select(node.c.id, node.c.name, node.c.executor_id, node.c.ended_at)
        .where(
            node.c.state == NodeState.DEAD.value,
            # Declared dead later than their leases ended, when no admin was up meanwhile.
            node.c.lease_expires_at >= since - LEASES_BEFORE_MS,
        )
        .order_by(node.c.lease_expires_at.desc())
        .limit(MAX_LOST_NODES)
    )
    rows = conn.execute(reading(statement, node, "ix_node_to_expire"))
    found = [
        LostNode(row.id, row.name, row.executor_id, row.ended_at)
        for row in rows
        if row.ended_at is not None
        and row.ended_at >= since
        and (scope is None or row.executor_id in scope)
    ]
    return sorted(found, key=lambda each: -each.ended_at)


def long_running(
    conn: sa.Connection, *, started_before: int, scope: Scope, with_steps: bool = False
) -> list[RunningRun]:
    """Runs that started before then and still run, those that run longest first; neither shards nor
    tries of scripts.

    Args:
        with_steps: also steps of workflows: rules about a job measure them.
    """
    ids = _oldest_running(conn, scope=scope, most=MAX_LIVE)
    rows = conn.execute(
        sa.select(run.c.id, run.c.job_id, run.c.started_at, run.c.origin).where(
            run.c.id.in_(ids),
            IS_NO_PART if with_steps else STANDS_ALONE,
            run.c.started_at < started_before,
        )
    )
    found = [RunningRun(*row[:3], row.origin == Origin.STEP.value) for row in rows]
    return sorted(found, key=lambda each: (each.started_at, each.id))


def _oldest_running(conn: sa.Connection, *, scope: Scope, most: int) -> list[int]:
    """Ids of runs that run, by their instants; read from `ix_run_to_sweep` alone."""
    rows = conn.execute(
        reading(
            sa.select(run.c.id, run.c.executor_id)
            .where(listed_as(RunState.RUNNING))
            .order_by(run.c.scheduled_at, run.c.id)
            .limit(most if scope is None else SCANNED),
            run,
            "ix_run_to_sweep",
        )
    )
    return [row.id for row in rows if scope is None or row.executor_id in scope][:most]


def _newest_entries(
    conn: sa.Connection, condition: sa.ColumnElement[bool], *, limit: int
) -> Sequence[sa.Row[tuple[int, int, int]]]:
    """Of a range of `ix_run_by_state`, read from it alone."""
    return conn.execute(
        reading(
            sa.select(run.c.scheduled_at, run.c.id, run.c.executor_id)
            .where(condition)
            .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
            .limit(limit),
            run,
            "ix_run_by_state",
        )
    ).all()


def named_jobs(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, JobWithExecutor]:
    """Those of the jobs that are not deleted."""
    rows = conn.execute(
        sa.select(job.c.id, job.c.name, job.c.executor_id, executor.c.name.label("executor_name"))
        .join(executor, executor.c.id == job.c.executor_id)
        .where(job.c.id.in_(sorted(set(job_ids))), job.c.deleted_at == ALIVE)
    )
    return {row.id: JobWithExecutor(row.name, row.executor_id, row.executor_name) for row in rows}


def broken_triggers(conn: sa.Connection, *, scope: Scope, limit: int) -> list[BrokenTrigger]:
    """Triggers in error, newest first."""
    statement = (
        sa.select(trigger.c.id, trigger.c.job_id, trigger.c.reason)
        .where(trigger.c.state == TriggerState.ERROR.value)
        .order_by(trigger.c.id.desc())
        .limit(limit)
    )
    if scope is not None:
        statement = statement.where(trigger.c.executor_id.in_(sorted(scope)))
    rows = conn.execute(reading(statement, trigger, "ix_trigger_by_state"))
    return [BrokenTrigger(row.id, row.job_id, row.reason or "") for row in rows]


def overdue_triggers(
    conn: sa.Connection, *, before: int, without: Collection[int], scope: Scope
) -> tuple[int, int | None]:
    """(how many triggers should have been planned before then, the oldest of their instants).

    Args:
        without: executors to leave out: what a pause holds back is not late.
    """
    oldest = reading(
        sa.select(trigger.c.next_fire_at, trigger.c.executor_id)
        .where(trigger.c.next_fire_at < before)
        .order_by(trigger.c.next_fire_at)
        .limit(MAX_OVERDUE if scope is None and not without else SCANNED),
        trigger,
        "ix_trigger_next",
    ).subquery()
    statement = sa.select(sa.func.count(), sa.func.min(oldest.c.next_fire_at))
    if scope is not None:
        statement = statement.where(oldest.c.executor_id.in_(sorted(scope)))
    if without:
        statement = statement.where(oldest.c.executor_id.not_in(sorted(without)))
    count, first_at = conn.execute(statement).one()
    return int(count), first_at


def loads(conn: sa.Connection, *, scope: Scope, now: int) -> list[Load]:
    """Every executor by name, with what its live nodes can take; at most 1,000."""
    takes = sa.and_(node.c.cordoned.is_(False), node.c.draining.is_(False))
    free = sa.case((node.c.slots > node.c.in_use, node.c.slots - node.c.in_use), else_=0)
    live = (
        sa.select(
            node.c.executor_id,
            sa.func.count().label("live"),
            sa.func.sum(sa.case((takes, node.c.slots), else_=0)).label("slots"),
            sa.func.sum(sa.case((takes, free), else_=0)).label("free"),
        )
        .where(node.c.state == NodeState.LIVE.value, node.c.lease_expires_at > now)
        .group_by(node.c.executor_id)
        .subquery("live")
    )
    statement = (
        sa.select(
            executor.c.id,
            executor.c.name,
            executor.c.paused_at,
            live.c.live,
            live.c.slots,
            live.c.free,
        )
        .outerjoin(live, live.c.executor_id == executor.c.id)
        .where(executor.c.deleted_at == ALIVE)
        .order_by(executor.c.name)
        .limit(MAX_EXECUTORS)
    )
    if scope is not None:
        statement = statement.where(executor.c.id.in_(sorted(scope)))
    return [
        Load(
            id=row.id,
            name=row.name,
            paused=row.paused_at is not None,
            live_nodes=int(row.live or 0),
            open_slots=int(row.slots or 0),
            free_slots=int(row.free or 0),
        )
        for row in conn.execute(statement)
    ]


def with_active_jobs(conn: sa.Connection, executor_ids: Sequence[int]) -> set[int]:
    """Those of the executors that have a job that is not paused."""
    if not executor_ids:
        return set()
    active = sa.exists().where(
        job.c.executor_id == executor.c.id,
        unindexed(job.c.deleted_at) == ALIVE,
        unindexed(job.c.paused).is_(False),
    )
    rows = conn.execute(
        sa.select(executor.c.id).where(executor.c.id.in_(sorted(executor_ids)), active)
    )
    return set(rows.scalars())


def last_node_ended(conn: sa.Connection, executor_ids: Sequence[int]) -> dict[int, int]:
    """When the last node of each of these executors ended, as far as anybody remembers."""
    if not executor_ids:
        return {}
    rows = conn.execute(
        sa.select(node.c.executor_id, sa.func.max(node.c.ended_at).label("at"))
        .where(
            node.c.executor_id.in_(sorted(executor_ids)),
            node.c.state.in_((NodeState.DEAD.value, NodeState.GONE.value)),
        )
        .group_by(node.c.executor_id)
    )
    return {row.executor_id: row.at for row in rows if row.at is not None}


def waiting_longest(
    conn: sa.Connection, executor_id: int, *, before: int, now: int, limit: int
) -> list[Run]:
    """Runs of an executor that have been due since before then: at most `limit` of those that are
    due now, then as many that were put off for a moment.
    """
    due = reading(
        sa.select(*SELECTED_RUN)
        .where(
            queued_for(executor_id),
            run.c.due_at <= before,
        )
        .order_by(run.c.due_at)
        .limit(limit),
        run,
        "ix_run_due",
    )
    put_off = (
        sa.select(*SELECTED_RUN)
        .where(
            run.c.id.in_(first_try_put_off(executor_id, now=now, most=COUNT_LIMIT)),
            run.c.scheduled_at + sa.func.coalesce(run.c.jitter_ms, 0) <= before,
            run.c.created_at <= before,
        )
        .order_by(run.c.scheduled_at, run.c.id)
        .limit(limit)
    )
    return [run_from_selected(row) for part in (due, put_off) for row in conn.execute(part)]
