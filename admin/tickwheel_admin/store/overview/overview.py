"""What the overview shows: each query reads a bounded part of one index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import IS_LIVE, listed_as
from tickwheel_admin.store.database.tables import ALIVE, admin, executor, job, run, trigger
from tickwheel_admin.store.executors.admins import GONE_KEPT_MS

MAX_SCANNED = 5_000  # triggers, for those that fire seldom among others that fire all the time
COUNT_LIMIT = 10_000  # a longer queue counts as this many


class NextFire(NamedTuple):
    """A trigger's next fire."""

    at: int
    job_id: int
    job_name: str
    last_at: int | None  # its fire before


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAdmin:
    """An admin as its own row tells."""

    id: int
    name: str
    version: str
    started_at: int
    lease_expires_at: int
    status: str  # JSON of domain.admin_status


def count_live(conn: sa.Connection, *, scope: Iterable[int] | None) -> int:
    """Dispatched and running runs: at most as many as all nodes have slots.

    Whole fires, which hold no slot and whose shards are counted, are left out.
    """
    holding = sa.and_(IS_LIVE, run.c.node_id.is_not(None))
    return _count_up_to_limit(conn, holding, scope)


def count_waiting(conn: sa.Connection, *, until: int, scope: Iterable[int] | None) -> int:
    """Queued runs whose instant has come, counted up to `COUNT_LIMIT`."""
    waiting = sa.and_(listed_as(RunState.QUEUED), run.c.scheduled_at <= until)
    return _count_up_to_limit(conn, waiting, scope)


def _count_up_to_limit(
    conn: sa.Connection, condition: sa.ColumnElement[bool], scope: Iterable[int] | None
) -> int:
    some = sa.select(run.c.executor_id).where(condition)
    if scope is not None:
        some = some.where(run.c.executor_id.in_(sorted(scope)))
    counted = sa.select(sa.func.count()).select_from(some.limit(COUNT_LIMIT).subquery())
    return int(conn.execute(counted).scalar_one())


def next_fires(
    conn: sa.Connection,
    *,
    from_at: int,
    to_at: int,
    scope: Iterable[int] | None,
    limit: int,
    without: Iterable[int] = (),
    apart_ms: int | None = None,
) -> list[NextFire]:
    """The triggers that fire next, soonest first, each with its next fire only.

    Args:
        without: executors to leave out.
        apart_ms: leave those out whose fire before is nearer; looks at `MAX_SCANNED` triggers.
    """
    statement = (
        sa.select(trigger.c.next_fire_at, trigger.c.job_id, job.c.name, trigger.c.last_fire_at)
        .join(job, job.c.id == trigger.c.job_id)
        .where(trigger.c.next_fire_at >= from_at, trigger.c.next_fire_at < to_at)
        .order_by(trigger.c.next_fire_at)
        .limit(limit)
    )
    if apart_ms is not None:
        some = reading(
            sa.select(trigger.c.id, trigger.c.next_fire_at, trigger.c.last_fire_at)
            .where(trigger.c.next_fire_at >= from_at, trigger.c.next_fire_at < to_at)
            .order_by(trigger.c.next_fire_at)
            .limit(MAX_SCANNED),
            trigger,
            "ix_trigger_next",
        ).subquery()
        seldom = sa.select(some.c.id).where(
            some.c.last_fire_at.is_(None) | (some.c.next_fire_at - some.c.last_fire_at >= apart_ms)
        )
        ids = list(conn.execute(seldom.order_by(some.c.next_fire_at).limit(10 * limit)).scalars())
        statement = statement.where(trigger.c.id.in_(ids))
    if scope is not None:
        statement = statement.where(trigger.c.executor_id.in_(sorted(scope)))
    if left_out := sorted(without):
        statement = statement.where(trigger.c.executor_id.not_in(left_out))
    return [
        NextFire(
            at=row.next_fire_at, job_id=row.job_id, job_name=row.name, last_at=row.last_fire_at
        )
        for row in conn.execute(statement)
    ]


def up_or_gone_lately(now: int) -> sa.ColumnElement[bool]:
    """Of admins: those that are up, or ended without a goodbye within the last hour."""
    return admin.c.gone_at.is_(None) | (admin.c.gone_at > now - GONE_KEPT_MS)


def list_admins(conn: sa.Connection, *, limit: int) -> list[StoredAdmin]:
    """Every admin that is up, or ended without a goodbye within the last hour."""
    shown = up_or_gone_lately(now_ms(conn))
    rows = conn.execute(
        sa.select(admin).where(shown).order_by(admin.c.name, admin.c.id).limit(limit)
    )
    return [
        StoredAdmin(
            id=row.id,
            name=row.name,
            version=row.version,
            started_at=row.started_at,
            lease_expires_at=row.lease_expires_at,
            status=row.status,
        )
        for row in rows
    ]


def has_any_job(conn: sa.Connection, *, scope: Iterable[int] | None) -> bool:
    """Whether there is a job, and so an executor, to show."""
    found = (
        sa.select(job.c.id)
        .join(executor, executor.c.id == job.c.executor_id)
        .where(job.c.deleted_at == ALIVE)
    )
    if scope is not None:
        found = found.where(job.c.executor_id.in_(sorted(scope)))
    return conn.execute(found.limit(1)).first() is not None
