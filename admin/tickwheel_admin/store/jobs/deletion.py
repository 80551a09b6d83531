"""Deleting the jobs of an executor, some at a time, and what an executor leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import TIMEOUT, WORKFLOW
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.run_conditions import IS_LIVE, queued_for
from tickwheel_admin.store.database.tables import ALIVE, executor, job, run, trigger
from tickwheel_admin.store.jobs.jobs import ROUND
from tickwheel_admin.store.jobs.secret_uses import forget_secret_uses
from tickwheel_admin.store.self_audit.periods import end_periods


def lock_some_jobs(conn: sa.Connection, executor_id: int, *, limit: int) -> dict[int, str]:
    """Names of some of the executor's jobs by id; no other edit of them goes on meanwhile."""
    rows = conn.execute(
        sa.select(job.c.id, job.c.name)
        .where(job.c.executor_id == executor_id, job.c.deleted_at == ALIVE)
        .order_by(job.c.id)
        .limit(limit)
        .with_for_update()
    )
    names = {row.id: row.name for row in rows}
    if names:
        # A write, so that the lock holds on clusters whose row locks are local (`jobs.lock_job`).
        turned = sa.update(job).where(job.c.id.in_(names))
        conn.execute(turned.values(route_cursor=job.c.route_cursor + ROUND))
    return names


def delete_triggers_of_jobs(conn: sa.Connection, job_ids: Sequence[int]) -> None:
    """Remove all triggers of locked jobs; planning them waits."""
    ids = list(
        conn.execute(
            sa.select(trigger.c.id)
            .where(trigger.c.job_id.in_(job_ids))
            .order_by(trigger.c.id)
            .with_for_update()
        ).scalars()
    )
    if ids:
        end_periods(conn, ids, now=now_ms(conn), planned_to_now=False)
        conn.execute(sa.delete(trigger).where(trigger.c.id.in_(ids)))


def unclaimed_runs(
    conn: sa.Connection, *, executor_id: int, job_ids: Sequence[int], limit: int
) -> list[int]:
    """Ids of queued runs of these jobs that were never claimed; reads what the executor has
    waiting.
    """
    rows = conn.execute(
        sa.select(run.c.id)
        .where(
            queued_for(executor_id),
            run.c.job_id.in_(job_ids),
            run.c.attempt == 0,
        )
        .limit(limit)
    )
    return list(rows.scalars())


def pause_jobs(conn: sa.Connection, job_ids: Sequence[int], *, now: int) -> None:
    """Note that these jobs are paused."""
    conn.execute(sa.update(job).where(job.c.id.in_(job_ids)).values(paused=True, updated_at=now))


def delete_jobs(conn: sa.Connection, job_ids: Sequence[int], *, now: int) -> None:
    """Mark them deleted; their names are free again, their runs and revisions stay."""
    conn.execute(sa.update(job).where(job.c.id.in_(job_ids)).values(deleted_at=now, updated_at=now))
    forget_secret_uses(conn, job_ids)


def waiting_runs(conn: sa.Connection, executor_id: int, *, limit: int) -> list[int]:
    """Ids of queued runs of the executor, also of those that wait for another try."""
    return list(
        conn.execute(sa.select(run.c.id).where(queued_for(executor_id)).limit(limit)).scalars()
    )


def runs_of_deleted_executors(conn: sa.Connection, *, limit: int) -> list[int]:
    """Ids of queued runs for which no node can come; one look-up for each deleted executor."""
    # Not EXISTS, which may be turned round: then all queued runs there are would be read.
    first_at = sa.select(sa.func.min(run.c.due_at)).where(queued_for(executor.c.id))
    deleted = sa.select(executor.c.id).where(
        executor.c.deleted_at != ALIVE, first_at.scalar_subquery().is_not(None)
    )
    found: list[int] = []
    for executor_id in conn.execute(deleted.limit(limit)).scalars().all():
        found += waiting_runs(conn, executor_id, limit=limit - len(found))
        if len(found) == limit:
            break
    return found


def unstopped_workflows(conn: sa.Connection, executor_id: int, *, limit: int) -> list[int]:
    """Those of them that are runs of workflows; reads what is live of the executor."""
    return _unstopped(conn, executor_id, unindexed(run.c.shard_index) == WORKFLOW, limit=limit)


def unstopped_runs(conn: sa.Connection, executor_id: int, *, limit: int) -> list[int]:
    """Ids of live runs of the executor that were not asked to stop."""
    return _unstopped(conn, executor_id, limit=limit)


def _unstopped(
    conn: sa.Connection, executor_id: int, *which: sa.ColumnElement[bool], limit: int
) -> list[int]:
    unstopped = sa.or_(run.c.cancel_reason.is_(None), run.c.cancel_reason == TIMEOUT)
    of_executor = (run.c.executor_id == executor_id, IS_LIVE, unstopped, *which)
    return list(conn.execute(sa.select(run.c.id).where(*of_executor).limit(limit)).scalars())
