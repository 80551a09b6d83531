"""Which queued runs are due, read without a lock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.pools.pool import NO_SLOTS_NEEDED
from tickwheel_admin.store.database.clock import statement_began
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import queued_for
from tickwheel_admin.store.database.tables import ALIVE, executor, run

# Statements of the hot path are made once: making one costs more than SQLAlchemy's cache saves.
_QUEUED = queued_for(executor.c.id)

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


_DUE_SOON = (
    sa.select(executor.c.id)
    .where(
        executor.c.deleted_at == ALIVE,
        _FIRST_DUE.scalar_subquery() <= statement_began() + sa.bindparam("within_ms"),
    )
    .limit(1)
)


def is_anything_due(conn: sa.Connection, *, within_ms: int) -> bool:
    """Whether runs wait that are due, or will be so soon; a look-up for each executor."""
    return conn.execute(_DUE_SOON, {"within_ms": within_ms}).first() is not None


PRIORITIES = range(1, 10)


def queued_of_pool(pool: sa.ColumnElement[int], priority: int) -> sa.ColumnElement[bool]:
    """Beside `queued_for`: in the order of `ix_run_to_claim` by their due instants.

    With the priority, the index leads to those that are due, however many are parked or due later.
    """
    return sa.and_(run.c.pool_id == pool, run.c.priority == priority)


def _workflow_of_executor(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return (
        reading(
            sa.select(run.c.due_at).where(_QUEUED, *conditions).correlate(executor).limit(1),
            run,
            "ix_run_to_claim",
        )
        .scalar_subquery()
        .is_not(None)
    )


_NO_POOL = sa.literal(NO_SLOTS_NEEDED)
# A look-up for each executor, whether it has nodes or not; more where workflows are queued.
_WITH_WORKFLOWS = sa.select(executor.c.id).where(
    executor.c.deleted_at == ALIVE,
    _workflow_of_executor(run.c.pool_id == _NO_POOL),
    sa.or_(
        *(
            _workflow_of_executor(
                queued_of_pool(_NO_POOL, priority), run.c.due_at <= statement_began()
            )
            for priority in PRIORITIES
        )
    ),
)


def executors_with_due_workflows(conn: sa.Connection) -> set[int]:
    """Executors with runs of workflows that are due: these need no node."""
    return set(conn.execute(_WITH_WORKFLOWS).scalars())


class DueRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run that may be claimed; the rest of it is read under its lock."""

    id: int
    job_id: int
    job_revision: int


def _claimable(*order: sa.Column[Any], due_at: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return (
        sa.select(run.c.id, run.c.job_id, run.c.job_revision)
        .where(
            queued_for(sa.bindparam("executor")),
            run.c.pool_id.is_(None),
            due_at <= sa.bindparam("now"),
        )
        .order_by(*order)
        .limit(sa.bindparam("count"))
    )


def _by_id(found: sa.Select[Any], *order: sa.Column[Any]) -> sa.Select[Any]:
    """The runs found in this order, and those of one instant by id: of one plan, these rise by
    instant.

    Indexes do not have the id. Asked for it, databases would read and sort all runs that are due
    at one instant, often tens of thousands, for each claim. So which of them are found is left to
    the index, which tells them in about the order in which they were written. With the id in the
    index, PostgreSQL could no longer keep equal keys as one entry, and each claim would pass over
    those of all that were claimed since the last vacuum.
    """
    runs = found.add_columns(*order).subquery()
    ordered = (*(runs.c[column.name] for column in order), runs.c.id)
    return sa.select(runs.c.id, runs.c.job_id, runs.c.job_revision).order_by(*ordered)


_OLDEST = _by_id(
    reading(_claimable(run.c.due_at, due_at=run.c.due_at), run, "ix_run_due"), run.c.due_at
)

# The id is part of every index of MariaDB and SQLite, behind its columns.
_MOST_URGENT = reading(
    _claimable(run.c.priority, run.c.due_at, run.c.id, due_at=unindexed(run.c.due_at)),
    run,
    "ix_run_to_claim",
)
# The pool first, though all have none: PostgreSQL sorts the whole queue otherwise, as MariaDB does
# with it.
_MOST_URGENT_ON_POSTGRESQL = _by_id(
    _claimable(run.c.pool_id, run.c.priority, run.c.due_at, due_at=run.c.due_at),
    run.c.priority,
    run.c.due_at,
)


def oldest_of(priority: int, pool: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Part of a union: due runs of one executor and pool, of one priority."""
    first = reading(
        sa.select(run.c.id, run.c.job_id, run.c.job_revision, run.c.priority, run.c.due_at)
        .where(
            queued_for(sa.bindparam("executor")),
            queued_of_pool(pool, priority),
            run.c.due_at <= sa.bindparam("now"),
        )
        .order_by(run.c.due_at, run.c.id)
        .limit(sa.bindparam("count")),
        run,
        "ix_run_to_claim",
    ).subquery(f"of_{priority}")
    return sa.select(first)  # a limit inside of a union needs a sub-select on SQLite


_WORKFLOWS = sa.union_all(*(oldest_of(priority, _NO_POOL) for priority in PRIORITIES))


def claimable_runs(
    conn: sa.Connection, *, executor_id: int, now: int, limit: int, oldest_first: bool
) -> list[DueRun]:
    """Queued runs that are due, most urgent (or oldest) first; read without a lock.

    Those of workflows, and those that take slots of pools, are read apart: none hides the others.
    """
    if oldest_first:
        statement = _OLDEST
    elif conn.dialect.name == "postgresql":
        statement = _MOST_URGENT_ON_POSTGRESQL
    else:
        statement = _MOST_URGENT
    rows = conn.execute(statement, {"executor": executor_id, "now": now, "count": limit})
    return [
        DueRun(id=run_id, job_id=job_id, job_revision=revision) for run_id, job_id, revision in rows
    ]


def claimable_workflows(
    conn: sa.Connection, *, executor_id: int, now: int, limit: int
) -> list[DueRun]:
    """The same of the runs of workflows."""
    rows = conn.execute(_WORKFLOWS, {"executor": executor_id, "now": now, "count": limit}).all()
    urgent = sorted(rows, key=lambda row: (row.priority, row.due_at, row.id))[:limit]
    return [DueRun(id=row.id, job_id=row.job_id, job_revision=row.job_revision) for row in urgent]
