"""Deletes rows that are past their retention, in small batches."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.runs.run import FINAL, WORKFLOW, Origin, RunState
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.run_conditions import listed_as
from tickwheel_admin.store.database.tables import (
    job_node,
    node,
    run,
    run_attempt,
    run_checkpoint,
    run_log,
    run_retry,
    session,
)
from tickwheel_admin.store.jobs.revisions import delete_tries
from tickwheel_admin.store.runs.due import is_anything_due
from tickwheel_admin.store.self_audit.periods import keep_retained
from tickwheel_admin.store.workflows.steps import delete_steps

RUNS_PER_BATCH = 200
REST_FACTOR = 2
QUIET_REST_FACTOR = 0.25
DUE_SOON_MS = 250  # some batches take as long
LONGEST_REST_SECONDS = 5.0  # a request rests, too, and whoever waits for it does not for ever
LINES_PER_BATCH = 20_000  # of logs, which take as long as 200 runs do
MINUTE_MS = 60_000
SESSION_KEPT_MS = 86_400_000  # longer than any session can be used


_workflow = run.alias("workflow")
_retry = run.alias("retry")
_OPEN_VALUES = sorted(state.value for state in frozenset(RunState) - FINAL)


def rest_after(seconds: float, *, is_quiet: bool) -> float:
    """How long to rest after a batch that took so long; whoever deletes very many runs does.

    Otherwise fires that are due meanwhile would be several times as late: each waits for the
    database, and for SQLite's one writer.

    Args:
        is_quiet: no run is due within `DUE_SOON_MS`; the rest is for pages and requests.
    """
    factor = QUIET_REST_FACTOR if is_quiet else REST_FACTOR
    return min(factor * seconds, LONGEST_REST_SECONDS)


def is_quiet(conn: sa.Connection) -> bool:
    """Whether no fire would wait for the next batch."""
    return not is_anything_due(conn, within_ms=DUE_SOON_MS)


def _has_open_retry(run_id: sa.ColumnElement[int | None]) -> sa.ColumnElement[bool]:
    return sa.exists().where(
        run_retry.c.run_id == run_id,
        _retry.c.id == run_retry.c.retry_id,
        unindexed(_retry.c.state).in_(_OPEN_VALUES),
    )


NOT_NEEDED = sa.and_(
    sa.or_(
        run.c.origin != Origin.STEP.value,
        sa.not_(
            sa.or_(
                sa.exists().where(
                    _workflow.c.id == run.c.parent_run_id,
                    unindexed(_workflow.c.state).in_(_OPEN_VALUES),
                ),
                _has_open_retry(run.c.parent_run_id),  # it may have taken over what it brought
            )
        ),
    ),
    sa.or_(run.c.shard_index != WORKFLOW, sa.not_(_has_open_retry(run.c.id))),
)
"""Of runs: no workflow that has not ended reads their results, or counts them."""

_OWNERS = sa.select(run.c.parent_run_id).where(
    among(run.c.id, "ids"), run.c.origin == Origin.STEP.value, run.c.parent_run_id.is_not(None)
)
_LOCK = sa.select(run.c.id).where(among(run.c.id, "ids")).order_by(run.c.id).with_for_update()
_UNNEEDED = sa.select(run.c.id).where(among(run.c.id, "ids"), NOT_NEEDED)


def lock_unneeded(conn: sa.Connection, ids: Collection[int]) -> set[int]:
    """Lock these runs, and the workflows that they are steps of; those that nobody needs.

    A retry that takes results over locks the same workflows: it comes before, and they are needed,
    or afterwards, and finds them gone.
    """
    if not ids:
        return set()
    owners = conn.execute(_OWNERS, {"ids": sorted(ids)}).scalars()
    conn.execute(_LOCK, {"ids": sorted({*ids, *owners})}).all()
    # A statement of its own: it must see what was committed before the locks were free.
    return set(conn.execute(_UNNEEDED, {"ids": sorted(ids)}).scalars())


def _oldest(state: RunState) -> sa.Select[tuple[int, int, int]]:
    """The oldest of a state, which is one range of the index."""
    return (
        sa.select(run.c.id, run.c.log_lines, run.c.scheduled_at)
        .where(listed_as(state), run.c.scheduled_at < sa.bindparam("until"), NOT_NEEDED)
        .order_by(run.c.scheduled_at)
        .limit(sa.bindparam("most"))
    )


_OF_EACH_STATE = sa.union_all(
    *(sa.select(_oldest(state).subquery()) for state in sorted(FINAL))
).subquery()
_OLDEST = (
    sa.select(_OF_EACH_STATE)
    .order_by(_OF_EACH_STATE.c.scheduled_at, _OF_EACH_STATE.c.id)
    .limit(sa.bindparam("most"))
)
# What has more rows than other runs do, which few have.
_SPECIAL = sa.select(run.c.id, run.c.job_id, run.c.job_revision, run.c.shard_index).where(
    among(run.c.id, "ids"), sa.or_(run.c.job_revision < 0, run.c.shard_index == WORKFLOW)
)
_DELETIONS = [
    sa.delete(column.table).where(among(column, "ids"))
    for column in (
        run_log.c.run_id,
        run_attempt.c.run_id,
        run_checkpoint.c.run_id,
        run_retry.c.run_id,  # links that lead to a deleted run stay, and say how it ended
        run.c.id,
    )
]


def remove_old_runs(conn: sa.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete ended runs scheduled longer ago, with all that belongs to them; returns how many.

    Those of steps stay until their workflow has ended, which may need their results.

    Fewer than `limit` when their logs are long, but one at least.
    """
    until = now_ms(conn) - older_than_ms
    found = conn.execute(_OLDEST, {"until": until, "most": limit}).all()
    so_far = itertools.accumulate(row.log_lines for row in found)
    ids = [
        row.id
        for place, (row, lines) in enumerate(zip(found, so_far, strict=True))
        if lines <= LINES_PER_BATCH or place == 0
    ]
    unneeded = lock_unneeded(conn, ids)
    if unneeded:
        # Ahead by a part of a minute, so that not every batch has to write it.
        keep_retained(conn, kept_from=-(-until // MINUTE_MS) * MINUTE_MS)
    delete_runs(conn, sorted(unneeded))
    return len(unneeded)


def delete_runs(conn: sa.Connection, ids: Sequence[int]) -> None:
    """Delete ended runs with all that belongs to them; the runs of their steps stay."""
    if ids:
        special = conn.execute(_SPECIAL, {"ids": ids}).all()
        delete_tries(conn, [row for row in special if row.job_revision < 0])
        workflow_ids = [row.id for row in special if row.shard_index == WORKFLOW]
        if workflow_ids:
            delete_steps(conn, workflow_ids)
        for statement in _DELETIONS:
            conn.execute(statement, {"ids": ids})


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
