"""Whether there is anything to sweep, read in one statement: mostly there is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import ADMIN_LEASE_MS, LEASE_MS, NodeState
from tickwheel_admin.domain.runs.run import LIVE, RunState
from tickwheel_admin.store.database.clock import database_now
from tickwheel_admin.store.database.run_conditions import has_state
from tickwheel_admin.store.database.tables import admin, node, run


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCheck:
    """First and last instants at which something ends by itself; None: there is none of them."""

    now: int
    live_runs_deadline_at: int | None
    queued_runs_deadline_at: int | None
    first_node_ends_at: int | None  # of live ones
    last_node_ends_at: int | None
    first_admin_ends_at: int | None
    last_admin_ends_at: int | None
    ended_nodes_have_runs: bool

    @property
    def runs_are_late(self) -> bool:
        """Live or queued ones are past their deadline."""
        deadlines = (self.live_runs_deadline_at, self.queued_runs_deadline_at)
        return any(at is not None and at <= self.now for at in deadlines)

    @property
    def nodes_are_over(self) -> bool:
        """The lease of some node is over, or longer than any renewal can make it."""
        return self._is_over(self.first_node_ends_at, self.last_node_ends_at, LEASE_MS)

    @property
    def admins_are_over(self) -> bool:
        """The same of admins."""
        return self._is_over(self.first_admin_ends_at, self.last_admin_ends_at, ADMIN_LEASE_MS)

    def _is_over(self, first_at: int | None, last_at: int | None, lease_ms: int) -> bool:
        if first_at is None or last_at is None:
            return False
        return first_at <= self.now or last_at > self.now + 2 * lease_ms


def _first_deadline(states: Iterable[RunState]) -> sa.ColumnElement[int]:
    """Of runs in these states; one look-up each."""
    firsts = [
        sa.select(run.c.deadline_at)
        .where(has_state(state), run.c.deadline_at.is_not(None))
        .order_by(run.c.deadline_at)
        .limit(1)
        .subquery()
        for state in states
    ]
    each = sa.union_all(*(sa.select(first.c.deadline_at) for first in firsts)).subquery()
    return sa.select(sa.func.min(each.c.deadline_at)).scalar_subquery()


def _one(column: sa.Column[Any], order: sa.ColumnElement[Any], *where: Any) -> Any:
    return sa.select(column).where(*where).order_by(order).limit(1).scalar_subquery()


_ENDS = node.c.lease_expires_at
_LEASE = admin.c.lease_expires_at
_IS_LIVE = node.c.state == NodeState.LIVE.value
_OVER = (NodeState.DEAD.value, NodeState.GONE.value)
_CHECK = sa.select(
    database_now().label("now"),
    _first_deadline(sorted(LIVE)).label("live_runs_deadline_at"),
    _first_deadline([RunState.QUEUED]).label("queued_runs_deadline_at"),
    _one(_ENDS, _ENDS, _IS_LIVE).label("first_node_ends_at"),
    _one(_ENDS, _ENDS.desc(), _IS_LIVE).label("last_node_ends_at"),
    _one(_LEASE, _LEASE, admin.c.gone_at.is_(None)).label("first_admin_ends_at"),
    _one(_LEASE, _LEASE.desc(), admin.c.gone_at.is_(None)).label("last_admin_ends_at"),
    sa.exists().where(node.c.state.in_(_OVER), node.c.in_use > 0).label("ended_nodes_have_runs"),
)


def check_due(conn: sa.Connection) -> DueCheck:
    """What ends next; each part is read from the edge of an index."""
    row = conn.execute(_CHECK).one()
    return DueCheck(
        now=row.now,
        live_runs_deadline_at=row.live_runs_deadline_at,
        queued_runs_deadline_at=row.queued_runs_deadline_at,
        first_node_ends_at=row.first_node_ends_at,
        last_node_ends_at=row.last_node_ends_at,
        first_admin_ends_at=row.first_admin_ends_at,
        last_admin_ends_at=row.last_admin_ends_at,
        ended_nodes_have_runs=bool(row.ended_nodes_have_runs),
    )
