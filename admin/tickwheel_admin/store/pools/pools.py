"""Pools as people see and change them; claims go through `store.pools.slots`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.pools.pool import OF_INSTALLATION, SlotPool
from tickwheel_admin.store.database.edit_locks import lock_edits
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import queued_for
from tickwheel_admin.store.database.tables import (
    ALIVE,
    OF_WORKFLOW,
    executor,
    job,
    pool,
    pool_use,
    run,
)

COUNT_LIMIT = 1_000  # more waiting runs of one executor count as this many

_SELECTED = sa.select(
    pool.c.id,
    pool.c.executor_id,
    pool.c.name,
    pool.c.description,
    pool.c.slots,
    pool.c.version,
    pool.c.created_at,
    pool.c.updated_at,
)
_ALIVE = _SELECTED.where(pool.c.deleted_at == ALIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUser:
    """A job that names a pool."""

    job_id: int
    job_name: str
    executor_id: int
    executor_name: str
    is_hidden: bool  # the job of a workflow's step


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHolder:
    """A live run that holds slots of a pool."""

    run_id: int
    job_id: int
    job_name: str
    executor_id: int
    slots: int
    since: int


def page_pools(
    conn: sa.Connection,
    *,
    scope: Collection[int] | None,
    text: str = "",
    after: tuple[str, int] | None = None,
    limit: int,
) -> list[SlotPool]:
    """By name, from behind (name, executor); those of the installation, and of executors in scope.

    Args:
        scope: executors; None: all of them.
    """
    statement = _ALIVE.order_by(pool.c.name, pool.c.executor_id).limit(limit)
    if scope is not None:
        statement = statement.where(pool.c.executor_id.in_([OF_INSTALLATION, *sorted(scope)]))
    if after is not None:
        name, executor_id = after
        behind = sa.and_(pool.c.name == name, pool.c.executor_id > executor_id)
        statement = statement.where(sa.or_(pool.c.name > name, behind))
    if text:
        escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        part = sa.func.lower(sa.bindparam("part", f"%{escaped}%"))
        statement = statement.where(sa.func.lower(pool.c.name).like(part, escape="\\"))
    return [_pool(row) for row in conn.execute(statement)]


def get_pool(conn: sa.Connection, pool_id: int) -> SlotPool | None:
    """The pool, unless it is deleted."""
    row = conn.execute(_ALIVE.where(pool.c.id == pool_id)).one_or_none()
    return None if row is None else _pool(row)


def lock_pool(conn: sa.Connection, pool_id: int) -> SlotPool | None:
    """The same; nobody claims from it or begins to name it until this transaction ends.

    The lock is a write, so that it holds on clusters whose row locks are local.
    """
    turned = sa.update(pool).where(pool.c.id == pool_id).values(claims=pool.c.claims + 1)
    conn.execute(turned)
    return get_pool(conn, pool_id)


def pools_named(conn: sa.Connection, name: str) -> list[SlotPool]:
    """Of the installation and of executors."""
    return [_pool(row) for row in conn.execute(_ALIVE.where(pool.c.name == name))]


def pools_for(conn: sa.Connection, executor_id: int) -> list[SlotPool]:
    """Those that jobs of the executor may name, by name."""
    for_it = pool.c.executor_id.in_([OF_INSTALLATION, executor_id])
    rows = conn.execute(_ALIVE.where(for_it).order_by(pool.c.name))
    return [_pool(row) for row in rows]


CHANGES = "pools"  # name of the setting that counts how often pools were added


def lock_pool_edits(conn: sa.Connection) -> None:
    """Two pools that one name could mean are not added at once."""
    lock_edits(conn, CHANGES)


def add_pool(conn: sa.Connection, new: SlotPool) -> None:
    """Insert it; its unique name is the database's to guard."""
    conn.execute(
        sa.insert(pool).values(
            id=new.id,
            executor_id=new.executor_id,
            name=new.name,
            description=new.description,
            slots=new.slots,
            version=new.version,
            created_at=new.created_at,
            updated_at=new.updated_at,
            deleted_at=ALIVE,
        )
    )


def revise_pool(
    conn: sa.Connection, old: SlotPool, *, description: str, slots: int, now: int
) -> None:
    """Change a locked pool; claims go by it from the commit on."""
    conn.execute(
        sa.update(pool)
        .where(pool.c.id == old.id)
        .values(description=description, slots=slots, version=old.version + 1, updated_at=now)
    )


def delete_pool(conn: sa.Connection, pool_id: int, *, now: int) -> None:
    """Mark it deleted: it limits nothing any more, and its name is free."""
    conn.execute(sa.update(pool).where(pool.c.id == pool_id).values(deleted_at=now, updated_at=now))


