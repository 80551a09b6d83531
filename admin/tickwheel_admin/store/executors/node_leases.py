"""Leases of nodes: renewed, shortened when a node has no session left, and ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.as_of.nodes import PeriodEnd
from tickwheel_admin.domain.executors.node import CLOSED_LEASE_MS, LEASE_MS, NodeState, NodeTargets
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database.batch import update_values
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import admin, node, node_session
from tickwheel_admin.store.executors.node_periods import PERIOD_COLUMNS, keep_periods

_LOCK_LIVE = (
    sa.select(node.c.id, node.c.slots_wanted, node.c.drain_wanted)
    .where(among(node.c.id, "ids"), node.c.state == NodeState.LIVE.value)
    .order_by(node.c.id)
    .with_for_update()
)


def renew_leases(
    conn: sa.Connection, node_ids: Iterable[int], *, admin_id: int
) -> dict[int, NodeTargets]:
    """Extend the leases of live nodes that this admin has sessions with.

    Returns them, with what operators want of each.
    """
    heard = sorted(node_ids)
    if not heard:
        return {}
    # Locked in the order in which claims and results lock nodes: PostgreSQL updates them in the
    # order of its pages, and takes a second to notice the deadlock.
    live = {
        node_id: _targets(slots, drain)
        for node_id, slots, drain in conn.execute(_LOCK_LIVE, {"ids": heard})
    }
    until = now_ms(conn) + LEASE_MS
    renewed = update_values(
        conn,
        node,
        [(node_id, until, until) for node_id in live],
        match=("id",),
        values=("lease_expires_at", "full_lease_at"),
        # Looked up under the locks: a socket may have closed since the admin last looked, and what
        # it said before must not give back the lease that its end has shortened.
        where="EXISTS (SELECT 1 FROM node_session s WHERE s.node_id = t.id AND s.admin_id = :me)",
        params={"me": admin_id},
    )
    if renewed == len(live):
        return live
    mine = sa.select(node_session.c.node_id).where(node_session.c.admin_id == admin_id)
    sessions = set(conn.execute(mine).scalars())
    return {node_id: targets for node_id, targets in live.items() if node_id in sessions}


@lru_cache(maxsize=1_000)
def _targets(slots: int | None, drain: bool) -> NodeTargets:
    """Kept, because most nodes have the same."""
    return NodeTargets(slots=slots, drain=bool(drain))


def end_sessions(conn: sa.Connection, sessions: Mapping[int, int]) -> None:
    """Sockets closed: shorten the leases of nodes without a session at another live admin.

    Args:
        sessions: node by session.
    """
    node_ids = sorted(set(sessions.values()))
    if len(node_ids) > 1:  # in this order, as everywhere
        ordered = sa.select(node.c.id).where(node.c.id.in_(node_ids)).order_by(node.c.id)
        conn.execute(ordered.with_for_update()).all()
    # All sockets of a killed process close at once, and who comes second must see that the first
    # has gone: the node's row is locked before. A millisecond less, for a lock must be a write.
    conn.execute(
        sa.update(node)
        .where(node.c.id.in_(node_ids))
        .values(lease_expires_at=node.c.lease_expires_at - 1)
    )
    of_these = sa.and_(
        node_session.c.node_id.in_(node_ids), node_session.c.session_id.in_(sorted(sessions))
    )
    ended = set(conn.execute(sa.select(node_session.c.node_id).where(of_these)).scalars())
    if not ended:
        return  # newer sockets of the same nodes took their places
    conn.execute(sa.delete(node_session).where(of_these))
    now = now_ms(conn)
    heard = conn.execute(
        sa.select(node_session.c.node_id)
        .join(admin, admin.c.id == node_session.c.admin_id)
        .where(node_session.c.node_id.in_(sorted(ended)), admin.c.lease_expires_at > now)
    ).scalars()
    unheard = ended.difference(heard)
    if unheard:
        conn.execute(
            sa.update(node)
            .where(
                node.c.id.in_(sorted(unheard)),
                node.c.state == NodeState.LIVE.value,
                node.c.lease_expires_at > now + CLOSED_LEASE_MS,
            )
            .values(lease_expires_at=now + CLOSED_LEASE_MS)
        )


def expire_nodes(conn: sa.Connection) -> list[int]:
    """Declare nodes dead whose lease is over; returns them.

    A lease that ends later than any renewal can reach was given before the database's clock was
    set back; it is cut, for nobody else would end it in time.
    """
    now = now_ms(conn)
    too_long = sa.and_(
        node.c.state == NodeState.LIVE.value, node.c.lease_expires_at > now + 2 * LEASE_MS
    )
    conn.execute(
        sa.update(node)
        .where(too_long)
        .values(lease_expires_at=now + LEASE_MS, full_lease_at=now + LEASE_MS)
    )
    over = sa.and_(node.c.state == NodeState.LIVE.value, node.c.lease_expires_at <= now)
    rows = conn.execute(
        sa.select(*PERIOD_COLUMNS)
        .where(over)
        .order_by(node.c.id)
        .limit(500)
        .with_for_update(skip_locked=True)
    ).all()
    ids = [row.id for row in rows]
    if ids:
        keep_periods(conn, rows, now=now, end=PeriodEnd.DEAD)
        conn.execute(
            sa.update(node)
            .where(node.c.id.in_(ids), over)
            .values(state=NodeState.DEAD.value, ended_at=now)
        )
        conn.execute(sa.delete(node_session).where(node_session.c.node_id.in_(ids)))
        add_signals(
            conn,
            [
                AlarmSignal(kind=AlarmKind.NODES_LOST, subject_id=node_id, number=now, at=now)
                for node_id in ids
            ],
        )
    return ids
