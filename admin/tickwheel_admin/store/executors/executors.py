"""Executors and what their nodes offer, for people; `store.executors.nodes` admits nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.domain.jobs.declared_job import CodeJobs
from tickwheel_admin.store.database.tables import ALIVE, admin, executor, job, node, node_session
from tickwheel_admin.store.executors.nodes import SELECTED_NODE, node_from_row

_handlers = msgspec.json.Decoder(list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExecutor:
    """An executor without its tokens."""

    id: int
    name: str
    description: str
    old_token_until: int | None  # the token before the current one works until then
    paused_at: int | None  # fires after this instant do not run
    code_jobs: CodeJobs  # what becomes of jobs declared in code
    scripts: bool  # whether its jobs may have scripts
    protocol: Protocol
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNode:
    """A node with what an operator wants of it."""

    node: Node
    slots_wanted: int | None  # None: as many as it said
    weight_wanted: int | None  # likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConnection:
    """An admin that a node is connected to."""

    admin_id: int
    admin_name: str
    connected_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the live nodes of an executor, or of all, can hold."""

    live_nodes: int = 0
    slots: int = 0
    in_use: int = 0


_SELECTED = sa.select(
    executor.c.id,
    executor.c.name,
    executor.c.description,
    executor.c.old_token_until,
    executor.c.paused_at,
    executor.c.code_jobs,
    executor.c.scripts,
    executor.c.protocol,
    executor.c.created_at,
).where(executor.c.deleted_at == ALIVE)


def list_executors(
    conn: sa.Connection, *, scope: Iterable[int] | None, limit: int
) -> list[StoredExecutor]:
    """By name; at most `limit`."""
    statement = _SELECTED.order_by(executor.c.name).limit(limit)
    if scope is not None:
        statement = statement.where(executor.c.id.in_(sorted(scope)))
    return [_stored(row) for row in conn.execute(statement)]


def get_executor(
    conn: sa.Connection, executor_id: int, *, lock: bool = False
) -> StoredExecutor | None:
    """The executor, unless it is deleted. A lock holds off its deletion."""
    if lock:
        # A write, so that it holds on clusters whose row locks are local; a millisecond to and fro.
        at = executor.c.created_at
        conn.execute(
            sa.update(executor)
            .where(executor.c.id == executor_id)
            .values(created_at=at + 1 - 2 * (at % 2))
        )
    row = conn.execute(_SELECTED.where(executor.c.id == executor_id)).one_or_none()
    return None if row is None else _stored(row)


def protocol_of(conn: sa.Connection, executor_id: int) -> Protocol:
    """How its nodes are reached; of an executor that does not exist, as of most."""
    found = conn.execute(sa.select(executor.c.protocol).where(executor.c.id == executor_id))
    return Protocol(found.scalar_one_or_none() or Protocol.TICKWHEEL)


def executor_names(conn: sa.Connection, executor_ids: Iterable[int]) -> dict[int, str]:
    """Names of executors, deleted ones too, by id."""
    wanted = executor.c.id.in_(sorted(executor_ids))
    rows = conn.execute(sa.select(executor.c.id, executor.c.name).where(wanted))
    return {row.id: row.name for row in rows}


def living_executors(conn: sa.Connection, executor_ids: Iterable[int]) -> frozenset[int]:
    """Those of the ids that are an executor's that is not deleted."""
    wanted = executor.c.id.in_(sorted(executor_ids))
    rows = conn.execute(sa.select(executor.c.id).where(wanted, executor.c.deleted_at == ALIVE))
    return frozenset(rows.scalars())


def executors_by_id(conn: sa.Connection, executor_ids: Iterable[int]) -> dict[int, StoredExecutor]:
    """Those that are not deleted, by id."""
    rows = conn.execute(_SELECTED.where(executor.c.id.in_(sorted(executor_ids))))
    return {row.id: _stored(row) for row in rows}


def executor_ids(conn: sa.Connection, names: Iterable[str]) -> dict[str, int]:
    """Ids of executors that are not deleted, by name; names of none are left out."""
    wanted = executor.c.name.in_(sorted(names))
    rows = conn.execute(
        sa.select(executor.c.name, executor.c.id).where(wanted, executor.c.deleted_at == ALIVE)
    )
    return {row.name: row.id for row in rows}


def executor_name_is_taken(conn: sa.Connection, name: str) -> bool:
    """Whether an executor that is not deleted has the name."""
    found = sa.select(executor.c.id).where(executor.c.name == name, executor.c.deleted_at == ALIVE)
    return conn.execute(found).first() is not None


def add_executor(
    conn: sa.Connection,
    *,
    executor_id: int,
    name: str,
    description: str,
    token_hash: str,
    now: int,
    protocol: Protocol = Protocol.TICKWHEEL,
) -> None:
    """Insert an executor; its unique name is the database's to guard."""
    conn.execute(
        sa.insert(executor).values(
            id=executor_id,
            name=name,
            description=description,
            token_hash=token_hash,
            protocol=protocol.value,
            created_at=now,
            deleted_at=ALIVE,
        )
    )


def delete_executor(conn: sa.Connection, executor_id: int, *, now: int) -> None:
    """Mark it deleted; its name is free again and its token opens nothing."""
    conn.execute(
        sa.update(executor)
        .where(executor.c.id == executor_id)
        .values(
            deleted_at=now,
            token_hash=f"deleted {executor_id}",
            old_token_hash=None,
            old_token_until=None,
            paused_at=None,
        )
    )


