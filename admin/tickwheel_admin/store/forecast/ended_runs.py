"""Runs of the last hours as a plan shows them, job by job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FINAL, Origin, RunState

PER_JOB = 200  # the newest ones
_COLUMNS = "id, job_id, state, scheduled_at, started_at, ended_at, node_id, parent_run_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run that has ended."""

    id: int
    job_id: int
    state: RunState
    scheduled_at: int
    started_at: int | None  # None: it did not start
    ended_at: int
    node_id: int | None
    parent_run_id: int | None


def ended_runs(
    conn: sa.Connection, job_ids: Sequence[int], *, from_at: int, per_job: int = PER_JOB
) -> list[EndedRun]:
    """The newest ended runs of each job that were due since an instant.

    One branch per job, each a bounded read of `ix_run_of_job`. Of a job that is cut into shards
    whole fires only; tries of scripts are left out.
    """
    if not job_ids:
        return []
    rows = conn.execute(
        _statement(conn.dialect.name, len(job_ids)),
        {"from_at": from_at, "limit": per_job, **{f"job_{n}": i for n, i in enumerate(job_ids)}},
    )
    return [
        EndedRun(
            id=row.id,
            job_id=row.job_id,
            state=RunState(row.state),
            scheduled_at=row.scheduled_at,
            started_at=row.started_at,
            ended_at=row.ended_at,
            node_id=row.node_id,
            parent_run_id=row.parent_run_id,
        )
        for row in rows
        if RunState(row.state) in FINAL and row.ended_at is not None
    ]


@lru_cache(maxsize=200)
def _statement(dialect: str, jobs: int) -> sa.TextClause:
    # Written out and kept, as `store.runs.summaries` does.
    hint = "FORCE INDEX (ix_run_of_job)" if dialect in ("mysql", "mariadb") else ""
    branches = (
        f"SELECT {_COLUMNS} FROM (SELECT {_COLUMNS} FROM run {hint}"  # noqa: S608 - names are ours
        f" WHERE job_id = :job_{n} AND scheduled_at >= :from_at AND fire_id IS NULL"
        f" AND origin <> '{Origin.TRY}'"
        f" ORDER BY scheduled_at DESC, id DESC LIMIT :limit) AS m{n}"
        for n in range(jobs)
    )
    return sa.text(" UNION ALL ".join(branches))
