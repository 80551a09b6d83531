"""The slots of nodes: taken by claims, given back by moves, recounted when in doubt.

A batch may concern a thousand nodes, so none costs a statement of its own: their rows are locked by
one, in ascending order of id as everywhere, and written by another.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.store.database.batch import update_values
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.run_conditions import IS_LIVE
from tickwheel_admin.store.database.tables import node, run

_LOCKED = (
    sa.select(node.c.id, node.c.in_use, node.c.slots)
    .where(among(node.c.id, "ids"))
    .order_by(node.c.id)
    .with_for_update()
)
_LOCKED_OPEN = _LOCKED.where(
    node.c.state == NodeState.LIVE.value,
    node.c.draining.is_(False),
    node.c.cordoned.is_(False),
    node.c.lease_expires_at > sa.bindparam("now"),
)


def take_slots(conn: sa.Connection, wanted: Mapping[int, int], *, now: int) -> dict[int, int]:
    """Take this many slots of each node, or those that are free; returns how many, by node.

    Only of nodes that are live and take runs; their rows stay locked.

    Args:
        wanted: by node, at least 1.
    """
    rows = conn.execute(_LOCKED_OPEN, {"ids": sorted(wanted), "now": now}).all()
    free = {row.id: min(wanted[row.id], row.slots - row.in_use) for row in rows}
    taken = {node_id: count for node_id, count in free.items() if count > 0}
    _write(conn, {row.id: row.in_use + taken[row.id] for row in rows if row.id in taken})
    return taken


def change_slots(conn: sa.Connection, changes: Mapping[int, int]) -> None:
    """Add to the used slots of each node; negative: give them back."""
    changed = {node_id: change for node_id, change in changes.items() if change}
    if changed:
        rows = conn.execute(_LOCKED, {"ids": sorted(changed)}).all()
        _write(conn, {row.id: row.in_use + changed[row.id] for row in rows})


def _write(conn: sa.Connection, in_use: Mapping[int, int]) -> None:
    update_values(conn, node, sorted(in_use.items()), match=("id",), values=("in_use",))


def miscounted_nodes(conn: sa.Connection) -> list[int]:
    """Nodes whose `in_use` differs from their live runs; a hint, read without locks."""
    counted = (
        sa.select(run.c.node_id, sa.func.count().label("runs"))
        .where(IS_LIVE)
        .group_by(run.c.node_id)
        .subquery()
    )
    actual = sa.func.coalesce(counted.c.runs, 0)
    rows = conn.execute(
        sa.select(node.c.id)
        .outerjoin(counted, counted.c.node_id == node.c.id)
        .where(sa.or_(node.c.state == NodeState.LIVE.value, node.c.in_use != 0))
        .where(node.c.in_use != actual)
        .order_by(node.c.id)
    )
    return list(rows.scalars())


def recount_slots(conn: sa.Connection, node_id: int) -> None:
    """Set `in_use` to the number of live runs.

    The node's row is locked first: a claim or an end that is under way has either committed, and
    is counted, or waits for this lock and adds its own change afterwards.
    """
    conn.execute(sa.select(node.c.id).where(node.c.id == node_id).with_for_update()).one_or_none()
    count = conn.execute(
        sa.select(sa.func.count()).select_from(run).where(IS_LIVE, run.c.node_id == node_id)
    ).scalar_one()
    conn.execute(sa.update(node).where(node.c.id == node_id).values(in_use=count))
