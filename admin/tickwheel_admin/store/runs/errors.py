"""What runs failed with, in few rows: one for all of an executor that failed alike.

Only runs that fail write here. Rows are never changed, so that many failures at once do not wait
for each other; they go when no run of them is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from tickwheel_admin.domain.runs.error import RunError
from tickwheel_admin.store.database.batch import insert_values
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import run, run_error
from tickwheel_admin.store.jobs.filters import escaped

MAX_FOUND = 500  # kinds of errors that one filter stands for
MAX_READ = 20_000  # texts that one request looks at, newest first


def insert_errors(conn: sa.Connection, errors: Iterable[RunError]) -> None:
    """Keep the texts that are not kept yet."""
    distinct = {each.id: each for each in errors}
    if not distinct:
        return
    now = now_ms(conn)
    insert_values(
        conn,
        run_error,
        [(each.id, each.executor_id, each.text, now) for _, each in sorted(distinct.items())],
        columns=("id", "executor_id", "text", "first_seen_at"),
        ignore_duplicates_of=("id",),
    )


def find_errors(
    conn: sa.Connection, part: str, *, executors: Collection[int] | None
) -> frozenset[int]:
    """Ids of the errors whose text has this part, in any case: the newest MAX_FOUND.

    Args:
        part: as `domain.run_error.alike` makes it.
        executors: of these only; None: of all.
    """
    read = (
        sa.select(run_error.c.id, run_error.c.text, run_error.c.first_seen_at)
        .order_by(run_error.c.first_seen_at.desc(), run_error.c.id.desc())
        .limit(MAX_READ)
    )
    if executors is not None:
        read = read.where(run_error.c.executor_id.in_(sorted(executors)))
    newest = reading(read, run_error, "ix_run_error_seen").subquery()
    # Both sides lowered by the database: SQLite lowers ASCII only, Python would lower more.
    wanted = sa.func.lower(sa.bindparam("part", f"%{escaped(part)}%"))
    found = (
        sa.select(newest.c.id)
        .where(sa.func.lower(newest.c.text).like(wanted, escape="\\"))
        .order_by(newest.c.first_seen_at.desc(), newest.c.id.desc())
        .limit(MAX_FOUND)
    )
    return frozenset(conn.execute(found).scalars())


def remove_unused_errors(
    conn: sa.Connection, *, older_than_ms: int, after: int, limit: int
) -> tuple[int, int | None]:
    """Delete texts that were first seen before that and that no run has any more.

    Looks at `limit` of them, by id.

    Returns:
        How many were deleted, and after which id to go on; None: these were the last.
    """
    # Not EXISTS, for which PostgreSQL might read all failures there are.
    kept = sa.select(run.c.id).where(run.c.error_id == run_error.c.id).limit(1)
    rows = conn.execute(
        sa.select(
            run_error.c.id,
            run_error.c.first_seen_at,
            kept.correlate(run_error).scalar_subquery().label("run_id"),
        )
        .where(run_error.c.id > after)
        .order_by(run_error.c.id)
        .limit(limit)
    ).all()
    until = now_ms(conn) - older_than_ms
    ids = [row.id for row in rows if row.run_id is None and row.first_seen_at < until]
    if ids:
        conn.execute(sa.delete(run_error).where(run_error.c.id.in_(ids)))
    return len(ids), rows[-1].id if len(rows) == limit else None
