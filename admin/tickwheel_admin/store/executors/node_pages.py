"""Pages of nodes, of any number of executors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.store.database.tables import ALIVE, executor, node
from tickwheel_admin.store.executors.executors import StoredNode, stored_node
from tickwheel_admin.store.executors.nodes import SELECTED_NODE


class NodeKey(NamedTuple):
    """The place of a node in the list."""

    executor_id: int
    name: str
    id: int


def page_nodes(
    conn: sa.Connection,
    *,
    scope: Collection[int] | None,
    state: NodeState | None = None,
    text: str = "",
    version: str = "",
    after: NodeKey | None = None,
    limit: int,
) -> list[StoredNode]:
    """By executor, name and id, from behind a key.

    Args:
        scope: executors; None: all that are not deleted.
        state: None: any.
        text, version: parts of the name and of what the node says of its SDK, in any case.
    """
    statement = SELECTED_NODE.order_by(node.c.executor_id, node.c.name, node.c.id).limit(limit)
    alive = sa.select(executor.c.id).where(executor.c.deleted_at == ALIVE)
    statement = statement.where(node.c.executor_id.in_(alive))
    if scope is not None:
        statement = statement.where(node.c.executor_id.in_(sorted(scope)))
    if state is not None:
        statement = statement.where(node.c.state == state.value)
    for column, part in ((node.c.name, text), (node.c.sdk, version)):
        if part:
            statement = statement.where(_contains(column, part))
    if after is not None:
        behind_name = sa.or_(
            node.c.name > after.name, sa.and_(node.c.name == after.name, node.c.id > after.id)
        )
        of_executor = sa.and_(node.c.executor_id == after.executor_id, behind_name)
        statement = statement.where(
            node.c.executor_id >= after.executor_id,  # where the index is entered
            sa.or_(node.c.executor_id > after.executor_id, of_executor),
        )
    return [stored_node(row) for row in conn.execute(statement)]


def _contains(column: sa.Column[Any], part: str) -> sa.ColumnElement[bool]:
    escaped = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    wanted = sa.func.lower(sa.bindparam(f"{column.name}_part", f"%{escaped}%"))
    return sa.func.lower(column).like(wanted, escape="\\")
