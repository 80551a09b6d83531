"""Nodes: what operators want of them. Admins tell the nodes within two seconds."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import NODES, QUEUED, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.executors.lists import NodeDetail as NodeDetail
from tickwheel_admin.services.executors.lists import read_node
from tickwheel_admin.services.executors.node_pages import NodeItem as NodeItem
from tickwheel_admin.services.executors.node_pages import NodeQuery as NodeQuery
from tickwheel_admin.services.executors.node_pages import read_page
from tickwheel_admin.services.lists.paging import Page
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors import node_targets
from tickwheel_admin.store.executors.executors import StoredNode, get_node

MAX_SLOTS = 10_000
MAX_WEIGHT = 1_000


class Nodes:
    """Use cases of nodes."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._audited = AuditedTransactions(store, ids, events)

    async def get(self, actor: Actor, node_id: int) -> NodeDetail:
        """One node, also one that has ended: what it runs now and who hears it."""
        return await self._store.read(read_node, actor, node_id)

    async def page(
        self, actor: Actor, query: NodeQuery, *, cursor: str | None = None, limit: int = 50
    ) -> Page[NodeItem]:
        """Nodes of every executor that the caller may see, by executor and name.

        Raises:
            InvalidInput: with the field that breaks a rule.
        """

        def read(conn: sa.Connection) -> Page[NodeItem]:
            return read_page(conn, actor, query, cursor=cursor, limit=limit)

        return await self._store.read(read)

    async def cordon(self, actor: Actor, node_id: int) -> None:
        """Give the node no new runs; those it has go on. The node itself does not notice.

        Raises:
            Conflict: node.ended.
        """

        def cordon(conn: sa.Connection, found: StoredNode) -> bool:
            if found.node.cordoned and not found.node.drain_wanted:
                return False
            node_targets.set_cordon(conn, node_id, cordoned=True, drain=False)
            return True

        await self._change(actor, node_id, "node.cordoned", cordon)

    async def drain(self, actor: Actor, node_id: int) -> None:
        """Give the node no new runs and tell it so: it also refuses what is under way to it.

        Raises likewise.
        """

        def drain(conn: sa.Connection, found: StoredNode) -> bool:
            if found.node.drain_wanted:
                return False
            node_targets.set_cordon(conn, node_id, cordoned=True, drain=True)
            return True

        await self._change(actor, node_id, "node.drained", drain)

    async def resume(self, actor: Actor, node_id: int) -> None:
        """Give the node runs again; raises likewise."""

        def resume(conn: sa.Connection, found: StoredNode) -> bool:
            if not (found.node.cordoned or found.node.drain_wanted):
                return False
            node_targets.set_cordon(conn, node_id, cordoned=False, drain=False)
            return True

        await self._change(actor, node_id, "node.resumed", resume)

    async def set_slots(self, actor: Actor, node_id: int, slots: int | None) -> None:
        """Change how many attempts the node runs at once; what it runs beyond that goes on.

        Args:
            slots: 1 to 10,000; None: what the node itself says, from its next connection on.

        Raises:
            InvalidInput: on "slots".
            Conflict: node.ended.
        """
        if slots is not None and not 1 <= slots <= MAX_SLOTS:
            raise InvalidInput.one(
                "slots",
                "out_of_range",
                "This must lie between %(low)s and %(high)s.",
                low="1",
                high=f"{MAX_SLOTS:,}",
            )

        def set_slots(conn: sa.Connection, found: StoredNode) -> bool:
            if found.slots_wanted == slots:
                return False
            node_targets.set_slots(conn, node_id, slots=slots)
            return True

        await self._change(actor, node_id, "node.slots_set", set_slots, slots=slots)

    async def set_weight(self, actor: Actor, node_id: int, weight: int | None) -> None:
        """Change the node's share of runs of jobs whose routing is `weighted`.

        Args:
            weight: 1 to 1,000; None: what the node itself says, from its next connection on.

        Raises:
            InvalidInput: on "weight".
            Conflict: node.ended.
        """
        if weight is not None and not 1 <= weight <= MAX_WEIGHT:
            raise InvalidInput.one(
                "weight",
                "out_of_range",
                "This must lie between %(low)s and %(high)s.",
                low="1",
                high=f"{MAX_WEIGHT:,}",
            )

        def set_weight(conn: sa.Connection, found: StoredNode) -> bool:
            if found.weight_wanted == weight:
                return False
            node_targets.set_weight(conn, node_id, weight=weight)
            return True

        await self._change(actor, node_id, "node.weight_set", set_weight, weight=weight)

    async def _change(
        self,
        actor: Actor,
        node_id: int,
        action: str,
        work: Callable[[sa.Connection, StoredNode], bool],
        **detail: object,
    ) -> None:
        """Do the work under the lock of a node that is live; note it when it changed anything."""

        def change(conn: sa.Connection, entry: AuditEntry) -> None:
            found = get_node(conn, node_id)
            if found is None:
                raise not_found()
            actor.require(Permission.OPERATE, found.node.executor_id)
            found = get_node(conn, node_id, lock=True)
            if found is None:
                raise not_found()
            check_live(found.node)
            if work(conn, found):
                node = found.node
                entry.write(action, node_id, executor_id=node.executor_id, name=node.name, **detail)

        await self._audited.run(actor, change, NODES, QUEUED)


def check_live(node: Node) -> None:
    """Raises Conflict node.ended."""
    if node.state is not NodeState.LIVE:
        raise Conflict("node.ended", "This node has ended.")
