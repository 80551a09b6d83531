"""Which queued runs are due, read without a lock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.clock import statement_began
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import IS_QUEUED
from tickwheel_admin.store.database.tables import executor, run

# Statements of the hot path are made once: making one costs more than SQLAlchemy's cache saves.
_QUEUED = sa.and_(run.c.executor_id == executor.c.id, IS_QUEUED)

# Not min(): for several executors MariaDB reads all that is queued for it, and not the first only.
_FIRST_DUE = reading(
    sa.select(run.c.due_at).where(_QUEUED).order_by(run.c.due_at).limit(1), run, "ix_run_due"
)

_DUE_EXECUTORS = sa.select(
    executor.c.id,
    statement_began().label("now"),
    _FIRST_DUE.scalar_subquery().label("first_at"),
    _FIRST_DUE.where(run.c.due_at > statement_began()).scalar_subquery().label("later_at"),
).where(among(executor.c.id, "ids"))


def due_executors(
    conn: sa.Connection, executor_ids: Iterable[int]
) -> list[tuple[int, bool, int | None]]:
    """(executor, has runs due now, ms to the next one after now), where runs are queued."""
    found: list[tuple[int, bool, int | None]] = []
    for row in conn.execute(_DUE_EXECUTORS, {"ids": sorted(executor_ids)}):
        if row.first_at is None:
            continue
        is_due = row.first_at <= row.now
        # SQLite's clock goes on within a statement: the first may be past for `later_at` by then.
        next_at = row.later_at if is_due else row.first_at
        found.append((row.id, is_due, None if next_at is None else next_at - row.now))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRun:
    """A run that may be claimed; the rest of it is read under its lock."""

    id: int
    job_id: int
    job_revision: int


def _claimable(*order: sa.Column[Any], due_at: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return (
        sa.select(run.c.id, run.c.job_id, run.c.job_revision)
        .where(
            run.c.executor_id == sa.bindparam("executor"),
            IS_QUEUED,
            due_at <= sa.bindparam("now"),
        )
        .order_by(*order, run.c.id)  # those of one plan rise by instant
        .limit(sa.bindparam("count"))
    )


_OLDEST = _claimable(run.c.due_at, due_at=run.c.due_at)

_MOST_URGENT = _claimable(run.c.priority, run.c.due_at, due_at=unindexed(run.c.due_at))


def claimable_runs(
    conn: sa.Connection, *, executor_id: int, now: int, limit: int, oldest_first: bool
) -> list[DueRun]:
    """Queued runs that are due, most urgent (or oldest) first; read without a lock."""
    rows = conn.execute(
        _OLDEST if oldest_first else _MOST_URGENT,
        {"executor": executor_id, "now": now, "count": limit},
    )
    return [
        DueRun(id=run_id, job_id=job_id, job_revision=revision) for run_id, job_id, revision in rows
    ]
