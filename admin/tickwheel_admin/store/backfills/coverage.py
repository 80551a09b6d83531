"""The runs that work for intervals of a trigger, read for its coverage.

Fires are read by the index of a job's runs, what backfills ran by instant, and retries by hand by
the links from what they repeat. So coverage needs no index and no row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.backfills.backfill import FillOutcome
from tickwheel_admin.domain.backfills.coverage import (
    Horizon,
    Interval,
    IntervalRun,
    IntervalState,
    covered,
    start_of,
)
from tickwheel_admin.domain.backfills.instants import DueInstant
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.backfills.existing import other_triggers
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import backfill_run, run, run_purge, run_retry
from tickwheel_admin.store.self_audit.periods import retained_from

MAX_RUNS = 50_000  # of a job, shards among them, that one reading looks at
_BEHIND = 100  # entries behind the last instant: a wider interval may reach back before it
_AT_ONCE = 500  # runs whose retries are read by one query


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredInstants:
    """What became of intervals."""

    intervals: Sequence[Interval]  # oldest first
    # There were too many runs: instants from this one on were not looked at. None: all were.
    cut_at: int | None


def read_coverage(
    conn: sa.Connection,
    job_id: int,
    trigger_id: int,
    instants: Sequence[DueInstant],
    *,
    breathe: Callable[[], None] = lambda: None,
) -> CoveredInstants:
    """What became of the intervals of these instants, which may come in any order.

    Args:
        breathe: called after every few queries.
    """
    if not instants:
        return CoveredInstants(intervals=(), cut_at=None)
    low = min(each.at if each.previous_at is None else each.previous_at for each in instants)
    high = max(each.at for each in instants)
    others = other_triggers(conn, job_id, trigger_id)
    runs, cut_at = _fires(conn, job_id, others, run.c.scheduled_at.between(low, high), MAX_RUNS)
    breathe()
    runs += _filled(conn, job_id, others, backfill_run.c.at.between(low, high))
    breathe()
    if cut_at is None:
        runs += _fires(conn, job_id, others, run.c.scheduled_at > high, _BEHIND)[0]
        runs += _filled(conn, job_id, others, backfill_run.c.at > high, _BEHIND)
    else:
        looked_at = [each for each in instants if each.at < cut_at]
        if not looked_at:
            return _too_many(min(instants, key=lambda each: each.at))
        instants = looked_at
    ids = sorted({each.run_id for each in runs if each.at >= low})
    by_id = {each.run_id: each for each in runs}
    for first in range(0, len(ids), _AT_ONCE):
        runs += _retries(conn, ids[first : first + _AT_ONCE], by_id)
        breathe()
    horizon = _horizon(conn, job_id, low=low, high=high)
    return CoveredInstants(intervals=covered(instants, runs, horizon), cut_at=cut_at)


def not_holes(
    conn: sa.Connection, job_id: int, trigger_id: int, instants: Sequence[DueInstant]
) -> dict[int, int | None]:
    """By instant that a backfill of holes leaves, a run that tells why; None: it is deleted."""
    found = read_coverage(conn, job_id, trigger_id, instants)
    known = {
        each.at: each.run_ids[0] if each.run_ids else None
        for each in found.intervals
        if not each.is_hole
    }
    if found.cut_at is None:
        return known
    # Rather run too little than anything twice.
    return known | {each.at: None for each in instants if each.at >= found.cut_at}


def _too_many(first: DueInstant) -> CoveredInstants:
    """One interval that has more runs than are read: it cannot be told."""
    unknown = Interval(start_at=start_of(first), at=first.at, state=IntervalState.UNKNOWN)
    return CoveredInstants(intervals=(unknown,), cut_at=first.at + 1)


def _fires(
    conn: sa.Connection,
    job_id: int,
    others: Sequence[int],
    when: sa.ColumnElement[bool],
    limit: int,
) -> tuple[list[IntervalRun], int | None]:
    """Oldest first; with the instant from which on they were not read, as they are too many.

    Shards and fires of other triggers count for the limit, and are left out.
    """
    entries = (
        sa.select(
            run.c.id,
            run.c.trigger_id,
            run.c.fire_id,
            run.c.scheduled_at,
            run.c.interval_start,
            run.c.state,
            run.c.reason,
        )
        .where(run.c.job_id == job_id, when)
        .order_by(run.c.scheduled_at, run.c.id)
        .limit(limit + 1)
    )
    left_out = frozenset((None, *others))
    rows = conn.execute(reading(entries, run, "ix_run_of_job")).all()
    found = [
        IntervalRun(
            run_id=row.id,
            start_at=row.interval_start,
            at=row.scheduled_at,
            state=RunState(row.state),
            reason=row.reason,
        )
        for row in rows
        if row.trigger_id not in left_out and row.fire_id is None
    ]
    return found, rows[-1].scheduled_at if len(rows) > limit else None


def _filled(
    conn: sa.Connection,
    job_id: int,
    others: Sequence[int],
    when: sa.ColumnElement[bool],
    limit: int | None = None,
) -> Iterator[IntervalRun]:
    wanted = (
        sa.select(
            backfill_run.c.at,
            backfill_run.c.run_id,
            backfill_run.c.trigger_id,
            backfill_run.c.outcome,
            run.c.interval_start,
            run.c.state,
            run.c.reason,
        )
        .outerjoin(run, run.c.id == backfill_run.c.run_id)
        .where(backfill_run.c.job_id == job_id, when)
        .order_by(backfill_run.c.at)
    )
    if limit is not None:
        wanted = wanted.limit(limit)
    for row in conn.execute(reading(wanted, backfill_run, "PRIMARY")):
        if row.outcome == FillOutcome.EXISTING.value or row.trigger_id in others:
            continue
        yield IntervalRun(
            run_id=row.run_id,
            start_at=row.interval_start,
            at=row.at,
            state=_state_of(row),
            reason=row.reason,
        )


def _state_of(row: Any) -> RunState:
    """How a run of a backfill stands; what is noted of it outlives its row."""
    if row.state is not None:
        return RunState(row.state)
    is_open = row.outcome == FillOutcome.OPEN.value
    return RunState.LOST if is_open else RunState(row.outcome)


def _retries(
    conn: sa.Connection, run_ids: Sequence[int], by_id: dict[int, IntervalRun]
) -> Iterator[IntervalRun]:
    """Retries by hand of these runs, for the same intervals."""
    wanted = (
        sa.select(run_retry.c.run_id, run_retry.c.retry_id, run_retry.c.state, run.c.state)
        .outerjoin(run, run.c.id == run_retry.c.retry_id)
        .where(run_retry.c.run_id.in_(run_ids))
    )
    for run_id, retry_id, noted, state in conn.execute(reading(wanted, run_retry, "PRIMARY")):
        repeated = by_id[run_id]
        yield IntervalRun(
            run_id=retry_id,
            start_at=repeated.start_at,
            at=repeated.at,
            state=RunState(state or noted or RunState.LOST),
        )


def _horizon(conn: sa.Connection, job_id: int, *, low: int, high: int) -> Horizon:
    purged = sa.select(run_purge.c.from_at, run_purge.c.to_at).where(
        run_purge.c.job_id == job_id, run_purge.c.from_at <= high, run_purge.c.to_at >= low
    )
    rows = conn.execute(reading(purged, run_purge, "PRIMARY"))
    return Horizon(kept_from=retained_from(conn), purged=[(row.from_at, row.to_at) for row in rows])
