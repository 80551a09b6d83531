"""Executors and nodes as lists and pages show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.node import ANY_HANDLER, LEASE_MS, Node, NodeState
from tickwheel_admin.domain.jobs.declared_job import CodeJobs
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.handlers.schemas import schemas_of
from tickwheel_admin.services.jobs.declared.lists import read_waiting
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors import executors as store_executors
from tickwheel_admin.store.executors.executors import (
    AdminConnection,
    Capacity,
    StoredExecutor,
    StoredNode,
)
from tickwheel_admin.store.overview.attention import last_node_ended
from tickwheel_admin.store.runs.lists import RunItem, live_items_of_node
from tickwheel_admin.store.runs.queue_depth import QueueDepth, queue_depths
from tickwheel_admin.store.runs.summaries import RunSummary, live_summaries_of_nodes
from tickwheel_admin.store.xxl_job.executors import StoredXxlAddress, read_xxl_addresses

MAX_LISTED = 1_000
MAX_NODES_SHOWN = 1_000
MAX_RUNNING_SHOWN = 20  # per node in a list
MAX_RUNNING_OF_NODE = 200  # of a single node
ENDED_NODES_SHOWN_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorName:
    """An executor to choose."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorItem:
    """An executor in a list."""

    id: int
    name: str
    description: str
    live_nodes: int
    slots: int  # of its live nodes
    in_use: int
    jobs: int
    waiting: int  # runs that are due and wait, counted up to 1,000
    waiting_since: int | None  # when the oldest of them was due; None: none waits
    paused_at: int | None  # since when none of its fires run; None: not paused
    old_token_until: int | None  # the token before this one works until then; None: it does not
    protocol: Protocol
    code_jobs: CodeJobs  # what becomes of jobs declared in code
    scripts: bool  # whether its jobs may have scripts
    declared_waiting: int  # of those, how many wait for a person
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node and what it holds."""

    node: Node
    slots_wanted: int | None  # set by an operator; None: as many as the node said
    weight_wanted: int | None  # likewise
    seen_at: int  # when an admin last heard from it, to a few seconds
    running: list[RunSummary]  # the oldest 20
    # Where an admin calls it, if its executor is of the protocol `xxl_job`.
    xxl_address: StoredXxlAddress | None = None

    @property
    def address(self) -> str:
        """Where it is."""
        return self.node.address if self.xxl_address is None else self.xxl_address.address

    @property
    def weight(self) -> int:
        """Its share of runs with routing `weighted`."""
        return self.node.weight


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorDetail:
    """An executor with its nodes: live ones first, then those that ended in the last 24 h."""

    item: ExecutorItem
    nodes: list[NodeView]
    handlers: list[str]  # offered by live nodes, sorted
    gone_at: int | None  # when its last node ended, while none is live; None: it never had one
    # JSON Schema of the parameters, by handler that says what it takes; that of ANY_HANDLER is for
    # those that are not named.
    schemas: dict[str, str]

    def schema_of(self, handler: str) -> str | None:
        """JSON Schema of a handler's parameters; None: it takes whatever it is given."""
        return self.schemas.get(handler) or self.schemas.get(ANY_HANDLER)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetail:
    """One node."""

    view: NodeView
    executor_name: str
    running: list[RunItem]  # what it runs now, oldest first; at most 200
    heard_by: list[AdminConnection]  # admins that it is connected to, by name

    @property
    def node(self) -> Node:
        """The node itself."""
        return self.view.node


def read_names(conn: sa.Connection, scope: frozenset[int] | None) -> list[ExecutorName]:
    found = store_executors.list_executors(conn, scope=scope, limit=MAX_LISTED)
    return [ExecutorName(id=each.id, name=each.name) for each in found]


def read_list(conn: sa.Connection, scope: frozenset[int] | None) -> list[ExecutorItem]:
    found = store_executors.list_executors(conn, scope=scope, limit=MAX_LISTED)
    return _items(conn, found, scope=scope)