def allows_scripts(conn: sa.Connection, executor_id: int) -> bool:
    """Whether its jobs may have scripts; an executor that does not exist allows none."""
    found = conn.execute(sa.select(executor.c.scripts).where(executor.c.id == executor_id))
    return bool(found.scalar_one_or_none())


def set_scripts(conn: sa.Connection, executor_id: int, *, allowed: bool) -> None:
    """Note whether its jobs may have scripts."""
    conn.execute(sa.update(executor).where(executor.c.id == executor_id).values(scripts=allowed))


def describe_executor(conn: sa.Connection, executor_id: int, description: str) -> None:
    """Write what people read of it."""
    conn.execute(
        sa.update(executor).where(executor.c.id == executor_id).values(description=description)
    )


def has_jobs(conn: sa.Connection, executor_id: int) -> bool:
    """Whether any job of it is not deleted."""
    found = sa.select(job.c.id).where(job.c.executor_id == executor_id, job.c.deleted_at == ALIVE)
    return conn.execute(found.limit(1)).first() is not None


def count_jobs(conn: sa.Connection, executor_ids: Sequence[int]) -> dict[int, int]:
    """Jobs by executor; costs an index entry per job, about 20 ms for 100,000."""
    rows = conn.execute(
        sa.select(job.c.executor_id, sa.func.count().label("jobs"))
        .where(job.c.executor_id.in_(executor_ids), job.c.deleted_at == ALIVE)
        .group_by(job.c.executor_id)
    )
    return {row.executor_id: row.jobs for row in rows}


def capacities(conn: sa.Connection, *, scope: Iterable[int] | None) -> dict[int, Capacity]:
    """What live nodes can hold, by executor; costs one index entry per live node."""
    statement = (
        sa.select(
            node.c.executor_id,
            sa.func.count().label("nodes"),
            sa.func.sum(node.c.slots).label("slots"),
            sa.func.sum(node.c.in_use).label("in_use"),
        )
        .where(node.c.state == NodeState.LIVE.value)
        .group_by(node.c.executor_id)
    )
    if scope is not None:
        statement = statement.where(node.c.executor_id.in_(sorted(scope)))
    return {
        row.executor_id: Capacity(
            live_nodes=row.nodes, slots=int(row.slots), in_use=int(row.in_use)
        )
        for row in conn.execute(statement)
    }


def nodes_to_show(
    conn: sa.Connection, executor_id: int, *, ended_after: int, limit: int
) -> list[StoredNode]:
    """Live nodes by name, then those that ended lately, newest first."""
    mine = SELECTED_NODE.where(node.c.executor_id == executor_id).limit(limit)
    live = conn.execute(
        mine.where(node.c.state == NodeState.LIVE.value).order_by(node.c.name, node.c.id)
    )
    over = conn.execute(
        mine.where(
            node.c.state.in_((NodeState.GONE.value, NodeState.DEAD.value)),
            node.c.ended_at > ended_after,
        ).order_by(node.c.ended_at.desc(), node.c.id)
    )
    return [stored_node(row) for row in (*live, *over)]


def get_node(conn: sa.Connection, node_id: int, *, lock: bool = False) -> StoredNode | None:
    """A node, also one that has ended."""
    statement = SELECTED_NODE.where(node.c.id == node_id)
    row = conn.execute(statement.with_for_update() if lock else statement).one_or_none()
    return None if row is None else stored_node(row)


def connected_admins(conn: sa.Connection, node_id: int) -> list[AdminConnection]:
    """The admins that a node has sockets to, by name."""
    rows = conn.execute(
        sa.select(node_session.c.admin_id, node_session.c.connected_at, admin.c.name)
        .join(admin, admin.c.id == node_session.c.admin_id)
        .where(node_session.c.node_id == node_id)
        .order_by(admin.c.name, admin.c.id)
    )
    return [
        AdminConnection(admin_id=row.admin_id, admin_name=row.name, connected_at=row.connected_at)
        for row in rows
    ]


def offered_handlers(conn: sa.Connection, executor_ids: Sequence[int]) -> dict[int, frozenset[str]]:
    """Handlers that live nodes offer, by executor; an executor without live nodes is left out.

    ANY_HANDLER is among those of nodes that do not tell them.
    """
    rows = conn.execute(
        sa.select(node.c.executor_id, node.c.handlers)
        .where(node.c.executor_id.in_(executor_ids), node.c.state == NodeState.LIVE.value)
        .distinct()
    )
    found: defaultdict[int, set[str]] = defaultdict(set)
    for row in rows:
        found[row.executor_id].update(_handlers.decode(row.handlers))
    return {executor_id: frozenset(names) for executor_id, names in found.items()}


def _stored(row: Any) -> StoredExecutor:
    return StoredExecutor(
        id=row.id,
        name=row.name,
        description=row.description,
        old_token_until=row.old_token_until,
        paused_at=row.paused_at,
        code_jobs=CodeJobs(row.code_jobs),
        scripts=bool(row.scripts),
        protocol=Protocol(row.protocol),
        created_at=row.created_at,
    )


def stored_node(row: Any) -> StoredNode:
    """A node from a row with what SELECTED_NODE reads."""
    return StoredNode(
        node=node_from_row(row),
        slots_wanted=row.slots_wanted,
        weight_wanted=row.weight_wanted,
    )
