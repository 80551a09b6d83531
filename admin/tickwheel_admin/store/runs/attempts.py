"""Ended attempts: archived by a move, and what becomes of their late results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import (
    Attempt,
    Move,
    RunState,
)
from tickwheel_admin.store.database.batch import insert_values, update_rows
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import run_attempt

_ATTEMPT_COLUMNS = Attempt.__struct_fields__

_ATTEMPT_VALUES = attrgetter(*_ATTEMPT_COLUMNS)


def archive_attempts(conn: sa.Connection, moves: Sequence[Move]) -> None:
    insert_values(
        conn,
        run_attempt,
        [_ATTEMPT_VALUES(move.archived) for move in moves if move.archived is not None],
        columns=_ATTEMPT_COLUMNS,
        replace_duplicates_of=("run_id", "attempt"),
    )
    for move in moves:
        if move.unarchived:
            conn.execute(
                sa.delete(run_attempt).where(
                    run_attempt.c.run_id == move.after.id,
                    run_attempt.c.attempt == move.after.attempt,
                )
            )


def keep_late_results(
    conn: sa.Connection, results: Sequence[tuple[int, int, str, str]], *, now: int
) -> None:
    """Note what became of archived attempts after all: (run, attempt, outcome, message)."""
    update_rows(
        conn,
        run_attempt,
        [
            {
                "run_id": run_id,
                "attempt": attempt,
                "late_outcome": outcome,
                "late_message": message or None,
                "late_at": now,
            }
            for run_id, attempt, outcome, message in results
        ],
        match=("run_id", "attempt"),
        values=("late_outcome", "late_message", "late_at"),
        # A result that was recorded in time may come again, when its receipt was lost.
        where="t.state IN ('lost', 'timed_out') AND t.late_at IS NULL",
    )


def attempt_tokens(
    conn: sa.Connection, attempts: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str | None]:
    """Claim tokens of archived attempts, by (run, attempt)."""
    wanted = set(attempts)
    if not wanted:  # nearly always
        return {}
    rows = conn.execute(
        sa.select(run_attempt.c.run_id, run_attempt.c.attempt, run_attempt.c.claim_token).where(
            run_attempt.c.run_id.in_(sorted({run_id for run_id, _ in wanted}))
        )
    )
    return {
        (row.run_id, row.attempt): row.claim_token
        for row in rows
        if (row.run_id, row.attempt) in wanted
    }


def lost_before(conn: sa.Connection, run_ids: Collection[int]) -> set[int]:
    """Those of these runs that have lost an attempt."""
    rows = conn.execute(_LOST_BEFORE, {"runs": sorted(run_ids)})
    return set(rows.scalars())


_LOST_BEFORE = sa.select(run_attempt.c.run_id).where(
    among(run_attempt.c.run_id, "runs"),
    run_attempt.c.state == RunState.LOST.value,
)
