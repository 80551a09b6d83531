"""How the runs of one job went, as far as the ledger still has them."""

from __future__ import annotations

import itertools
from collections import Counter

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.domain.runs.trend import TrendBucket
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.retries import IS_MADE_GOOD

SLICES = 10  # of a bucket with many runs, the first runs of each slice are read
_COLUMNS = (
    run.c.state,
    run.c.origin,
    run.c.fire_id,
    run.c.attempt,
    run.c.scheduled_at,
    run.c.started_at,
    run.c.ended_at,
    run.c.jitter_ms,
    IS_MADE_GOOD.label("made_good"),
)
_OF_FAILED = (RunState.FAILED.value, RunState.LOST.value)


def job_bucket(
    conn: sa.Connection,
    job_id: int,
    from_at: int,
    to_at: int,
    *,
    whole: int,
    counted: int,
) -> TrendBucket:
    """The job's ended runs that were scheduled within a time: all, or a sample of many.

    Tries of scripts and shards are left out, as are failures that a retry by hand made good: the
    retry is counted. Reads the time's entries of `ix_run_of_job`, as far as they are counted.

    Args:
        whole: up to so many runs are all read; at least SLICES.
        counted: beyond it the number of runs is the least it may be.
    """
    entries = _of_job(sa.select(run.c.id), job_id, from_at, to_at).limit(counted + 1).subquery()
    count = conn.execute(sa.select(sa.func.count()).select_from(entries)).scalar_one()
    if not count:
        return TrendBucket(start_at=from_at, end_at=to_at)
    slices, per_slice = (1, whole) if count <= whole else (SLICES, whole // SLICES)
    ids = conn.execute(_chosen(job_id, from_at, to_at, slices, per_slice)).scalars().all()
    each = 1.0 if count <= whole or not ids else count / len(ids)
    weight = round(each)
    rows = conn.execute(sa.select(*_COLUMNS).where(run.c.id.in_(ids)))
    told = [row for row in rows if row.origin != Origin.TRY.value and row.fire_id is None]
    states = Counter(row.state for row in told if not row.made_good)
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


def _of_job(
    statement: sa.Select[tuple[int]], job_id: int, from_at: int, to_at: int
) -> sa.Select[tuple[int]]:
    within = statement.where(
        run.c.job_id == job_id, run.c.scheduled_at >= from_at, run.c.scheduled_at < to_at
    )
    return reading(within, run, "ix_run_of_job")


def _chosen(
    job_id: int, from_at: int, to_at: int, slices: int, per_slice: int
) -> sa.CompoundSelect[tuple[int]]:
    marks = [from_at + (to_at - from_at) * n // slices for n in range(slices + 1)]
    parts = [
        _of_job(sa.select(run.c.id), job_id, start, end)
        .order_by(run.c.scheduled_at, run.c.id)
        .limit(per_slice)
        .subquery()
        for start, end in itertools.pairwise(marks)
    ]
    return sa.union_all(*(sa.select(part.c.id) for part in parts))
