"""Deletes rows that are past their retention, in small batches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.tables import (
    job_node,
    node,
    run,
    run_attempt,
    run_checkpoint,
    run_log,
    session,
)
from tickwheel_admin.store.jobs.revisions import delete_tries
from tickwheel_admin.store.runs.retries import forget_retries

LINES_PER_BATCH = 200_000  # of logs: otherwise SQLite blocks other writers for seconds
SESSION_KEPT_MS = 86_400_000  # longer than any session can be used


def remove_old_runs(conn: sa.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete ended runs scheduled longer ago, with all that belongs to them; returns how many.

    Fewer than `limit` when their logs are long, but one at least.
    """
    until = now_ms(conn) - older_than_ms
    found: list[tuple[int, int]] = []  # id, lines of its log
    for state in sorted(state.value for state in FINAL):  # each state is one range of the index
        rows = conn.execute(
            sa.select(run.c.id, run.c.log_lines)
            .where(run.c.state == state, run.c.scheduled_at < until)
            .order_by(run.c.scheduled_at)
            .limit(limit - len(found))
        )
        found += [(row.id, row.log_lines) for row in rows]
        if len(found) == limit:
            break
    so_far = itertools.accumulate(lines for _, lines in found)
    ids = [
        run_id
        for place, ((run_id, _), lines) in enumerate(zip(found, so_far, strict=True))
        if lines <= LINES_PER_BATCH or place == 0
    ]
    delete_runs(conn, ids)
    return len(ids)


def delete_runs(conn: sa.Connection, ids: Sequence[int]) -> None:
    """Delete ended runs with their attempts, logs, checkpoints and links to their retries."""
    if ids:
        delete_tries(conn, ids)
        for table in (run_log, run_attempt, run_checkpoint):
            conn.execute(sa.delete(table).where(table.c.run_id.in_(ids)))
        forget_retries(conn, ids)
        conn.execute(sa.delete(run).where(run.c.id.in_(ids)))


def remove_ended_nodes(conn: sa.Connection, *, older_than_ms: int, limit: int) -> int:
    """Forget nodes that ended longer ago than that, and what jobs noted of them; runs keep their
    ids.
    """
    ids = list(
        conn.execute(
            sa.select(node.c.id)
            .where(
                node.c.state.in_((NodeState.DEAD.value, NodeState.GONE.value)),
                node.c.lease_expires_at < now_ms(conn) - older_than_ms,
                node.c.in_use == 0,
            )
            .limit(limit)
        ).scalars()
    )
    if ids:
        conn.execute(sa.delete(job_node).where(job_node.c.node_id.in_(ids)))
        conn.execute(sa.delete(node).where(node.c.id.in_(ids)))
    return len(ids)


def remove_stale_sessions(conn: sa.Connection, *, limit: int) -> int:
    """Delete sessions that cannot be used any more."""
    ids = list(
        conn.execute(
            sa.select(session.c.id_hash)
            .where(session.c.seen_at < now_ms(conn) - SESSION_KEPT_MS)
            .limit(limit)
        ).scalars()
    )
    if ids:
        conn.execute(sa.delete(session).where(session.c.id_hash.in_(ids)))
    return len(ids)
