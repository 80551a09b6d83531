"""Hidden jobs: the handlers and scripts that are steps of a workflow, with its name before theirs.

They belong to their workflow: lists, which look at jobs that are not deleted, pass them over, and
only an edit of the workflow changes them, under the lock of the workflow's row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.store.database.tables import OF_WORKFLOW, job, job_revision
from tickwheel_admin.store.jobs import jobs
from tickwheel_admin.store.jobs.kept_state import forget_states
from tickwheel_admin.store.jobs.routing_memory import forget_uses
from tickwheel_admin.store.jobs.secret_uses import forget_secret_uses


def hidden_jobs(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, Job]:
    """Those of the jobs that are hidden, by id."""
    if not job_ids:
        return {}
    rows = conn.execute(
        sa.select(*jobs.JOB_COLUMNS)
        .join(job_revision, jobs.WITH_CONFIG)
        .where(job.c.id.in_(sorted(job_ids)), job.c.deleted_at == OF_WORKFLOW)
    )
    return {row.id: jobs.job_from_row(row) for row in rows}


def add_hidden_jobs(conn: sa.Connection, new: Sequence[Job], *, by: str) -> None:
    """Write them with their first revisions."""
    jobs.add_jobs(conn, new, by=by, deleted_at=OF_WORKFLOW)


def revise_hidden_job(
    conn: sa.Connection, old: Job, config: JobConfig, *, now: int, by: str
) -> bool:
    """Make `config` its next revision; False if another edit came first."""
    return jobs.revise_job(conn, old, config, now=now, by=by, deleted_at=OF_WORKFLOW)


def forget_hidden_jobs(conn: sa.Connection, job_ids: Collection[int], *, now: int) -> None:
    """Their steps are gone: no edit finds them again; what runs of them goes on."""
    if job_ids:
        conn.execute(
            sa.update(job)
            .where(job.c.id.in_(sorted(job_ids)), job.c.deleted_at == OF_WORKFLOW)
            .values(deleted_at=now, updated_at=now)
        )
        forget_secret_uses(conn, job_ids)
        forget_states(conn, job_ids)
        forget_uses(conn, job_ids)


def forget_hidden_jobs_on(conn: sa.Connection, executor_id: int, *, now: int) -> None:
    """The same of those that workflows of other executors have on one that is deleted."""
    hidden = sa.select(job.c.id).where(
        job.c.executor_id == executor_id, job.c.deleted_at == OF_WORKFLOW
    )
    forget_hidden_jobs(conn, list(conn.execute(hidden).scalars()), now=now)