def delete_pools_of(conn: sa.Connection, executor_id: int, *, now: int) -> None:
    """Delete the pools of an executor that goes, with all jobs that could name them."""
    of_executor = sa.and_(pool.c.executor_id == executor_id, pool.c.deleted_at == ALIVE)
    conn.execute(sa.update(pool).where(of_executor).values(deleted_at=now, updated_at=now))


def slots_in_use(conn: sa.Connection, pool_ids: Sequence[int]) -> dict[int, int]:
    """By pool; those of which nothing is in use are left out."""
    rows = conn.execute(
        sa.select(pool_use.c.pool_id, sa.func.sum(pool_use.c.slots).label("slots"))
        .where(pool_use.c.pool_id.in_(pool_ids))
        .group_by(pool_use.c.pool_id)
    )
    return {row.pool_id: int(row.slots) for row in rows}


def runs_waiting(conn: sa.Connection, pool_ids: Sequence[int], *, now: int) -> dict[int, int]:
    """Due runs by pool, at most `COUNT_LIMIT` of each executor whose jobs name it."""
    pairs = conn.execute(
        sa.select(job.c.pool_id, job.c.executor_id)
        .where(job.c.pool_id.in_(pool_ids))
        .distinct()
        .limit(COUNT_LIMIT)
    ).all()
    waiting: dict[int, int] = {}
    for pair in pairs:
        some = reading(
            sa.select(run.c.id)
            .where(
                queued_for(pair.executor_id),
                run.c.pool_id == pair.pool_id,
                run.c.due_at <= now,
            )
            .limit(COUNT_LIMIT),
            run,
            "ix_run_to_claim",
        ).subquery()
        count = conn.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
        waiting[pair.pool_id] = waiting.get(pair.pool_id, 0) + count
    return waiting


def holders_of(
    conn: sa.Connection, pool_id: int, *, limit: int, executor_ids: Collection[int] | None = None
) -> list[PoolHolder]:
    """Who holds slots, longest first; of some executors, or of all (None)."""
    rows = conn.execute(
        sa.select(
            pool_use.c.run_id,
            pool_use.c.slots,
            pool_use.c.since,
            run.c.job_id,
            run.c.executor_id,
            job.c.name,
        )
        .join(run, run.c.id == pool_use.c.run_id)
        .join(job, job.c.id == run.c.job_id)
        .where(pool_use.c.pool_id == pool_id, _of(run.c.executor_id, executor_ids))
        .order_by(pool_use.c.since, pool_use.c.run_id)
        .limit(limit)
    )
    return [
        PoolHolder(
            run_id=row.run_id,
            job_id=row.job_id,
            job_name=row.name,
            executor_id=row.executor_id,
            slots=row.slots,
            since=row.since,
        )
        for row in rows
    ]


def users_of_pool(
    conn: sa.Connection, pool_id: int, *, limit: int, executor_ids: Collection[int] | None = None
) -> list[PoolUser]:
    """Jobs that name it, also hidden ones of workflows, by name; likewise."""
    rows = conn.execute(
        sa.select(
            job.c.id,
            job.c.name,
            job.c.deleted_at,
            job.c.executor_id,
            executor.c.name.label("executor_name"),
        )
        .join(executor, executor.c.id == job.c.executor_id)
        .where(
            job.c.pool_id == pool_id,
            job.c.deleted_at.in_([ALIVE, OF_WORKFLOW]),
            _of(job.c.executor_id, executor_ids),
        )
        .order_by(job.c.name, job.c.id)
        .limit(limit)
    )
    return [
        PoolUser(
            job_id=row.id,
            job_name=row.name,
            executor_id=row.executor_id,
            executor_name=row.executor_name,
            is_hidden=row.deleted_at == OF_WORKFLOW,
        )
        for row in rows
    ]


def _of(column: sa.Column[int], executor_ids: Collection[int] | None) -> sa.ColumnElement[bool]:
    return sa.true() if executor_ids is None else column.in_(sorted(executor_ids))


def count_users(conn: sa.Connection, pool_ids: Sequence[int]) -> dict[int, int]:
    """Jobs by the pool that they name."""
    rows = conn.execute(
        sa.select(job.c.pool_id, sa.func.count().label("jobs"))
        .where(job.c.pool_id.in_(pool_ids), job.c.deleted_at.in_([ALIVE, OF_WORKFLOW]))
        .group_by(job.c.pool_id)
    )
    return {row.pool_id: row.jobs for row in rows}


def _pool(row: Any) -> SlotPool:
    return SlotPool(
        id=row.id,
        executor_id=row.executor_id,
        name=row.name,
        description=row.description,
        slots=row.slots,
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
