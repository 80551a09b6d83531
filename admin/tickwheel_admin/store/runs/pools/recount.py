"""The slots that live runs hold of pools, counted a second time: the sweeper asks now and then."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.pools.pool import PoolShare, slots_taken
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.run_conditions import IS_LIVE
from tickwheel_admin.store.database.tables import ALIVE, pool, pool_use, run
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.pools.slots import add_uses, end_uses

_LIVE_RUN = sa.and_(run.c.id == pool_use.c.run_id, IS_LIVE)
_NOT_LIVE = (
    sa.select(pool_use.c.run_id, pool_use.c.pool_id)
    .select_from(pool_use.outerjoin(run, _LIVE_RUN))
    .where(run.c.id.is_(None))
)
_HOLDS_NOTHING = (
    sa.select(run.c.id, run.c.pool_id)
    .select_from(
        run.join(pool, pool.c.id == run.c.pool_id).outerjoin(
            pool_use, pool_use.c.run_id == run.c.id
        )
    )
    # A deleted pool limits nothing: its runs begin without slots.
    .where(IS_LIVE, pool.c.deleted_at == ALIVE, pool_use.c.run_id.is_(None))
)
_LOCK_LIVE = (
    sa.select(run.c.id, run.c.job_id, run.c.job_revision, run.c.dispatched_at)
    .where(among(run.c.id, "ids"), IS_LIVE)
    .order_by(run.c.id)
    # Whoever holds a run may wait for the pool; the run is counted next time.
    .with_for_update(skip_locked=True)
)


def miscounted_pools(conn: sa.Connection) -> list[int]:
    """Pools whose slots are held by other runs than those that are live; read without locks."""
    if conn.execute(sa.select(pool.c.id).limit(1)).first() is None:  # mostly there is none
        return []
    too_many = conn.execute(_NOT_LIVE)
    too_few = conn.execute(_HOLDS_NOTHING)
    return sorted({row.pool_id for row in (*too_many, *too_few)})


def recount_pool(conn: sa.Connection, pool_id: int, configs: JobConfigs) -> None:
    """Let the live runs of a pool hold its slots, and nothing else.

    Under its lock: a claim that is under way has either committed, and is counted, or comes after.
    What ends meanwhile deletes its own row.
    """
    row = conn.execute(
        sa.select(pool.c.slots, pool.c.claims).where(pool.c.id == pool_id).with_for_update()
    ).one_or_none()
    if row is None:
        return
    conn.execute(sa.update(pool).where(pool.c.id == pool_id).values(claims=row.claims + 1))
    of_pool = _NOT_LIVE.where(pool_use.c.pool_id == pool_id)
    end_uses(conn, conn.execute(of_pool).scalars().all())
    lacking = conn.execute(_HOLDS_NOTHING.where(run.c.pool_id == pool_id)).scalars().all()
    # Locked and looked at again: a run that has ended meanwhile must not hold slots for ever.
    live = conn.execute(_LOCK_LIVE, {"ids": sorted(lacking)}).all() if lacking else []
    known = configs.get_many(conn, {(each.job_id, each.job_revision) for each in live})
    uses = []
    for each in live:
        share = known[each.job_id, each.job_revision].pool or PoolShare(name="")
        taken = slots_taken(share.slots, row.slots)
        uses.append((each.id, pool_id, taken, each.dispatched_at))
    add_uses(conn, uses)
