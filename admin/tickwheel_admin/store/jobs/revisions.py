"""The revisions of a job: what it said, since when, and by whom. They are never changed.

Those with a negative number are what tries of unsaved scripts ran as (`services.jobs.tries`): no
job ever has them, and they go with their runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.input.job import config_from_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.store.database.tables import job_revision
from tickwheel_admin.store.jobs.jobs import add_revision


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
    wanted = sa.select(job_revision).where(
        job_revision.c.job_id == job_id, job_revision.c.revision > 0
    )
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


def revisions_made_at(
    conn: sa.Connection, keys: Collection[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """When these (job, revision) were made, UTC ms; those that are gone are left out."""
    if not keys:
        return {}
    of = job_revision.c
    rows = conn.execute(
        sa.select(of.job_id, of.revision, of.created_at).where(
            of.job_id.in_(sorted({job_id for job_id, _ in keys})),
            of.revision.in_(sorted({revision for _, revision in keys})),
        )
    )
    return {(row.job_id, row.revision): row.created_at for row in rows}


def add_try(
    conn: sa.Connection, job_id: int, config: JobConfig, *, try_id: int, now: int, by: str
) -> int:
    """Keep what a try of a locked job runs as; returns its number, which is negative.

    Args:
        try_id: new and positive. A number never comes back, also when its revision is deleted:
            admins keep configurations that they have read.
    """
    number = -try_id
    add_revision(conn, job_id, number, config, now=now, by=by)
    return number


def delete_tries(conn: sa.Connection, rows: Iterable[Any]) -> None:
    """Delete what tries ran as; rows have the job's id and revision of runs that are deleted."""
    for row in rows:
        conn.execute(
            sa.delete(job_revision).where(
                job_revision.c.job_id == row.job_id, job_revision.c.revision == row.job_revision
            )
        )
