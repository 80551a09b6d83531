"""The rows of jobs that a claim holds: the lock of what it decides about them, and their turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from tickwheel_admin.store.database.batch import update_rows
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import job

_CURSORS = sa.select(job.c.id, job.c.route_cursor).where(among(job.c.id, "ids"))
_LOCK = _CURSORS.order_by(job.c.id).with_for_update(skip_locked=True)


def lock_jobs_to_claim(conn: sa.Connection, turns: Mapping[int, int]) -> dict[int, int]:
    """Lock jobs and move their cursors on; returns where those stood, by locked job.

    The lock is a write too, so that it holds on a cluster whose row locks are local. A job whose
    row somebody else holds is not waited for: that would slow every claim down, and could end in a
    deadlock.

    Args:
        turns: by job, at least 1.
    """
    rows = conn.execute(_LOCK, {"ids": sorted(turns)})
    stood = {row.id: row.route_cursor for row in rows}
    set_cursors(conn, {job_id: cursor + turns[job_id] for job_id, cursor in stood.items()})
    return stood


def read_cursors(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, int]:
    """Cursors of jobs that another transaction has locked; read without a lock."""
    rows = conn.execute(_CURSORS, {"ids": sorted(job_ids)})
    return {row.id: row.route_cursor for row in rows}


def set_cursors(conn: sa.Connection, cursors: Mapping[int, int]) -> None:
    """Say how many runs of each job were routed; the rows are locked."""
    update_rows(
        conn,
        job,
        [{"id": job_id, "route_cursor": cursor} for job_id, cursor in sorted(cursors.items())],
        match=("id",),
        values=("route_cursor",),
    )
