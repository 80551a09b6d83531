"""Who holds the slots of pools at the moment, for people who wait for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import ALIVE, pool, pool_use, run

MOST_HOLDERS = 50  # of each pool, that are read and told

_EXECUTORS = sa.select(run.c.id, run.c.executor_id).where(among(run.c.id, "ids"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNow:
    """A pool as it stands."""

    pool_id: int
    name: str
    slots: int
    in_use: int
    holders: tuple[tuple[int, int], ...]  # (run, executor), longest first, at most MOST_HOLDERS


def pools_now(conn: sa.Connection, pool_ids: Collection[int]) -> dict[int, PoolNow]:
    """Pools by id; deleted ones, which limit nothing, are left out."""
    if not pool_ids:  # mostly there are none
        return {}
    ids = sorted(pool_ids)
    found = conn.execute(_holders(ids)).all()
    # A statement of its own: for a join PostgreSQL would read all runs there are.
    wanted = {"ids": sorted({row.run_id for row in found})}
    executors = {row.id: row.executor_id for row in conn.execute(_EXECUTORS, wanted)}
    held: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in found:
        if row.run_id in executors:
            held[row.pool_id].append((row.run_id, executors[row.run_id]))
    in_use = (
        sa.select(sa.func.coalesce(sa.func.sum(pool_use.c.slots), 0))
        .where(pool_use.c.pool_id == pool.c.id)
        .scalar_subquery()
    )
    rows = conn.execute(
        sa.select(pool.c.id, pool.c.name, pool.c.slots, in_use.label("in_use")).where(
            pool.c.id.in_(ids), pool.c.deleted_at == ALIVE
        )
    )
    return {
        row.id: PoolNow(
            pool_id=row.id,
            name=row.name,
            slots=row.slots,
            in_use=int(row.in_use),
            holders=tuple(held[row.id]),
        )
        for row in rows
    }


def _holders(pool_ids: Sequence[int]) -> sa.Select[Any]:
    """The first holders of each pool: a short range of its index each."""
    use = pool_use.c
    firsts = [
        sa.select(use.pool_id, use.run_id, use.since)
        .where(use.pool_id == pool_id)
        .order_by(use.since, use.run_id)
        .limit(MOST_HOLDERS)
        .subquery(f"of_{place}")
        for place, pool_id in enumerate(pool_ids)
    ]
    held = sa.union_all(*(sa.select(each) for each in firsts)).subquery("held").c
    return sa.select(held.pool_id, held.run_id).order_by(held.since, held.run_id)
