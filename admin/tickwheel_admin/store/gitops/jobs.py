"""Jobs of any number, for plans and exports."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.store.database.tables import ALIVE, job, job_revision
from tickwheel_admin.store.jobs.jobs import JOB_COLUMNS, WITH_CONFIG, job_from_row

IDS_AT_ONCE = 500


def read_jobs(conn: sa.Connection, job_ids: Collection[int]) -> list[Job]:
    """Those of the jobs that exist and are not deleted, by id."""
    found: list[Job] = []
    ids = sorted(set(job_ids))
    for start in range(0, len(ids), IDS_AT_ONCE):
        rows = conn.execute(
            sa.select(*JOB_COLUMNS)
            .join(job_revision, WITH_CONFIG)
            .where(job.c.id.in_(ids[start : start + IDS_AT_ONCE]), job.c.deleted_at == ALIVE)
            .order_by(job.c.id)
        )
        found += [job_from_row(row) for row in rows]
    return found


def visible_job_ids(conn: sa.Connection, executor_ids: Collection[int]) -> list[int]:
    """Of all jobs of some executors that are not deleted, by executor and name."""
    rows = conn.execute(
        sa.select(job.c.id)
        .where(job.c.executor_id.in_(sorted(executor_ids)), job.c.deleted_at == ALIVE)
        .order_by(job.c.executor_id, job.c.name)
    )
    return list(rows.scalars())
