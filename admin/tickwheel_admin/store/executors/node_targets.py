"""What operators want of nodes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import node
from tickwheel_admin.store.executors.node_periods import change_node


def set_cordon(conn: sa.Connection, node_id: int, *, cordoned: bool, drain: bool) -> None:
    """Let the router skip the node, and ask the node to drain; or end both."""
    change_node(conn, node_id, cordoned=cordoned or drain, drain_wanted=drain)


def set_slots(conn: sa.Connection, node_id: int, *, slots: int | None) -> None:
    """Change how many attempts a node runs at once; None: what it said stays until it says more.

    What it runs beyond that goes on.
    """
    values: dict[str, Any] = {"slots_wanted": slots}
    if slots is not None:
        values["slots"] = slots
    change_node(conn, node_id, **values)


def set_weight(conn: sa.Connection, node_id: int, *, weight: int | None) -> None:
    """Change a node's share of weighted runs; None: what it said stays until it says more."""
    values: dict[str, Any] = {"weight_wanted": weight}
    if weight is not None:
        values["weight"] = weight
    conn.execute(sa.update(node).where(node.c.id == node_id).values(values))
