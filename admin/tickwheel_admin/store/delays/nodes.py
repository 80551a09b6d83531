"""The nodes that an executor had at some time."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.store.database.tables import node
from tickwheel_admin.store.executors.nodes import SELECTED_NODE, node_from_row

MAX_NODES = 2_000


def nodes_between(conn: sa.Connection, executor_id: int, *, from_at: int, to_at: int) -> list[Node]:
    """Nodes that were there, those that still are first; with slots, labels and handlers of now."""
    found: list[Node] = []
    for is_live in (True, False):
        wanted = SELECTED_NODE.where(node.c.executor_id == executor_id, node.c.connected_at < to_at)
        if is_live:
            wanted = wanted.where(node.c.state == NodeState.LIVE.value)
        else:
            over = (NodeState.DEAD.value, NodeState.GONE.value)
            wanted = wanted.where(node.c.state.in_(over), node.c.ended_at > from_at)
        rows = conn.execute(wanted.limit(MAX_NODES - len(found)))
        found += (node_from_row(row) for row in rows)
    return found
