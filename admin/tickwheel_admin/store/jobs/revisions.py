"""The revisions of a job: what it said, since when, and by whom. They are never changed."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.input.job import config_from_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.store.database.tables import job_revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What a job said from an instant on."""

    revision: int
    config: JobConfig
    at: int
    by: str


def page_revisions(
    conn: sa.Connection, job_id: int, *, before: int | None, limit: int
) -> list[Revision]:
    """Newest first, from below the revision `before`; a range of the primary key."""
    wanted = sa.select(job_revision).where(job_revision.c.job_id == job_id)
    if before is not None:
        wanted = wanted.where(job_revision.c.revision < before)
    rows = conn.execute(wanted.order_by(job_revision.c.revision.desc()).limit(limit))
    return [
        Revision(
            revision=row.revision,
            config=config_from_json(row.config),
            at=row.created_at,
            by=row.created_by,
        )
        for row in rows
    ]
