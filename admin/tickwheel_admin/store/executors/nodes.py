"""Nodes and their slots; their leases are in `store.executors.node_leases`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.as_of.nodes import PeriodEnd
from tickwheel_admin.domain.executors.node import LEASE_MS, Node, NodeState
from tickwheel_admin.store.database.batch import insert_rows, insert_values, update_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Repeat
from tickwheel_admin.store.database.structs import Packed, StructReader
from tickwheel_admin.store.database.tables import node, node_session
from tickwheel_admin.store.executors.handler_schemas import executors_with_schemas
from tickwheel_admin.store.executors.node_periods import (
    PERIOD_COLUMNS,
    change_node,
    keep_periods,
    lock_periods,
)

NAMESAKES = 5  # that a node is informed of
_OVER = (NodeState.DEAD.value, NodeState.GONE.value)

# A node's row but for the names of its declared jobs, which may be long and decide nothing here.
SELECTED_NODE = sa.select(*(column for column in node.c if column is not node.c.declared))


@lru_cache(maxsize=500)
def _names(text: str) -> frozenset[str]:
    """Names from JSON; hundreds of nodes of an executor say the same ones."""
    return frozenset(msgspec.json.decode(text, type=list[str]))


@lru_cache(maxsize=2_000)
def _labels(text: str) -> Mapping[str, str]:
    """Labels from JSON; a node's are read with each claim of its executor."""
    return msgspec.json.decode(text, type=dict[str, str])


