"""How triggers, pauses and calendars stood before they were edited: the self-audit reads it.

A row is written by each edit that changes what a trigger does. Planning writes none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.tables import (
    calendar_period,
    node_period,
    pause_period,
    run_purge,
    setting,
    trigger,
    trigger_period,
)

_FROM_TRIGGER = ("version", "job_id", "executor_id", "spec", "since_at", "state", "paused")
_COLUMNS = (
    "trigger_id", "saved_at", "until_at", "planned_to", *_FROM_TRIGGER, "next_fire_at",
    "last_fire_at",
)  # fmt: skip

_KEPT_FROM = "runs_kept_from"  # name of the setting
REMEMBERED_MS = 9 * 86_400_000  # so long the past is kept: an hour is audited within eight days


def end_periods(
    conn: sa.Connection,
    trigger_ids: Collection[int],
    *,
    now: int,
    planned_to_now: bool,
    last_fire_at: int | None = None,
) -> None:
    """Keep how triggers stand until `now`. Whoever calls this changes or deletes them next.

    Args:
        planned_to_now: all fires up to now are written; if not, those before the next fire are.
        last_fire_at: what their last fire is without those that were taken back; None: as stored.
    """
    if not trigger_ids:
        return
    planned_to: sa.ColumnElement[int] = sa.literal(now)
    if not planned_to_now:
        at = trigger.c.next_fire_at
        planned_to = sa.case((at <= now, at - 1), else_=now)
    last_at: sa.ColumnElement[int | None] = trigger.c.last_fire_at
    if last_fire_at is not None:
        last_at = sa.literal(last_fire_at)
    conn.execute(
        sa.insert(trigger_period).from_select(
            _COLUMNS,
            sa.select(
                trigger.c.id,
                trigger.c.created_at,
                sa.literal(now),
                planned_to,
                *(trigger.c[name] for name in _FROM_TRIGGER),
                trigger.c.next_fire_at,
                last_at,
            ).where(trigger.c.id.in_(sorted(trigger_ids))),
        )
    )


def begin_periods(conn: sa.Connection, since: Mapping[int, int], *, now: int) -> None:
    """End periods of triggers whose fires up to now are planned, and begin new ones.

    Args:
        since: by trigger, after which instant it is planned from now on.
    """
    end_periods(conn, list(since), now=now, planned_to_now=True)
    for trigger_id, since_at in sorted(since.items()):
        conn.execute(sa.update(trigger).where(trigger.c.id == trigger_id).values(since_at=since_at))


def keep_pause(conn: sa.Connection, executor_id: int, *, paused_at: int, resumed_at: int) -> None:
    """Keep that an executor, or everything (0), was paused."""
    row = {"executor_id": executor_id, "paused_at": paused_at, "resumed_at": resumed_at}
    insert_rows(
        conn,
        pause_period,
        [row],
        columns=tuple(row),
        replace_duplicates_of=("executor_id", "paused_at"),
    )


def keep_purged(conn: sa.Connection, runs: Iterable[Any]) -> None:
    """Keep between which instants runs of each job are deleted: coverage calls these no holes.

    Args:
        runs: rows with job_id, scheduled_at and what they told of missed fires, if any.
    """
    spans: dict[int, tuple[int, int]] = {}
    for row in runs:
        low, high = spans.get(row.job_id, (row.scheduled_at, row.scheduled_at))
        spans[row.job_id] = min(low, _first_told(row)), max(high, row.scheduled_at)
    insert_rows(
        conn,
        run_purge,
        [{"job_id": each, "from_at": low, "to_at": high} for each, (low, high) in spans.items()],
        columns=("job_id", "from_at", "to_at"),
        ignore_duplicates_of=("job_id", "from_at", "to_at"),
    )


def keep_retained(conn: sa.Connection, *, kept_from: int) -> None:
    """Keep that ended runs which were scheduled before an instant are deleted.

    Should the retention become longer later, the audit knows what it does not find.
    """
    if retained_from(conn) < kept_from:
        value = str(kept_from)
        own = sa.update(setting).where(setting.c.name == _KEPT_FROM)
        if not conn.execute(own.values(value=value)).rowcount:
            # A race between two admins ends in a duplicate key; the loser is repeated.
            conn.execute(sa.insert(setting).values(name=_KEPT_FROM, value=value))


def retained_from(conn: sa.Connection) -> int:
    """Since when runs are kept, UTC epoch ms; 0: retention has deleted none."""
    named = sa.select(setting.c.value).where(setting.c.name == _KEPT_FROM)
    return int(conn.execute(named).scalar_one_or_none() or 0)


def _first_told(row: Any) -> int:
    """The first instant that a run accounts for: one of missed fires stands for those before it."""
    try:
        return min(int(json.loads(row.told or "{}")["from"]), int(row.scheduled_at))
    except (ValueError, KeyError, TypeError):
        return int(row.scheduled_at)


def forget_past(conn: sa.Connection, *, now: int, limit: int) -> int:
    """Delete what nobody asks for any more; returns how many rows, at most `limit` a table.

    What people had deleted is kept until the retention of runs has come so far: coverage asks.
    """
    audited = now - REMEMBERED_MS
    removed = 0
    for table, ended, before in (
        (trigger_period, trigger_period.c.until_at, audited),
        (pause_period, pause_period.c.resumed_at, audited),
        (calendar_period, calendar_period.c.until_at, audited),
        (node_period, node_period.c.until_at, audited),
        (run_purge, run_purge.c.to_at, min(audited, retained_from(conn))),
    ):
        keys = list(table.primary_key.columns)
        rows = conn.execute(sa.select(*keys).where(ended < before).order_by(ended).limit(limit))
        for row in rows.all():
            same = (key == value for key, value in zip(keys, row, strict=True))
            removed += conn.execute(sa.delete(table).where(*same)).rowcount
    return removed
