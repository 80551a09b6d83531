"""The rows of jobs that a claim holds: the lock of their blocking strategy, and round robin."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from tickwheel_admin.store.batch import update_rows
from tickwheel_admin.store.tables import job


def lock_jobs_to_claim(
    conn: sa.Connection, turns: Mapping[int, int]
) -> tuple[dict[int, int], set[int]]:
    """Move the cursors of jobs on by their turns; returns (where they stood, jobs that are locked).

    The lock is a write too, so that it holds on a cluster whose row locks are local. A job whose
    row somebody else holds is not waited for: its cursor is read and left. Then two admins may
    choose the same node once, and no harm is done; a run that must stand in line is left to the
    other one. Waiting would slow every claim down and could end in a deadlock.
    """
    wanted = job.c.id.in_(sorted(turns))
    cursor = sa.select(job.c.id, job.c.route_cursor).where(wanted)
    locked = {
        row.id: row.route_cursor
        for row in conn.execute(cursor.order_by(job.c.id).with_for_update(skip_locked=True))
    }
    update_rows(
        conn,
        job,
        [{"id": job_id, "route_cursor": at + turns[job_id]} for job_id, at in locked.items()],
        match=("id",),
        values=("route_cursor",),
    )
    if len(locked) == len(turns):
        return locked, set(locked)
    standing = {row.id: row.route_cursor for row in conn.execute(cursor)}
    return standing | locked, set(locked)
