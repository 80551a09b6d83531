"""Nodes, who hears them, and their leases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.node import CLOSED_LEASE_MS, LEASE_MS, Node, NodeState
from tickwheel_admin.domain.run import LIVE
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.handler_schemas import has_schemas
from tickwheel_admin.store.tables import admin, node, node_session, run

_LIVE_RUNS = sorted(state.value for state in LIVE)
_OVER = (NodeState.DEAD.value, NodeState.GONE.value)

# A node's row but for the names of its declared jobs, which may be long and decide nothing here.
SELECTED_NODE = sa.select(*(column for column in node.c if column is not node.c.declared))


@lru_cache(maxsize=500)
def _names(text: str) -> frozenset[str]:
    """Names from JSON; hundreds of nodes of an executor say the same ones."""
    return frozenset(msgspec.json.decode(text, type=list[str]))


def node_from_row(row: Any) -> Node:
    """A domain node from a row with all columns of the table."""
    return Node(
        id=row.id,
        executor_id=row.executor_id,
        name=row.name,
        state=NodeState(row.state),
        draining=bool(row.draining),
        cordoned=bool(row.cordoned),
        drain_wanted=bool(row.drain_wanted),
        slots=row.slots,
        in_use=row.in_use,
        weight=row.weight,
        handlers=_names(row.handlers),
        unstoppable=_names(row.unstoppable),
        labels=msgspec.json.decode(row.labels, type=dict[str, str]),
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
    is_looked_at: bool  # what it says of its code
    connected_at: int  # of its first hello
    now: int


def admit_node(
    conn: sa.Connection, arrival: Arrival, *, new_id: int, admin_id: int, session_id: int
) -> StoredArrival:
    """Store the node, or bring it back to life, with a session at this admin."""
    now = now_ms(conn)
    said = {
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
    row = conn.execute(
        sa.select(
            node.c.id,
            node.c.slots_wanted,
            node.c.weight_wanted,
            node.c.connected_at,
            node.c.declared.is_not(None).label("is_looked_at"),
        )
        .where(node.c.executor_id == arrival.executor_id, node.c.node_key == arrival.node_key)
        .with_for_update()
    ).one_or_none()
    # A process that says nothing may still take back what one before it said.
    is_looked_at = not arrival.has_code and not has_schemas(conn, arrival.executor_id)
    if row is None:
        node_id = new_id
        conn.execute(
            sa.insert(node).values(
                id=node_id,
                executor_id=arrival.executor_id,
                node_key=arrival.node_key,
                draining=False,
                cordoned=False,
                drain_wanted=False,
                in_use=0,
                connected_at=now,
                declared="[]" if is_looked_at else None,
                **said,
            )
        )
    else:
        node_id = row.id
        said["slots"] = row.slots_wanted or arrival.slots
        said["weight"] = row.weight_wanted or arrival.weight
        conn.execute(sa.update(node).where(node.c.id == node_id).values(**said))
    conn.execute(
        sa.delete(node_session).where(
            node_session.c.node_id == node_id, node_session.c.admin_id == admin_id
        )
    )
    conn.execute(
        sa.insert(node_session).values(
            node_id=node_id, admin_id=admin_id, session_id=session_id, connected_at=now
        )
    )
    return StoredArrival(
        node_id=node_id,
        slots_wanted=None if row is None else row.slots_wanted,
        is_new=row is None,
        is_looked_at=is_looked_at if row is None else bool(row.is_looked_at),
        connected_at=now if row is None else row.connected_at,
        now=now,
    )


def open_namesakes(conn: sa.Connection, arrival: Arrival, *, node_id: int) -> list[str]:
    """Addresses of other live nodes of the executor that have the same name and a socket."""
    rows = conn.execute(
        sa.select(node.c.address)
        .where(
            node.c.executor_id == arrival.executor_id,
            node.c.state == NodeState.LIVE.value,
            node.c.name == arrival.name,
            node.c.id != node_id,
            # A killed process is live for some seconds, but nobody hears it.
            sa.exists().where(node_session.c.node_id == node.c.id),
        )
        .order_by(node.c.id)
        .limit(5)
    )
    return list(rows.scalars())


def end_session(conn: sa.Connection, *, node_id: int, session_id: int) -> None:
    """A socket closed: shorten the lease unless another live admin still hears the node."""
    # All sockets of a killed process close at once, and who comes second must see that the first
    # has gone: the node's row is locked before. A millisecond less, for a lock must be a write.
    conn.execute(
        sa.update(node)
        .where(node.c.id == node_id)
        .values(lease_expires_at=node.c.lease_expires_at - 1)
    )
    ended = conn.execute(
        sa.delete(node_session).where(
            node_session.c.node_id == node_id, node_session.c.session_id == session_id
        )
    )
    if ended.rowcount == 0:
        return  # a newer socket of the same node took its place
    now = now_ms(conn)
    heard = conn.execute(
        sa.select(node_session.c.admin_id)
        .join(admin, admin.c.id == node_session.c.admin_id)
        .where(node_session.c.node_id == node_id, admin.c.lease_expires_at > now)
        .limit(1)
    ).one_or_none()
    if heard is None:
        conn.execute(
            sa.update(node)
            .where(
                node.c.id == node_id,
                node.c.state == NodeState.LIVE.value,
                node.c.lease_expires_at > now + CLOSED_LEASE_MS,
            )
            .values(lease_expires_at=now + CLOSED_LEASE_MS)
        )


def set_draining(conn: sa.Connection, *, node_id: int, draining: bool) -> None:
    """Note whether the node takes new runs."""
    conn.execute(sa.update(node).where(node.c.id == node_id).values(draining=draining))


def say_goodbye(conn: sa.Connection, *, node_id: int) -> None:
    """The node holds nothing any more and leaves at once."""
    conn.execute(
        sa.update(node)
        .where(node.c.id == node_id, node.c.state == NodeState.LIVE.value)
        .values(state=NodeState.GONE.value, ended_at=now_ms(conn))
    )


def renew_leases(conn: sa.Connection, node_ids: Iterable[int], *, admin_id: int) -> set[int]:
    """Extend the leases of live nodes that this admin has sessions with; returns them."""
    # Locked in the order in which claims and results lock nodes: PostgreSQL updates them in the
    # order of its pages, and takes a second to notice the deadlock.
    live = set(
        conn.execute(
            sa.select(node.c.id)
            .where(node.c.id.in_(sorted(node_ids)), node.c.state == NodeState.LIVE.value)
            .order_by(node.c.id)
            .with_for_update()
        ).scalars()
    )
    if live:
        # Read under the locks: a socket may have closed since the admin last looked, and what it
        # said before must not give back the lease that its end has shortened.
        live &= set(
            conn.execute(
                sa.select(node_session.c.node_id).where(
                    node_session.c.admin_id == admin_id, node_session.c.node_id.in_(sorted(live))
                )
            ).scalars()
        )
    if live:
        conn.execute(
            sa.update(node)
            .where(node.c.id.in_(sorted(live)))
            .values(lease_expires_at=now_ms(conn) + LEASE_MS, full_lease_at=now_ms(conn) + LEASE_MS)
        )
    return live


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
    ids = list(
        conn.execute(
            sa.select(node.c.id)
            .where(over)
            .order_by(node.c.id)
            .limit(500)
            .with_for_update(skip_locked=True)
        ).scalars()
    )
    if ids:
        conn.execute(
            sa.update(node)
            .where(node.c.id.in_(ids), over)
            .values(state=NodeState.DEAD.value, ended_at=now)
        )
        conn.execute(sa.delete(node_session).where(node_session.c.node_id.in_(ids)))
    return ids


_FIRST_END = (
    sa.select(node.c.lease_expires_at)
    .where(node.c.state == NodeState.LIVE.value)
    .order_by(node.c.lease_expires_at)
    .limit(1)
)


def lease_ends_in(conn: sa.Connection) -> int | None:
    """Milliseconds until the first lease of a live node ends; None: there is no live node."""
    first_end = conn.execute(_FIRST_END).scalar_one_or_none()
    return None if first_end is None else int(first_end) - now_ms(conn)


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


_LIVE_NODES = SELECTED_NODE.where(
    node.c.executor_id == sa.bindparam("executor"),
    node.c.state == NodeState.LIVE.value,
    node.c.lease_expires_at > sa.bindparam("now"),
).order_by(node.c.name, node.c.id)


def live_nodes(conn: sa.Connection, executor_id: int, *, now: int) -> list[Node]:
    """Nodes of the executor that may be given runs, by name."""
    rows = conn.execute(_LIVE_NODES, {"executor": executor_id, "now": now})
    return [node_from_row(row) for row in rows]


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


_TAKE_SLOTS = (
    sa.update(node)
    .where(
        node.c.id == sa.bindparam("node"),
        node.c.state == NodeState.LIVE.value,
        node.c.draining.is_(False),
        node.c.cordoned.is_(False),
        node.c.lease_expires_at > sa.bindparam("now"),
        node.c.in_use + sa.bindparam("count") <= node.c.slots,
    )
    .values(in_use=node.c.in_use + sa.bindparam("count"))
)


def take_slots(conn: sa.Connection, *, node_id: int, count: int, now: int) -> bool:
    """Take `count` slots of a node that is live and has them; the row stays locked."""
    taken = conn.execute(_TAKE_SLOTS, {"node": node_id, "count": count, "now": now})
    return taken.rowcount == 1


def miscounted_nodes(conn: sa.Connection) -> list[int]:
    """Nodes whose `in_use` differs from their live runs; a hint, read without locks."""
    counted = (
        sa.select(run.c.node_id, sa.func.count().label("runs"))
        .where(run.c.state.in_(_LIVE_RUNS))
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
        sa.select(sa.func.count())
        .select_from(run)
        .where(run.c.state.in_(_LIVE_RUNS), run.c.node_id == node_id)
    ).scalar_one()
    conn.execute(sa.update(node).where(node.c.id == node_id).values(in_use=count))
