"""Jobs that failed, each with its newest failed run: what a job that fires rarely is found by.

The newest failures of all jobs tell nothing of a nightly job when another one fails every minute.
So each count of an hour notes which jobs failed in it, and what has recovered is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import STANDS_ALONE, listed_as
from tickwheel_admin.store.database.tables import job_failure, run

MAX_FAILURES = 20_000  # of one state in one part of an hour that are looked at
BATCH = 1_000  # runs that are looked up at once
_COLUMNS = [column.name for column in job_failure.columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """A job and its newest failed run."""

    job_id: int
    executor_id: int
    scheduled_at: int


def count_failed_jobs(conn: sa.Connection, *, from_at: int, to_at: int) -> list[JobFailure]:
    """The jobs that failed within a time; reads at most `MAX_FAILURES` runs of each state."""
    newest: dict[int, JobFailure] = {}
    for state in sorted(FAILURES):
        ids = list(
            conn.execute(
                reading(
                    sa.select(run.c.id)
                    .where(
                        listed_as(state),
                        run.c.scheduled_at >= from_at,
                        run.c.scheduled_at < to_at,
                    )
                    .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
                    .limit(MAX_FAILURES),
                    run,
                    "ix_run_by_state",
                )
            ).scalars()
        )
        for first in range(0, len(ids), BATCH):
            for row in conn.execute(_failed_jobs(ids[first : first + BATCH])):
                known = newest.get(row.job_id)
                if known is None or known.scheduled_at < row.at:
                    newest[row.job_id] = JobFailure(
                        job_id=row.job_id, executor_id=row.executor_id, scheduled_at=int(row.at)
                    )
    return [newest[job_id] for job_id in sorted(newest)]


def _failed_jobs(run_ids: Sequence[int]) -> sa.Select[int, int, int]:
    return (
        sa.select(run.c.job_id, run.c.executor_id, sa.func.max(run.c.scheduled_at).label("at"))
        .where(run.c.id.in_(run_ids), STANDS_ALONE)
        .group_by(run.c.job_id, run.c.executor_id)
    )


def note_failed_jobs(conn: sa.Connection, failures: Sequence[JobFailure]) -> None:
    """Store failures that are newer than the stored ones; hours may come in any order."""
    ids = [each.job_id for each in failures]
    known: Mapping[int, int] = {
        row.job_id: row.scheduled_at
        for row in conn.execute(
            sa.select(job_failure.c.job_id, job_failure.c.scheduled_at).where(
                job_failure.c.job_id.in_(ids)
            )
        )
    }
    insert_rows(
        conn,
        job_failure,
        [
            {
                "job_id": each.job_id,
                "executor_id": each.executor_id,
                "scheduled_at": each.scheduled_at,
            }
            for each in failures
            if known.get(each.job_id, -1) < each.scheduled_at
        ],
        columns=_COLUMNS,
        replace_duplicates_of=("job_id",),
    )


def failed_jobs_after(conn: sa.Connection, after: int, *, limit: int) -> list[JobFailure]:
    """Noted jobs in the order of their ids, those after one."""
    rows = conn.execute(
        sa.select(job_failure)
        .where(job_failure.c.job_id > after)
        .order_by(job_failure.c.job_id)
        .limit(limit)
    )
    return [_from_row(row) for row in rows]


def newest_failed_jobs(
    conn: sa.Connection, *, scope: frozenset[int] | None, scanned: int, most: int
) -> list[JobFailure]:
    """The jobs that failed last, newest first.

    Args:
        scope: executors; None: all.
        scanned: how many are read, of all executors.
    """
    rows = conn.execute(
        reading(
            sa.select(job_failure)
            .order_by(job_failure.c.scheduled_at.desc(), job_failure.c.job_id.desc())
            .limit(most if scope is None else scanned),
            job_failure,
            "ix_job_failure_recent",
        )
    )
    return [_from_row(row) for row in rows if scope is None or row.executor_id in scope][:most]


def forget_failed_jobs(conn: sa.Connection, job_ids: Iterable[int]) -> None:
    """They have recovered, or are no jobs any more."""
    conn.execute(sa.delete(job_failure).where(job_failure.c.job_id.in_(sorted(job_ids))))


def _from_row(row: sa.Row[tuple[object, ...]]) -> JobFailure:
    return JobFailure(job_id=row.job_id, executor_id=row.executor_id, scheduled_at=row.scheduled_at)