def node_from_row(row: Any) -> Node:
    """A domain node from a row of `SELECTED_NODE`, or a `_NodeRow`."""
    return Node(
        id=row.id,
        executor_id=row.executor_id,
        name=row.name,
        state=NodeState(row.state),
        draining=bool(row.draining),
        cordoned=bool(row.cordoned),
        drain_wanted=bool(row.drain_wanted),
        slots=row.slots,
        slots_wanted=row.slots_wanted,
        in_use=row.in_use,
        weight=row.weight,
        handlers=_names(row.handlers),
        unstoppable=_names(row.unstoppable),
        labels=_labels(row.labels),
        sdk=row.sdk,
        address=row.address,
        connected_at=row.connected_at,
        lease_expires_at=row.lease_expires_at,
        full_lease_at=row.full_lease_at,
        ended_at=row.ended_at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What a node says of itself in hello."""

    executor_id: int
    node_key: str
    name: str
    sdk: str
    slots: int
    handlers: list[str]
    unstoppable: list[str]
    labels: dict[str, str]
    weight: int
    address: str
    has_code: bool = False  # its hello says something of its code
    clock: int | None = None  # its wall clock, UTC epoch ms


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArrival:
    """A node that said hello."""

    node_id: int
    slots_wanted: int | None  # set by an operator
    is_new: bool  # its first hello, at any admin
    manifest_is_read: bool  # what it says of its code
    connected_at: int  # of its first hello
    now: int


_SAID = (
    "name", "state", "slots", "weight", "handlers", "unstoppable", "labels", "sdk", "address",
    "lease_expires_at", "full_lease_at", "ended_at",
)  # fmt: skip
_OF_NEW = (
    "id", "executor_id", "node_key", "draining", "cordoned", "drain_wanted", "in_use",
    "connected_at", "declared", *_SAID, "since_at",
)  # fmt: skip


def admit_nodes(
    conn: sa.Connection,
    arrivals: Sequence[Arrival],
    *,
    new_ids: Sequence[int],
    session_ids: Sequence[int],
    admin_id: int,
) -> list[StoredArrival]:
    """Store nodes, or bring them back to life, with sessions at this admin; in the order given.

    Args:
        new_ids: one for each arrival, used for nodes that are new.
        session_ids: one for each arrival. Of a process that comes twice the later one stays.

    Raises:
        Repeat: another admin has just stored one of them.
    """
    now = now_ms(conn)
    known = _lock_known(conn, arrivals)
    # A process that says nothing may still take back what one before it said.
    silent = {arrival.executor_id for arrival in arrivals if not arrival.has_code}
    silent -= executors_with_schemas(conn, silent)
    added: dict[_Key, dict[str, Any]] = {}
    changed: dict[int, dict[str, Any]] = {}
    sessions: dict[int, int] = {}  # by node
    other: list[Any] = []  # that were live, and not as they are now
    stored = []
    for arrival, new_id, session_id in zip(arrivals, new_ids, session_ids, strict=True):
        key = (arrival.executor_id, arrival.node_key)
        row = known.get(key)
        said = _said(arrival, now=now)
        manifest_is_read = not arrival.has_code and arrival.executor_id in silent
        if row is None:
            node_id = added[key]["id"] if key in added else new_id
            added[key] = said | {
                "id": node_id,
                "executor_id": arrival.executor_id,
                "node_key": arrival.node_key,
                "draining": False,
                "cordoned": False,
                "drain_wanted": False,
                "in_use": 0,
                "connected_at": now,
                "since_at": now,
                "declared": "[]" if manifest_is_read else None,
            }
        else:
            node_id = row.id
            said["slots"] = row.slots_wanted or arrival.slots
            said["weight"] = row.weight_wanted or arrival.weight
            was_live = row.state == NodeState.LIVE.value
            same = was_live and row.slots == said["slots"] and row.name == said["name"]
            if was_live and not same and node_id not in changed:
                other.append(row)
            changed[node_id] = said | {"id": node_id, "since_at": row.since_at if same else now}
        sessions[node_id] = session_id
        stored.append(
            StoredArrival(
                node_id=node_id,
                slots_wanted=None if row is None else row.slots_wanted,
                is_new=row is None,
                manifest_is_read=manifest_is_read if row is None else bool(row.manifest_is_read),
                connected_at=now if row is None else row.connected_at,
                now=now,
            )
        )
    # In one order: processes that start come to all admins at once, and two batches that hold the
    # same ones would wait for each other crosswise.
    rows = [added[key] for key in sorted(added)]
    try:
        insert_rows(conn, node, rows, columns=_OF_NEW)
    except sa.exc.IntegrityError as error:
        # Not left to the caller, who repeats it but once: of hundreds of processes that come to
        # two admins at the same time, a second one may be in both hands.
        raise Repeat("a node came to two admins at once") from error
    keep_periods(conn, other, now=now, end=PeriodEnd.CHANGED)
    values = (*_SAID, "since_at")
    update_rows(conn, node, list(changed.values()), match=("id",), values=values)
    conn.execute(
        sa.delete(node_session).where(
            node_session.c.admin_id == admin_id, node_session.c.node_id.in_(sorted(sessions))
        )
    )
    columns = ("node_id", "admin_id", "session_id", "connected_at")
    insert_values(
        conn,
        node_session,
        [(node_id, admin_id, session_id, now) for node_id, session_id in sessions.items()],
        columns=columns,
    )
    return stored


_Key = tuple[int, str]  # executor, node_key


def _lock_known(conn: sa.Connection, arrivals: Sequence[Arrival]) -> dict[_Key, Any]:
    """Rows of those that said hello before, by executor and key."""
    keys: defaultdict[int, set[str]] = defaultdict(set)
    for arrival in arrivals:
        keys[arrival.executor_id].add(arrival.node_key)
    # Looked up first: they are to be locked in the order of their ids, as everywhere.
    ids: list[int] = []
    for executor_id, node_keys in sorted(keys.items()):
        of_executor = sa.and_(node.c.executor_id == executor_id, node.c.node_key.in_(node_keys))
        ids += conn.execute(sa.select(node.c.id).where(of_executor)).scalars()
    if not ids:
        return {}
    rows = conn.execute(
        sa.select(
            *PERIOD_COLUMNS,
            node.c.node_key,
            node.c.slots_wanted,
            node.c.weight_wanted,
            node.c.connected_at,
            node.c.declared.is_not(None).label("manifest_is_read"),
        )
        .where(node.c.id.in_(sorted(ids)))
        .order_by(node.c.id)
        .with_for_update()
    )
    return {(row.executor_id, row.node_key): row for row in rows}


def _said(arrival: Arrival, *, now: int) -> dict[str, Any]:
    """The columns that each hello writes."""
    return {
        "name": arrival.name,
        "state": NodeState.LIVE.value,
        "slots": arrival.slots,
        "weight": arrival.weight,
        "handlers": msgspec.json.encode(sorted(set(arrival.handlers))).decode(),
        "unstoppable": msgspec.json.encode(sorted(set(arrival.unstoppable))).decode(),
        "labels": msgspec.json.encode(arrival.labels).decode(),
        "sdk": arrival.sdk,
        "address": arrival.address,
        "lease_expires_at": now + LEASE_MS,
        "full_lease_at": now + LEASE_MS,
        "ended_at": None,
    }


def open_namesakes(
    conn: sa.Connection, executor_id: int, names: Iterable[str]
) -> dict[str, dict[int, str]]:
    """By name, addresses of live nodes that share it and have a socket, by node; some of each."""
    # A killed process counts as live for some seconds, but has no session.
    named = (
        node.c.executor_id == executor_id,
        node.c.state == NodeState.LIVE.value,
        sa.exists().where(node_session.c.node_id == node.c.id),
    )
    shared = conn.execute(
        sa.select(node.c.name)
        .where(*named, node.c.name.in_(sorted(names)))
        .group_by(node.c.name)
        .having(sa.func.count() > 1)
    ).scalars()
    return {
        name: {
            row.id: row.address
            for row in conn.execute(
                sa.select(node.c.id, node.c.address)
                .where(*named, node.c.name == name)
                .order_by(node.c.id)
                .limit(NAMESAKES + 1)
            )
        }
        for name in shared.all()
    }


def set_draining(conn: sa.Connection, *, node_id: int, draining: bool) -> None:
    """Note whether the node takes new runs."""
    change_node(conn, node_id, draining=draining)


def say_goodbye(conn: sa.Connection, *, node_id: int) -> None:
    """The node holds nothing any more and leaves at once."""
    now = now_ms(conn)
    keep_periods(conn, lock_periods(conn, [node_id]), now=now, end=PeriodEnd.GONE)
    conn.execute(
        sa.update(node)
        .where(node.c.id == node_id, node.c.state == NodeState.LIVE.value)
        .values(state=NodeState.GONE.value, ended_at=now)
    )


def ended_nodes(conn: sa.Connection, node_ids: Iterable[int]) -> set[int]:
    """Those of the nodes that are dead, gone or forgotten."""
    wanted = set(node_ids)
    standing = conn.execute(
        sa.select(node.c.id).where(
            node.c.id.in_(sorted(wanted)), node.c.state == NodeState.LIVE.value
        )
    ).scalars()
    return wanted - set(standing)


def ended_nodes_with_runs(conn: sa.Connection) -> list[Node]:
    """Dead or gone nodes that still hold slots: their runs are to be moved on."""
    rows = conn.execute(SELECTED_NODE.where(node.c.state.in_(_OVER), node.c.in_use > 0).limit(500))
    return [node_from_row(row) for row in rows]


class _NodeRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """As much of a node's row as `node_from_row` takes, in a form that costs a claim least."""

    id: int
    executor_id: int
    name: str
    state: NodeState
    draining: bool | int  # within an array of MariaDB it is a number
    cordoned: bool | int
    drain_wanted: bool | int
    slots: int
    slots_wanted: int | None
    in_use: int
    weight: int
    handlers: str
    unstoppable: str
    labels: str
    sdk: str
    address: str
    connected_at: int
    lease_expires_at: int
    full_lease_at: int
    ended_at: int | None


_LIVE = StructReader(_NodeRow, node)
_LIVE_NODES = (
    sa.select(*_LIVE.columns)
    .where(
        node.c.executor_id == sa.bindparam("executor"),
        node.c.state == NodeState.LIVE.value,
        node.c.lease_expires_at > sa.bindparam("now"),
    )
    .order_by(node.c.name, node.c.id)
)


def live_nodes(conn: sa.Connection, executor_id: int, *, now: int) -> list[Node]:
    """Nodes of the executor that may be given runs, by name.

    Each claim reads all of them, be they a thousand.
    """
    rows = _LIVE.read_packed(conn, _LIVE_NODES, {"executor": executor_id, "now": now})
    return [_live_node(row) for _, row in rows]


@lru_cache(maxsize=4_000)
def _live_node(packed: Packed) -> Node:
    """Kept, because few of them have changed since the claim before."""
    return node_from_row(_LIVE.unpack(packed))


def live_nodes_of(
    conn: sa.Connection, executor_ids: Iterable[int], *, now: int
) -> dict[int, list[Node]]:
    """The same for several executors, by executor."""
    found: dict[int, list[Node]] = {executor_id: [] for executor_id in executor_ids}
    rows = conn.execute(
        SELECTED_NODE.where(
            node.c.executor_id.in_(sorted(found)),
            node.c.state == NodeState.LIVE.value,
            node.c.lease_expires_at > now,
        ).order_by(node.c.name, node.c.id)
    )
    for row in rows:
        found[row.executor_id].append(node_from_row(row))
    return found
