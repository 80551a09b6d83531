"""How the runs of jobs went, as far as the ledger still has them."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.domain.runs.trend import TrendBucket, added
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.retries import IS_MADE_GOOD

SLICES = 10  # of a bucket with many runs, the first runs of each slice are read
BRANCHES = 200  # of one statement: SQLite takes 500
IDS_PER_STATEMENT = 1_000
_DETAILS = sa.select(
    run.c.job_id,
    run.c.state,
    run.c.origin,
    run.c.fire_id,
    run.c.attempt,
    run.c.scheduled_at,
    run.c.started_at,
    run.c.ended_at,
    run.c.jitter_ms,
    IS_MADE_GOOD.label("made_good"),
).where(among(run.c.id, "ids"))
_OF_FAILED = (RunState.FAILED.value, RunState.LOST.value)


def jobs_bucket(
    conn: sa.Connection,
    job_ids: Sequence[int],
    from_at: int,
    to_at: int,
    *,
    whole: int,
    counted: int,
) -> TrendBucket:
    """Ended runs of jobs that were scheduled within a time: of each job all, or a sample of many.

    Tries of scripts and shards are left out, as are failures that a retry by hand made good: the
    retry is counted. Reads the time's entries of `ix_run_of_job`, as far as they are counted.

    Args:
        whole: up to so many runs of a job are all read; at least SLICES.
        counted: beyond it the number of runs of a job is the least it may be.
    """
    counts = _counts(conn, job_ids, from_at, to_at, limit=counted + 1)
    ids = _chosen(conn, counts, from_at, to_at, whole=whole)
    rows: defaultdict[int, list[Any]] = defaultdict(list)
    for first in range(0, len(ids), IDS_PER_STATEMENT):
        for row in conn.execute(_DETAILS, {"ids": ids[first : first + IDS_PER_STATEMENT]}):
            rows[row.job_id].append(row)
    parts = []
    for job_id, some in rows.items():
        each = 1.0 if counts[job_id] <= whole else counts[job_id] / len(some)
        parts.append(_bucket(some, from_at, to_at, each=each))
    return added(from_at, to_at, parts)


def _bucket(rows: Iterable[Any], from_at: int, to_at: int, *, each: float) -> TrendBucket:
    """Of one job; every row stands for so many runs."""
    told = [row for row in rows if row.origin != Origin.TRY.value and row.fire_id is None]
    states = Counter(row.state for row in told if not row.made_good)
    weight = round(each)
    return TrendBucket(
        start_at=from_at,
        end_at=to_at,
        succeeded=round(states[RunState.SUCCEEDED.value] * each),
        failed=round(sum(states[state] for state in _OF_FAILED) * each),
        timed_out=round(states[RunState.TIMED_OUT.value] * each),
        cancelled=round(states[RunState.CANCELLED.value] * each),
        delays=TimeHistogram.of(
            (
                max(0, row.started_at - row.scheduled_at - (row.jitter_ms or 0))
                for row in told
                if row.started_at is not None
                and row.attempt == 1
                and row.origin != Origin.BACKFILL.value
            ),
            each=weight,
        ),
        durations=TimeHistogram.of(
            (
                max(0, row.ended_at - row.started_at)
                for row in told
                if row.state == RunState.SUCCEEDED.value
                and row.started_at is not None
                and row.ended_at is not None
            ),
            each=weight,
        ),
        is_estimated=each > 1,
    )


def _counts(
    conn: sa.Connection, job_ids: Sequence[int], from_at: int, to_at: int, *, limit: int
) -> dict[int, int]:
    """By job, how many runs there are, up to the limit; jobs without any are left out."""
    branches = []
    for job_id in job_ids:
        entries = _entries(conn, job_id, from_at, to_at)
        branches.append(
            f"SELECT {job_id:d} AS job_id, COUNT(*) AS runs"  # noqa: S608 - numbers only
            f" FROM ({entries} LIMIT {limit:d}) AS c"
        )
    return {row.job_id: row.runs for row in _union(conn, branches) if row.runs}


def _chosen(
    conn: sa.Connection, counts: dict[int, int], from_at: int, to_at: int, *, whole: int
) -> list[int]:
    """Ids of the runs that are read: the first ones of each slice of a job's time."""
    branches = []
    for job_id, count in counts.items():
        slices, limit = (1, whole) if count <= whole else (SLICES, whole // SLICES)
        marks = [from_at + (to_at - from_at) * n // slices for n in range(slices + 1)]
        branches += [
            f"SELECT id FROM ({_entries(conn, job_id, start, end)}"  # noqa: S608 - numbers only
            f" ORDER BY scheduled_at, id LIMIT {limit:d}) AS c"
            for start, end in itertools.pairwise(marks)
        ]
    return [row.id for row in _union(conn, branches)]


def _entries(conn: sa.Connection, job_id: int, from_at: int, to_at: int) -> str:
    hint = "FORCE INDEX (ix_run_of_job)" if conn.dialect.name in ("mysql", "mariadb") else ""
    return (
        f"SELECT id FROM run {hint} WHERE job_id = {job_id:d}"  # noqa: S608 - numbers only
        f" AND scheduled_at >= {from_at:d} AND scheduled_at < {to_at:d}"
    )


def _union(conn: sa.Connection, branches: Sequence[str]) -> Iterator[sa.Row[Any]]:
    """Written out: making hundreds of branches of expressions costs more than asking them."""
    for first in range(0, len(branches), BRANCHES):
        some = " UNION ALL ".join(branches[first : first + BRANCHES])
        yield from conn.execute(sa.text(some))
