"""The line of runs before a pool: who is first, and how many stand in it."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.pools.ledger import Rank, rank_of
from tickwheel_admin.store.runs.due import PRIORITIES, DueRun, oldest_of


class PooledRun(DueRun, frozen=True, kw_only=True, gc=False):
    """A due run that takes slots of a pool."""

    rank: Rank


_LINE = sa.union_all(*(oldest_of(priority, sa.bindparam("pool")) for priority in PRIORITIES))


def first_in_line(
    conn: sa.Connection, *, pool_id: int, executor_id: int, now: int, limit: int
) -> list[PooledRun]:
    """The executor's due runs that wait for the pool, in the order of its line; read unlocked."""
    wanted = {"executor": executor_id, "pool": pool_id, "now": now, "count": limit}
    found = [
        PooledRun(
            id=row.id,
            job_id=row.job_id,
            job_revision=row.job_revision,
            rank=rank_of(due_at=row.due_at, priority=row.priority, run_id=row.id),
        )
        for row in conn.execute(_LINE, wanted)
    ]
    return sorted(found, key=lambda each: each.rank)[:limit]
