"""The slots of pools: taken by claims under the lock of the pool, given back by moves of runs.

What is in use is the sum of `pool_use`, a row for each live run of a pool: so an end takes no lock
that claims wait for, and a run that ends frees its share in the transaction that ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.pools.ledger import PoolLedger, PoolStanding, Rank, Reservation
from tickwheel_admin.domain.pools.pool import OF_INSTALLATION
from tickwheel_admin.domain.runs.run import LIVE, Move
from tickwheel_admin.store.database.batch import insert_values, update_values
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import IS_QUEUED, queued_for
from tickwheel_admin.store.database.tables import ALIVE, pool, pool_use, run

_IN_USE = (
    sa.select(sa.func.coalesce(sa.func.sum(pool_use.c.slots), 0))
    .where(pool_use.c.pool_id == pool.c.id)
    .scalar_subquery()
)
# Whoever is cancelled, put off or claimed meanwhile keeps nothing any more.
_STILL_WAITS = sa.exists().where(
    run.c.id == pool.c.reserved_run_id, IS_QUEUED, run.c.due_at <= sa.bindparam("now")
)
_STANDINGS = sa.select(
    pool.c.id,
    pool.c.executor_id,
    pool.c.slots,
    pool.c.deleted_at,
    pool.c.claims,
    pool.c.reserved_run_id,
    pool.c.reserved_rank,
    pool.c.reserved_slots,
    pool.c.reserved_until,
    sa.cast(_IN_USE, sa.BigInteger).label("in_use"),
    _STILL_WAITS.label("still_waits"),
)
_OF_POOL_QUEUED = sa.and_(queued_for(sa.bindparam("executor")), run.c.pool_id == pool.c.id)
# With a limit: PostgreSQL would make a join of it that reads all that is queued.
_FIRST_QUEUED = reading(
    sa.select(run.c.id).where(_OF_POOL_QUEUED).correlate(pool).limit(1), run, "ix_run_to_claim"
)
_WAITED_FOR = _STANDINGS.where(
    pool.c.executor_id.in_([sa.bindparam("executor"), OF_INSTALLATION]),
    _FIRST_QUEUED.scalar_subquery().is_not(None),
).order_by(pool.c.id)
_SOME = _STANDINGS.where(among(pool.c.id, "ids"))
_LOCK = (
    sa.select(pool.c.id)
    .where(among(pool.c.id, "ids"))
    .order_by(pool.c.id)
    .with_for_update(skip_locked=True)
)


class FoundPool(NamedTuple):
    """A pool with queued runs."""

    standing: PoolStanding
    is_deleted: bool  # it limits nothing any more
    claims: int  # how often a claim has written it


def pools_waited_for(conn: sa.Connection, executor_id: int, *, now: int) -> list[FoundPool]:
    """The pools with queued runs of the executor; read without a lock."""
    rows = conn.execute(_WAITED_FOR, {"executor": executor_id, "now": now})
    return [_found(row, now) for row in rows]


def lock_pools(conn: sa.Connection, ids: Collection[int], *, now: int) -> list[FoundPool]:
    """Those of the pools that nobody else holds, as they are under the lock."""
    held = sorted(conn.execute(_LOCK, {"ids": sorted(ids)}).scalars())
    if not held:
        return []
    # A statement of its own: it must see what was committed before the lock was free.
    return [_found(row, now) for row in conn.execute(_SOME, {"ids": held, "now": now})]


def write_pools(
    conn: sa.Connection, ledgers: Iterable[PoolLedger], *, claims: dict[int, int]
) -> None:
    """Write what a claim did to locked pools; in any case something that differs.

    Args:
        claims: how often claims had written them, by pool.
    """
    rows = []
    for ledger in ledgers:
        first = ledger.first
        noted = (
            (None, None, None, None)
            if first is None
            else (first.rank.run_id, first.rank.at, first.slots, first.until)
        )
        rows.append((ledger.pool_id, claims[ledger.pool_id] + 1, *noted))
    columns = ("reserved_run_id", "reserved_rank", "reserved_slots", "reserved_until")
    update_values(conn, pool, sorted(rows), match=("id",), values=("claims", *columns))


def add_uses(conn: sa.Connection, uses: Sequence[tuple[int, int, int, int]]) -> None:
    """Note that runs hold slots: (run, pool, slots, since)."""
    insert_values(
        conn,
        pool_use,
        uses,
        columns=("run_id", "pool_id", "slots", "since"),
        ignore_duplicates_of=("run_id",),
    )


def give_back(conn: sa.Connection, moves: Iterable[Move]) -> None:
    """Free the slots of attempts that these moves end."""
    ended = [
        move.before.id
        for move in moves
        if move.before.pool_id and move.before.state in LIVE and move.after.state not in LIVE
    ]
    end_uses(conn, ended)


def end_uses(conn: sa.Connection, run_ids: Sequence[int]) -> None:
    """These runs hold no slots any more."""
    if run_ids:
        conn.execute(_END, {"ids": sorted(run_ids)})


_END = sa.delete(pool_use).where(among(pool_use.c.run_id, "ids"))


def _found(row: Any, now: int) -> FoundPool:
    reservation = None
    if row.reserved_run_id is not None and row.still_waits and row.reserved_until > now:
        reservation = Reservation(
            rank=Rank(row.reserved_rank, row.reserved_run_id),
            slots=row.reserved_slots,
            until=row.reserved_until,
        )
    standing = PoolStanding(
        pool_id=row.id,
        slots=row.slots,
        in_use=int(row.in_use),
        reservation=reservation,
        shared=row.executor_id == OF_INSTALLATION,
    )
    return FoundPool(standing, row.deleted_at != ALIVE, row.claims)
