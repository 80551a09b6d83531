"""What is kept here of jobs that move from XXL-JOB or back (domain.xxl_job.take_over)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.xxl_job.take_over import MoveRecord, MoveState
from tickwheel_admin.store.database.tables import xxl_take_over

_IDS_PER_QUERY = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMove:
    """A record, and what it is about."""

    record: MoveRecord
    job_id: int  # here
    trigger_id: int


def read_moves(
    conn: sa.Connection, source: str, their_job_ids: Collection[int], *, lock: bool = False
) -> dict[int, StoredMove]:
    """Records by XXL-JOB's id of the job; those that there are."""
    table = xxl_take_over
    found: dict[int, StoredMove] = {}
    ids = sorted(their_job_ids)
    for start in range(0, len(ids), _IDS_PER_QUERY):
        some = ids[start : start + _IDS_PER_QUERY]
        statement = (
            sa.select(table)
            .where(table.c.source == source, table.c.their_job_id.in_(some))
            .order_by(table.c.their_job_id)
        )
        rows = conn.execute(statement.with_for_update() if lock else statement)
        found |= {row.their_job_id: _move(row) for row in rows}
    return found


def moves_of_source(conn: sa.Connection, source: str) -> dict[int, StoredMove]:
    """All of one installation."""
    table = xxl_take_over
    rows = conn.execute(sa.select(table).where(table.c.source == source))
    return {row.their_job_id: _move(row) for row in rows}


def write_moves(
    conn: sa.Connection,
    source: str,
    moves: Mapping[int, StoredMove],
    *,
    present: Collection[int],
    now: int,
) -> None:
    """Write records, by XXL-JOB's id of the job.

    Args:
        present: those that have a record; it is locked.
    """
    table = xxl_take_over
    for their_id, move in moves.items():
        values = {
            "job_id": move.job_id,
            "trigger_id": move.trigger_id,
            "state": move.record.state.value,
            "next_at": move.record.next_at,
            "their_next_at": move.record.their_next_at,
            "token": move.record.token,
            "changed_at": now,
        }
        if their_id in present:
            conn.execute(
                sa.update(table)
                .where(table.c.source == source, table.c.their_job_id == their_id)
                .values(values)
            )
        else:
            conn.execute(sa.insert(table).values(source=source, their_job_id=their_id, **values))


def _move(row: Any) -> StoredMove:
    return StoredMove(
        record=MoveRecord(
            state=MoveState(row.state),
            next_at=row.next_at,
            their_next_at=row.their_next_at,
            token=row.token,
        ),
        job_id=row.job_id,
        trigger_id=row.trigger_id,
    )
