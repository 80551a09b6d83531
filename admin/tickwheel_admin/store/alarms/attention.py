"""Open alarms for the overview: counted, or a bounded number of them, without locks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.store.alarms.alarms import OPEN, SELECTED_ALARM, alarm_of_row, page_alarms
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import alarm

COUNTED = 20_000  # open alarms; of more, that many are counted
MAX_OF_JOBS = 1_000
MAX_OF_KINDS = 500

Scope = Collection[int] | None  # executors; None: all, and those of no executor


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmGroup:
    """The open alarms of a kind and executor."""

    kind: AlarmKind
    executor_id: int | None
    severity: Severity  # the worst
    count: int
    last_at: int


def open_groups(conn: sa.Connection, *, executor_ids: Scope) -> list[AlarmGroup]:
    """All open alarms, counted; reads at most `COUNTED` entries of one index."""
    some = _in_scope(
        sa.select(alarm.c.kind, alarm.c.executor_id, alarm.c.severity, alarm.c.last_at).where(
            alarm.c.closed_key == OPEN
        ),
        executor_ids,
    ).limit(COUNTED)
    # Of some executors, their own rows: those of all others are not walked through.
    index = "ix_alarm_open_by_kind" if executor_ids is None else "ix_alarm_of_executor"
    read = reading(some, alarm, index).subquery()
    rows = conn.execute(
        sa.select(
            read.c.kind,
            read.c.executor_id,
            sa.func.min(read.c.severity).label("severity"),  # "error" comes first
            sa.func.count().label("alarms"),
            sa.func.max(read.c.last_at).label("last_at"),
        ).group_by(read.c.kind, read.c.executor_id)
    )
    found = [
        AlarmGroup(
            kind=AlarmKind(row.kind),
            executor_id=row.executor_id,
            severity=Severity(row.severity),
            count=int(row.alarms),
            last_at=int(row.last_at),
        )
        for row in rows
    ]
    return sorted(found, key=lambda each: -each.last_at)


def open_of_jobs(
    conn: sa.Connection, job_ids: Collection[int], *, executor_ids: Scope
) -> list[Alarm]:
    """Open alarms about these jobs."""
    if not job_ids:
        return []
    wanted = SELECTED_ALARM.where(alarm.c.job_id.in_(sorted(job_ids)), alarm.c.closed_key == OPEN)
    wanted = _in_scope(wanted, executor_ids).limit(MAX_OF_JOBS)
    return [alarm_of_row(row) for row in conn.execute(reading(wanted, alarm, "ix_alarm_of_job"))]


def open_of_kinds(
    conn: sa.Connection, kinds: Collection[AlarmKind], *, executor_ids: Scope
) -> list[Alarm]:
    """Open alarms of these kinds."""
    if not kinds:
        return []
    wanted = SELECTED_ALARM.where(
        alarm.c.closed_key == OPEN, alarm.c.kind.in_(sorted(each.value for each in kinds))
    )
    wanted = _in_scope(wanted, executor_ids).limit(MAX_OF_KINDS)
    rows = conn.execute(reading(wanted, alarm, "ix_alarm_open_by_kind"))
    return [alarm_of_row(row) for row in rows]


def newest_open(conn: sa.Connection, *, executor_ids: Scope, limit: int) -> list[Alarm]:
    """Open alarms, those that happened last first."""
    return page_alarms(conn, executor_ids=executor_ids, limit=limit)


def _in_scope(wanted: sa.Select[tuple[object, ...]], executor_ids: Scope) -> sa.Select[object]:
    if executor_ids is None:
        return wanted
    return wanted.where(alarm.c.executor_id.in_(sorted(executor_ids)))
