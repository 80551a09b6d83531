"""What people changed in a time, and which revision of a job held at an instant."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import job, job_revision
from tickwheel_admin.store.system.audit_pages import AuditConditions, StoredAudit, page_audit

# Of what is told to whoever sees an executor: what was done to things that they see, too.
OF_EXECUTORS = frozenset(
    {"job", "jobs", "trigger", "declared", "run", "runs", "backfill", "executor", "node", "pool",
     "gitops"}
)  # fmt: skip
OF_EVERYBODY = frozenset({"calendar", "system", "pool"})  # about no executor
_AROUND_A_JOB = frozenset({"executor", "node", "pool"})
_OF_A_JOB = frozenset({"job", "trigger", "declared", "backfill"})


def read_changes(
    conn: sa.Connection,
    *,
    after: int,
    until: int,
    executors: frozenset[int] | None,
    job_id: int | None = None,
    limit: int,
) -> tuple[list[StoredAudit], bool]:
    """Changes after one instant and up to another, newest first; and if there may be more.

    Args:
        executors: whose; None: of all. Changes that concern everybody are always told.
        job_id: of this job, of the executor that it belongs to, and of everybody.
    """
    time: dict[str, Any] = {"from_at": after + 1, "to_at": until + 1}
    everybody = AuditConditions(nouns=OF_EVERYBODY, **time)
    nouns = OF_EXECUTORS if job_id is None else _AROUND_A_JOB
    asked = [everybody, AuditConditions(executors=executors, nouns=nouns, **time)]
    if job_id is not None:
        asked.append(AuditConditions(objects=frozenset({job_id}), nouns=_OF_A_JOB, **time))
    found: dict[int, StoredAudit] = {}
    more = False
    for conditions in asked:
        rows, more_at = page_audit(conn, conditions, before=None, limit=limit)
        more = more or more_at is not None
        for row in rows:
            if conditions is not everybody or row.executor_id is None:
                found[row.id] = row
    newest = sorted(found.values(), key=lambda row: (-row.at, -row.id))
    return newest[:limit], more or len(newest) > limit


def revisions_at(
    conn: sa.Connection, job_ids: Collection[int], *, at: int
) -> dict[int, tuple[int, int, str]]:
    """By job, the revision that held at an instant: its number, when and by whom it was made.

    Jobs that were not there, then, are left out; a job that was deleted later is not.
    """
    # Revisions are made one after another: by time they are in the order of their numbers.
    last = (
        sa.select(job_revision.c.job_id, sa.func.max(job_revision.c.revision).label("revision"))
        .where(job_revision.c.job_id.in_(sorted(job_ids)), job_revision.c.created_at <= at)
        .group_by(job_revision.c.job_id)
        .subquery()
    )
    wanted = (
        sa.select(
            job_revision.c.job_id,
            job_revision.c.revision,
            job_revision.c.created_at,
            job_revision.c.created_by,
        )
        .join(
            last,
            sa.and_(
                last.c.job_id == job_revision.c.job_id, last.c.revision == job_revision.c.revision
            ),
        )
        .join(job, job.c.id == job_revision.c.job_id)
        .where(sa.or_(job.c.deleted_at <= 0, job.c.deleted_at > at))
    )
    return {
        row.job_id: (row.revision, row.created_at, row.created_by) for row in conn.execute(wanted)
    }
