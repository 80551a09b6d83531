"""What changes when a backup is restored: nothing that was going on then goes on now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.notification import NotificationState
from tickwheel_admin.domain.backfills.backfill import BackfillState
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.runs.reasons import RESTORED
from tickwheel_admin.domain.runs.run import FINAL, RunState
from tickwheel_admin.store.backup.contents import columns_of
from tickwheel_admin.store.database import tables as t

Row = dict[str, Any]

ID_GAP = 1_000_000
"""Numbers of runs and nodes are passed over: since the backup, some were given out that nodes,
people and other programs still know."""
_WITH_GAP = frozenset({"run", "node", "node_session", "admin"})


def adjusted(
    table: sa.Table, rows: Sequence[Sequence[Any]], *, now: int, paused_at: int | None
) -> list[tuple[Any, ...]]:
    """The rows as they are restored; fewer, when some are not.

    Args:
        now: the time of the database.
        paused_at: fires after this instant do not run; None: as the backup says.
    """
    names = [column.name for column in columns_of(table)]
    adjust = _ADJUST.get(table.name)
    if table is t.setting and paused_at is not None:
        rows = [row for row in rows if row[0] != "paused_at"]
    if adjust is None:
        return [tuple(row) for row in rows]
    changed = (adjust(dict(zip(names, row, strict=True)), now) for row in rows)
    return [tuple(row.values()) for row in changed if row is not None]


def _id_block(row: Row, _now: int) -> Row:
    gap = ID_GAP if row["name"] in _WITH_GAP else 0
    return row | {"next_id": row["next_id"] + gap}


def _job_state(row: Row, _now: int) -> Row:
    return row | {"lent_run_id": None, "lent_attempt": None}


def _pool(row: Row, _now: int) -> Row:
    reserved = ("reserved_run_id", "reserved_rank", "reserved_slots", "reserved_until")
    return row | dict.fromkeys(reserved)


def _xxl_address(row: Row, _now: int) -> Row:
    return row | {"node_id": None, "beat_at": None}


def _node(row: Row, now: int) -> Row:
    if row["state"] != NodeState.LIVE:
        return row
    return row | {
        "state": NodeState.DEAD.value,
        "in_use": 0,
        "ended_at": now,
        "lease_expires_at": min(row["lease_expires_at"], now),
        "full_lease_at": min(row["full_lease_at"], now),
    }


def _run(row: Row, now: int) -> Row:
    if row["state"] in FINAL:
        return row
    # It may have ended since, and been repeated; to start it again would do its work twice.
    state = RunState.CANCELLED if row["state"] == RunState.QUEUED else RunState.LOST
    return row | {
        "state": state.value,
        "reason": RESTORED,
        "ended_at": now,
        "deadline_at": None,
        "blocking_key": None,
    }


def _backfill(row: Row, now: int) -> Row:
    if row["ended_at"] is not None:
        return row
    return row | {"state": BackfillState.CANCELLED.value, "ended_at": now}


def _notification(row: Row, _now: int) -> Row | None:
    return row if row["state"] in _TOLD else None  # people need no news of that time


_TOLD = frozenset({NotificationState.DELIVERED.value, NotificationState.DEAD.value})
_ADJUST: Mapping[str, Callable[[Row, int], Row | None]] = {
    t.id_block.name: _id_block,
    t.job_state.name: _job_state,
    t.pool.name: _pool,
    t.xxl_address.name: _xxl_address,
    t.node.name: _node,
    t.run.name: _run,
    t.backfill.name: _backfill,
    t.notification.name: _notification,
}
