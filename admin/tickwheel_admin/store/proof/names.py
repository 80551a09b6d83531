"""Names and owners of the jobs whose runs a proof tells of."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import ALIVE, job


class NamedJob(NamedTuple):
    """What a job is called, and who owns it; also of deleted ones."""

    name: str
    owner: str  # empty: nobody is named
    is_deleted: bool


def jobs_with_owners(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, NamedJob]:
    """By id."""
    wanted = sa.select(job.c.id, job.c.name, job.c.owner, job.c.deleted_at).where(
        job.c.id.in_(sorted(job_ids))
    )
    return {
        row.id: NamedJob(row.name, row.owner, is_deleted=row.deleted_at != ALIVE)
        for row in conn.execute(wanted)
    }
