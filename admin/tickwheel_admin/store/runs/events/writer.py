"""Transactions write the events of what they do to runs, while somebody wants them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.runs.events import (
    EVENTS_PER_ROW,
    RunEvent,
    events_to_json,
    of_deleted,
    of_moves,
    of_new,
)
from tickwheel_admin.domain.runs.run import Move, Run
from tickwheel_admin.store.database.clock import database_now
from tickwheel_admin.store.database.event_interest import wants_events
from tickwheel_admin.store.database.tables import run, run_event_batch

# Inline: no RETURNING, whose answer nobody reads.
_INSERT = (
    sa.insert(run_event_batch)
    .values(at=database_now(), events=sa.bindparam("count"), data=sa.bindparam("json"))
    .inline()
)


def write_moved(conn: sa.Connection, moves: Sequence[Move]) -> None:
    """The events of moves that this transaction has written."""
    if moves and wants_events(conn):
        _write(conn, of_moves(moves))


def write_new(conn: sa.Connection, runs: Sequence[Run]) -> None:
    """The events of runs that this transaction has inserted."""
    if runs and wants_events(conn):
        _write(conn, of_new(runs))


def delete_queued(conn: sa.Connection, condition: sa.ColumnElement[bool]) -> int:
    """Delete queued runs, with their events; returns how many. Their trigger must be locked."""
    if wants_events(conn):
        found = conn.execute(
            sa.select(run.c.id, run.c.job_id, run.c.executor_id, run.c.origin)
            .where(condition)
            .order_by(run.c.id)
            .with_for_update()
        ).all()
        if not found:
            return 0
        _write(
            conn,
            [
                of_deleted(
                    run_id=row.id,
                    job_id=row.job_id,
                    executor_id=row.executor_id,
                    origin=row.origin,
                )
                for row in found
            ],
        )
        condition = sa.and_(condition, run.c.id.in_([row.id for row in found]))
    return conn.execute(sa.delete(run).where(condition)).rowcount


def _write(conn: sa.Connection, events: Sequence[RunEvent]) -> None:
    for first in range(0, len(events), EVENTS_PER_ROW):
        some = events[first : first + EVENTS_PER_ROW]
        conn.execute(_INSERT, {"count": len(some), "json": events_to_json(some)})
