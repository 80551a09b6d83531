"""Which jobs name which secrets, as their current revisions say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.jobs.secret_references import secret_names
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.tables import job, job_secret


def add_secret_uses(conn: sa.Connection, jobs: Sequence[Job]) -> None:
    """Note what new jobs name."""
    rows = [
        {"executor_id": each.executor_id, "name": name, "job_id": each.id}
        for each in jobs
        for name in sorted(secret_names(each.config))
    ]
    insert_rows(conn, job_secret, rows, columns=("executor_id", "name", "job_id"))


def change_secret_uses(conn: sa.Connection, old: Job, new: Job) -> None:
    """Note what a job's next revision names; nothing is written where that is the same."""
    before, after = secret_names(old.config), secret_names(new.config)
    if gone := before - after:
        conn.execute(
            sa.delete(job_secret).where(
                job_secret.c.job_id == new.id, job_secret.c.name.in_(sorted(gone))
            )
        )
    rows = [
        {"executor_id": new.executor_id, "name": name, "job_id": new.id}
        for name in sorted(after - before)
    ]
    insert_rows(conn, job_secret, rows, columns=("executor_id", "name", "job_id"))


def forget_secret_uses(conn: sa.Connection, job_ids: Collection[int]) -> None:
    """The jobs are deleted."""
    conn.execute(sa.delete(job_secret).where(job_secret.c.job_id.in_(sorted(job_ids))))


def jobs_by_secret(
    conn: sa.Connection, executor_id: int, name: str | None = None
) -> dict[str, list[tuple[int, str]]]:
    """Ids and names of the jobs that name each secret of an executor, by name of the job.

    Args:
        name: only this secret; None: all that jobs name, also those that do not exist.
    """
    wanted = (
        sa.select(job_secret.c.name.label("secret"), job.c.id, job.c.name)
        .join(job, job.c.id == job_secret.c.job_id)
        .where(job_secret.c.executor_id == executor_id)
        .order_by(job.c.name)
    )
    if name is not None:
        wanted = wanted.where(job_secret.c.name == name)
    found: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in conn.execute(wanted):
        found[row.secret].append((row.id, row.name))
    return dict(found)
