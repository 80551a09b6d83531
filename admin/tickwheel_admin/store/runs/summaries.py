"""Short summaries of runs: the newest of a job, and the live ones of a node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.measures import could_start_at
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.store.database.run_conditions import IS_LIVE
from tickwheel_admin.store.database.tables import run

MAX_LIVE_READ = 10_000

_COLUMNS = (
    run.c.id,
    run.c.state,
    run.c.scheduled_at,
    run.c.started_at,
    run.c.ended_at,
    run.c.progress,
    run.c.jitter_ms,
    run.c.created_at,
    run.c.origin,
    run.c.tries,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """As much of a run as a mark in a chart shows."""

    id: int
    state: RunState
    scheduled_at: int
    started_at: int | None
    ended_at: int | None
    progress: float | None
    jitter_ms: int | None = None
    created_at: int
    origin: Origin
    tries: int = 0

    @property
    def start_delay_ms(self) -> int | None:
        """How late it started; None: it did not, or it waited for slots on purpose."""
        if self.started_at is None or self.origin is Origin.BACKFILL:
            return None
        return self.started_at - could_start_at(
            scheduled_at=self.scheduled_at, jitter_ms=self.jitter_ms, created_at=self.created_at
        )

    @property
    def duration_ms(self) -> int | None:
        """How long its last attempt took; None while it runs or when it never started."""
        if self.started_at is None or self.ended_at is None:
            return None
        return max(self.ended_at - self.started_at, 0)


def recent_summaries(
    conn: sa.Connection, job_ids: Sequence[int], *, until: int, per_job: int
) -> dict[int, list[RunSummary]]:
    """The newest runs of each job that were due by `until`, newest first; one statement.

    Of a job that is cut into shards, whole fires only; tries of scripts are left out.

    One branch per job, each a bounded read of `ix_run_of_job`: a window function would read the
    whole history of every job to number it.
    """
    summaries: defaultdict[int, list[RunSummary]] = defaultdict(list)
    if not job_ids:
        return summaries
    parameters = {f"job_{n}": job_id for n, job_id in enumerate(job_ids)}
    rows = conn.execute(
        _summaries_statement(conn.dialect.name, len(job_ids)),
        {"until": until, "per_job": per_job, **parameters},
    )
    for row in rows:
        summaries[row.job_id].append(_summary_from_row(row))
    for found in summaries.values():
        # The order of the branches' rows is not promised once they are united.
        found.sort(key=lambda each: (each.scheduled_at, each.id), reverse=True)
    return summaries


@lru_cache(maxsize=500)
def _summaries_statement(dialect: str, jobs: int) -> sa.TextClause:
    # Written out and kept: SQLAlchemy takes 10 ms to put fifty branches together.
    hint = "FORCE INDEX (ix_run_of_job)" if dialect in ("mysql", "mariadb") else ""
    columns = ", ".join(("job_id", *(column.name for column in _COLUMNS)))
    branches = (
        f"SELECT {columns} FROM (SELECT {columns} FROM run {hint}"  # noqa: S608 - names are ours
        f" WHERE job_id = :job_{n} AND scheduled_at <= :until AND fire_id IS NULL"
        f" AND origin <> '{Origin.TRY}'"
        f" ORDER BY scheduled_at DESC, id DESC LIMIT :per_job) AS m{n}"
        for n in range(jobs)
    )
    return sa.text(" UNION ALL ".join(branches))


def live_summaries_of_nodes(
    conn: sa.Connection, node_ids: Iterable[int], *, per_node: int
) -> dict[int, list[RunSummary]]:
    """Live runs of nodes, oldest first; reads the live part of an index, a row per used slot."""
    summaries: defaultdict[int, list[RunSummary]] = defaultdict(list)
    rows = conn.execute(
        sa.select(run.c.node_id, *_COLUMNS)
        .where(IS_LIVE, run.c.node_id.in_(sorted(node_ids)))
        .limit(MAX_LIVE_READ)
    )
    for row in rows:
        summaries[row.node_id].append(_summary_from_row(row))
    return {
        node_id: sorted(found, key=lambda each: (each.scheduled_at, each.id))[:per_node]
        for node_id, found in summaries.items()
    }


def _summary_from_row(row: Any) -> RunSummary:
    return RunSummary(
        id=row.id,
        state=RunState(row.state),
        scheduled_at=row.scheduled_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        progress=row.progress,
        jitter_ms=row.jitter_ms,
        created_at=row.created_at,
        origin=Origin(row.origin),
        tries=row.tries,
    )
