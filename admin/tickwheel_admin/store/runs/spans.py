"""Notes of ended runs that were there long, or at another time than their instant."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from tickwheel_admin.domain.as_of.spans import length_of, needs_note
from tickwheel_admin.domain.runs.run import Move
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.tables import run_span

_COLUMNS = ("run_id", "length", "from_at", "ended_at", "executor_id", "job_id")


def note_spans(conn: sa.Connection, moves: Iterable[Move]) -> None:
    """Note those of the runs that have ended and were there long; mostly there are none."""
    rows = [
        {
            "run_id": after.id,
            "length": length_of((after.ended_at or 0) - after.created_at),
            "from_at": after.created_at,
            "ended_at": after.ended_at,
            "executor_id": after.executor_id,
            "job_id": after.job_id,
        }
        for after in (move.after for move in moves)
        if after.ended_at is not None and needs_note(after)
    ]
    # A late result may end a lost run another time.
    insert_rows(conn, run_span, rows, columns=_COLUMNS, replace_duplicates_of=("run_id",))


def remove_old_spans(conn: sa.Connection, *, before: int, limit: int) -> int:
    """Delete notes of runs that ended before an instant; returns how many."""
    old = (
        sa.select(run_span.c.run_id)
        .where(run_span.c.ended_at < before)
        .order_by(run_span.c.ended_at)
        .limit(limit)
    )
    ids = conn.execute(old).scalars().all()
    if ids:
        conn.execute(sa.delete(run_span).where(run_span.c.run_id.in_(ids)))
    return len(ids)
