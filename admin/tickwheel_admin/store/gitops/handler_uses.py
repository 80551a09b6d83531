"""What uses the handlers of an executor: hidden jobs of steps, and runs that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.run_conditions import queued_for
from tickwheel_admin.store.database.tables import OF_WORKFLOW, job, job_revision, run
from tickwheel_admin.store.jobs.jobs import JOB_COLUMNS, WITH_CONFIG, job_from_row


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run that waits, and what it was given."""

    id: int
    job_id: int
    revision: int
    parameters: str | None  # None: those of its job


def inline_jobs_on(conn: sa.Connection, executor_id: int) -> list[Job]:
    """Hidden jobs of steps that run on an executor, by id."""
    rows = conn.execute(
        sa.select(*JOB_COLUMNS)
        .join(job_revision, WITH_CONFIG)
        .where(job.c.executor_id == executor_id, job.c.deleted_at == OF_WORKFLOW)
        .order_by(job.c.id)
    )
    return [job_from_row(row) for row in rows]


def queued_run_ids(conn: sa.Connection, executor_id: int) -> Sequence[int]:
    """All runs of an executor that wait, by id."""
    return (
        conn.execute(sa.select(run.c.id).where(queued_for(executor_id)).order_by(run.c.id))
        .scalars()
        .all()
    )


def queued_runs(conn: sa.Connection, ids: Sequence[int]) -> list[QueuedRun]:
    """Those of these runs that still wait, by id."""
    rows = conn.execute(
        sa.select(run.c.id, run.c.job_id, run.c.job_revision, run.c.parameters)
        .where(run.c.id.in_(ids), unindexed(run.c.state) == RunState.QUEUED.value)
        .order_by(run.c.id)
    )
    return [
        QueuedRun(
            id=row.id, job_id=row.job_id, revision=row.job_revision, parameters=row.parameters
        )
        for row in rows
    ]
