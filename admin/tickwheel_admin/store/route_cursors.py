"""How far round robin has turned, per job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from tickwheel_admin.store.batch import update_rows
from tickwheel_admin.store.tables import job


def read_route_cursors(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, int]:
    """Runs routed so far, by job."""
    rows = conn.execute(
        sa.select(job.c.id, job.c.route_cursor).where(job.c.id.in_(sorted(job_ids)))
    )
    return {row.id: row.route_cursor for row in rows}


def write_route_cursors(conn: sa.Connection, cursors: Mapping[int, int]) -> None:
    """Set the cursors; the rows are locked in ascending order of id."""
    update_rows(
        conn,
        job,
        [{"id": job_id, "route_cursor": cursors[job_id]} for job_id in sorted(cursors)],
        match=("id",),
        values=("route_cursor",),
    )
