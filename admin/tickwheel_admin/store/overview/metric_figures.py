"""Figures of the whole installation for monitoring: each query reads a bounded part of one index.

They are the same whichever admin reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import Severity
from tickwheel_admin.domain.alarms.notification import NotificationState
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.self_audit.comparison import DifferenceKind
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import (
    ALIVE,
    admin,
    alarm,
    executor,
    node,
    notification,
    pool,
    self_audit_difference,
    self_audit_hour,
)
from tickwheel_admin.store.executors.executors import executor_ids
from tickwheel_admin.store.jobs.jobs import jobs_named
from tickwheel_admin.store.overview.attention import overdue_triggers
from tickwheel_admin.store.overview.overview import up_or_gone_lately
from tickwheel_admin.store.pools.pools import slots_in_use
from tickwheel_admin.store.runs.queue_depth import QueueDepth, queue_depths
from tickwheel_admin.store.runs.stats import HOUR_MS
from tickwheel_admin.store.self_audit.results import EVERYBODY

MAX_EXECUTORS = 1_000  # the oldest ones; queues of others are not counted
MAX_POOLS = 100  # the oldest ones have series; limits that people set up are few
MAX_COUNTED = 10_000  # alarms, messages and differences of each kind
OVERDUE_MS = 5_000  # a trigger is planned before its instant: so long after it, planning is late
OPEN = 0  # `closed_key` of an open alarm


class NodeCount(NamedTuple):
    """Live nodes of one executor that are alike."""

    executor_id: int
    cordoned: bool
    draining: bool
    nodes: int
    slots: int
    in_use: int


class PoolCount(NamedTuple):
    """The slots of one pool."""

    name: str  # "executor/name" of one that belongs to an executor
    slots: int
    in_use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationFigures:
    """What all admins would say alike."""

    at: int  # the database's time
    executors: Mapping[int, str]  # names by id, the oldest first
    queues: Mapping[int, QueueDepth]  # by executor; those where nothing is due are left out
    nodes: Sequence[NodeCount]
    overdue: int  # triggers that should have been planned
    admins: Mapping[str, int]  # "up" and "gone"
    alarms: Mapping[Severity, int]  # open ones
    messages: Mapping[NotificationState, int]  # that are not delivered
    message_due_at: int | None  # of the one that waits longest
    differences: Mapping[DifferenceKind, int]  # of the self-audit, those that stand
    audited_to: int | None  # the end of the newest hour that was audited
    pools: Sequence[PoolCount]
    jobs: Mapping[int, tuple[str, str]] = field(default_factory=dict)  # executor and name, by id


def read_installation(
    conn: sa.Connection,
    *,
    paused: Collection[int] | None = (),
    jobs: Iterable[tuple[str, str]] = (),
) -> InstallationFigures:
    """Read everything.

    Args:
        paused: executors whose triggers are not late, whatever their instants; None: all.
        jobs: executor and name of jobs whose ids are wanted; unknown ones are left out.
    """
    now = now_ms(conn)
    executors = oldest_executors(conn)
    messages, message_due_at = count_messages(conn)
    overdue = 0
    if paused is not None:
        overdue, _ = overdue_triggers(conn, before=now - OVERDUE_MS, without=paused, scope=None)
    return InstallationFigures(
        at=now,
        executors=executors,
        queues=queue_depths(conn, list(executors), now=now),
        nodes=count_nodes(conn, now=now),
        overdue=overdue,
        admins=count_admins(conn, now=now),
        alarms=count_alarms(conn),
        messages=messages,
        message_due_at=message_due_at,
        differences=count_differences(conn),
        audited_to=newest_audit(conn),
        pools=count_pools(conn),
        jobs=named_jobs(conn, jobs),
    )


def oldest_executors(conn: sa.Connection) -> dict[int, str]:
    """Names by id, the oldest first; at most `MAX_EXECUTORS`."""
    columns = (executor.c.id, executor.c.name, executor.c.created_at)
    rows = conn.execute(sa.select(*columns).where(executor.c.deleted_at == ALIVE)).all()
    # Locks change the lowest bit of `created_at` to and fro (store.executors.executors).
    rows = sorted(rows, key=lambda row: (row.created_at // 2, row.id))
    return {row.id: row.name for row in rows[:MAX_EXECUTORS]}


def count_nodes(conn: sa.Connection, *, now: int) -> list[NodeCount]:
    """Live nodes and their slots, by executor and whether they take new runs."""
    kinds = (node.c.executor_id, node.c.cordoned, node.c.draining)
    rows = conn.execute(
        reading(
            sa.select(
                *kinds, sa.func.count(), sa.func.sum(node.c.slots), sa.func.sum(node.c.in_use)
            )
            .where(node.c.state == NodeState.LIVE.value, node.c.lease_expires_at > now)
            .group_by(*kinds),
            node,
            "ix_node_to_expire",
        )
    )
    return [
        NodeCount(of, bool(cordoned), bool(draining), int(nodes), int(slots), int(in_use))
        for of, cordoned, draining, nodes, slots, in_use in rows
    ]


def count_pools(conn: sa.Connection) -> list[PoolCount]:
    """Slots of pools, the oldest first; at most `MAX_POOLS`."""
    oldest = (
        sa.select(pool.c.id, pool.c.name, pool.c.slots, executor.c.name.label("executor_name"))
        .select_from(pool.outerjoin(executor, executor.c.id == pool.c.executor_id))
        .where(pool.c.deleted_at == ALIVE)
        .order_by(pool.c.created_at, pool.c.id)
        .limit(MAX_POOLS)
    )
    rows = conn.execute(oldest).all()
    used = slots_in_use(conn, [row.id for row in rows]) if rows else {}
    return [
        PoolCount(
            row.name if row.executor_name is None else f"{row.executor_name}/{row.name}",
            row.slots,
            used.get(row.id, 0),
        )
        for row in rows
    ]


def count_admins(conn: sa.Connection, *, now: int) -> dict[str, int]:
    """How many are up, and how many ended without a goodbye within the last hour."""
    counts = {"up": 0, "gone": 0}
    shown = up_or_gone_lately(now)
    for row in conn.execute(sa.select(admin.c.lease_expires_at, admin.c.gone_at).where(shown)):
        is_up = row.gone_at is None and row.lease_expires_at > now
        counts["up" if is_up else "gone"] += 1
    return counts


def count_alarms(conn: sa.Connection) -> dict[Severity, int]:
    """Open alarms, the newest `MAX_COUNTED`."""
    newest = reading(
        sa.select(alarm.c.severity)
        .where(alarm.c.closed_key == OPEN)
        .order_by(alarm.c.last_at.desc())
        .limit(MAX_COUNTED),
        alarm,
        "ix_alarm_open",
    ).subquery()
    counted = sa.select(newest.c.severity, sa.func.count()).group_by(newest.c.severity)
    found = {Severity(severity): int(count) for severity, count in conn.execute(counted)}
    return {severity: found.get(severity, 0) for severity in Severity}


def count_messages(conn: sa.Connection) -> tuple[dict[NotificationState, int], int | None]:
    """(messages of the outbox that are not delivered, `MAX_COUNTED` of each state at most; when the
    one was due that waits longest).
    """
    counts: dict[NotificationState, int] = {}
    for state in NotificationState:
        if state is NotificationState.DELIVERED:
            continue  # there are any number of them, and they are deleted after a while
        of_state = sa.select(notification.c.id).where(notification.c.state == state.value)
        some = reading(of_state.limit(MAX_COUNTED), notification, "ix_notification_due").subquery()
        counts[state] = conn.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
    first = sa.select(sa.func.min(notification.c.due_at)).where(
        notification.c.state == NotificationState.WAITING.value
    )
    return counts, conn.execute(first).scalar_one_or_none()


def count_differences(conn: sa.Connection) -> dict[DifferenceKind, int]:
    """Differences of the self-audit that stand unseen, `MAX_COUNTED` at most."""
    some = (
        sa.select(self_audit_difference.c.what)
        .where(
            self_audit_difference.c.closed_at.is_(None), self_audit_difference.c.seen_at.is_(None)
        )
        .limit(MAX_COUNTED)
        .subquery()
    )
    counted = sa.select(some.c.what, sa.func.count()).group_by(some.c.what)
    found = defaultdict(int, {what: int(count) for what, count in conn.execute(counted)})
    return {kind: found[kind.value] for kind in DifferenceKind}


def newest_audit(conn: sa.Connection) -> int | None:
    """The end of the newest hour that the self-audit has looked at; None: of none yet."""
    newest = (
        sa.select(self_audit_hour.c.hour_at)
        .where(self_audit_hour.c.hour_at > 0, self_audit_hour.c.executor_id == EVERYBODY)
        .order_by(self_audit_hour.c.hour_at.desc())
        .limit(1)
    )
    hour_at = conn.execute(newest).scalar_one_or_none()
    return None if hour_at is None else int(hour_at) + HOUR_MS


def named_jobs(
    conn: sa.Connection, wanted: Iterable[tuple[str, str]]
) -> dict[int, tuple[str, str]]:
    """By id, executor and name of those of the jobs that there are."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for executor_name, job_name in wanted:
        names[executor_name].append(job_name)
    if not names:
        return {}
    ids = executor_ids(conn, names)
    return {
        job_id: (executor_name, job_name)
        for executor_name, executor_id in sorted(ids.items())
        for job_name, job_id in sorted(jobs_named(conn, executor_id, names[executor_name]).items())
    }