def read_detail(conn: sa.Connection, executor_id: int) -> ExecutorDetail:
    """Raises NotFound for an executor that is deleted."""
    found = store_executors.get_executor(conn, executor_id)
    if found is None:
        raise not_found()
    now = now_ms(conn)
    nodes = store_executors.nodes_to_show(
        conn, executor_id, ended_after=now - ENDED_NODES_SHOWN_MS, limit=MAX_NODES_SHOWN
    )
    live = [each.node.id for each in nodes if each.node.state is NodeState.LIVE]
    marks = live_summaries_of_nodes(conn, live, per_node=MAX_RUNNING_SHOWN)
    offered = store_executors.offered_handlers(conn, [executor_id])
    gone = {} if live else last_node_ended(conn, [executor_id])
    called_at = _xxl_addresses(conn, found)
    return ExecutorDetail(
        gone_at=gone.get(executor_id),
        item=_items(conn, [found], scope=frozenset({executor_id}))[0],
        nodes=[node_view_of(each, marks, now=now, called_at=called_at) for each in nodes],
        handlers=sorted(offered.get(executor_id, frozenset()) - {ANY_HANDLER}),
        schemas=schemas_of(conn, executor_id),
    )


def read_node(conn: sa.Connection, actor: Actor, node_id: int) -> NodeDetail:
    """Raises NotFound for a node that is forgotten, or of an executor that is deleted."""
    found = store_executors.get_node(conn, node_id)
    if found is None:
        raise not_found()
    executor_id = found.node.executor_id
    actor.require(Permission.VIEW, executor_id)
    executor = store_executors.get_executor(conn, executor_id)
    if executor is None:
        raise not_found()
    marks = live_summaries_of_nodes(conn, [node_id], per_node=MAX_RUNNING_SHOWN)
    return NodeDetail(
        view=node_view_of(found, marks, now=now_ms(conn), called_at=_xxl_addresses(conn, executor)),
        executor_name=executor.name,
        running=live_items_of_node(conn, node_id, limit=MAX_RUNNING_OF_NODE),
        heard_by=store_executors.connected_admins(conn, node_id),
    )


def _items(
    conn: sa.Connection, found: list[StoredExecutor], *, scope: frozenset[int] | None
) -> list[ExecutorItem]:
    ids = [each.id for each in found]
    now = now_ms(conn)
    jobs = store_executors.count_jobs(conn, ids)
    capacities = store_executors.capacities(conn, scope=scope)
    waiting = queue_depths(conn, ids, now=now)
    declared = read_waiting(conn, scope)
    return [
        _item(
            each,
            capacities.get(each.id) or Capacity(),
            jobs.get(each.id, 0),
            waiting.get(each.id),
            declared_waiting=len(declared.get(each.id, ())),
            now=now,
        )
        for each in found
    ]


def _item(
    executor: StoredExecutor,
    capacity: Capacity,
    jobs: int,
    queue: QueueDepth | None,
    *,
    declared_waiting: int,
    now: int,
) -> ExecutorItem:
    until = executor.old_token_until
    return ExecutorItem(
        id=executor.id,
        name=executor.name,
        description=executor.description,
        live_nodes=capacity.live_nodes,
        slots=capacity.slots,
        in_use=capacity.in_use,
        jobs=jobs,
        waiting=0 if queue is None else queue.waiting,
        waiting_since=None if queue is None else queue.since,
        paused_at=executor.paused_at,
        old_token_until=None if until is None or until <= now else until,
        protocol=executor.protocol,
        code_jobs=executor.code_jobs,
        scripts=executor.scripts,
        declared_waiting=declared_waiting,
        created_at=executor.created_at,
    )


def _xxl_addresses(conn: sa.Connection, executor: StoredExecutor) -> dict[int, StoredXxlAddress]:
    """Where the executor's nodes are called, by node."""
    if executor.protocol is not Protocol.XXL_JOB:
        return {}
    found = read_xxl_addresses(conn, [executor.id])
    return {each.node_id: each for each in found if each.node_id is not None}


def node_view_of(
    stored: StoredNode,
    marks: Mapping[int, list[RunSummary]],
    *,
    now: int,
    called_at: Mapping[int, StoredXxlAddress],
) -> NodeView:
    """A node as it is shown.

    Args:
        marks: what runs now, by node.
        called_at: where nodes of the protocol `xxl_job` are called, by node.
    """
    node = stored.node
    return NodeView(
        node=node,
        slots_wanted=stored.slots_wanted,
        weight_wanted=stored.weight_wanted,
        # Each heartbeat that an admin acknowledges extends the lease from then on. Clocks may have
        # been set back since.
        seen_at=min(node.full_lease_at - LEASE_MS, now),
        running=marks.get(node.id, []),
        xxl_address=called_at.get(node.id),
    )
