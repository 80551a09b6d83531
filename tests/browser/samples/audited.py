"""A day of the sample installation as the self-audit found it: all but its newest hours."""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa

from tests.browser.samples.rows import NOW
from tickwheel_admin.domain.proof.sums import HOUR_MS
from tickwheel_admin.domain.self_audit.absences import Absence, packed
from tickwheel_admin.domain.self_audit.comparison import AuditCount
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.self_audit.results import EVERYBODY, write_hour

RUN, TRIGGER = tables.run.c, tables.trigger.c
AUDITED_HOURS = range(25, 1, -1)  # ago
CALENDAR_HOUR = 8  # ago: a calendar removed some instants then


def add_audited_hours(conn: sa.Connection) -> None:
    """Runs of jobs with triggers become fires of the first one; each hour is audited."""
    first = sa.select(sa.func.min(TRIGGER.id)).where(TRIGGER.job_id == RUN.job_id)
    conn.execute(
        sa.update(tables.run)
        .where(RUN.trigger_id.is_(None), RUN.origin == "schedule", RUN.is_part.is_(False))
        .values(trigger_id=first.scalar_subquery())
    )
    this_hour = NOW - NOW % HOUR_MS
    for ago in AUDITED_HOURS:
        hour_at = this_hour - ago * HOUR_MS
        wanted = sa.select(RUN.executor_id, sa.func.count()).where(
            RUN.trigger_id.is_not(None),
            RUN.fire_id.is_(None),
            RUN.scheduled_at >= hour_at,
            RUN.scheduled_at < hour_at + HOUR_MS,
        )
        fires = {row[0]: row[1] for row in conn.execute(wanted.group_by(RUN.executor_id))}
        fires[EVERYBODY] = sum(fires.values())
        absent = Counter(calendar=3) if ago == CALENDAR_HOUR else Counter[str]()
        counts = {
            executor_id: AuditCount(
                expected=number + absent.total() * (executor_id == EVERYBODY),
                happened=number,
                fires=number,
                explained=absent if executor_id == EVERYBODY else Counter(),
                absent=absent if executor_id == EVERYBODY else Counter(),
            )
            for executor_id, number in fires.items()
        }
        instants = [hour_at + minute * 60_000 for minute in (5, 25, 45)]
        write_hour(
            conn,
            hour_at,
            counts,
            [],
            absences=[_absence(conn, instants)] if absent else [],
            triggers=[1],
            audited=[1],
            now=hour_at + HOUR_MS + 300_000,
        )


def _absence(conn: sa.Connection, instants: list[int]) -> Absence:
    """Of the oldest trigger."""
    of = conn.execute(
        sa.select(TRIGGER.id, TRIGGER.job_id, TRIGGER.executor_id).order_by(TRIGGER.id).limit(1)
    ).one()
    return Absence(
        trigger_id=of.id,
        job_id=of.job_id,
        executor_id=of.executor_id,
        reason="calendar",
        spans=packed(instants),
    )
