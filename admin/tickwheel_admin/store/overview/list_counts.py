"""Numbers on the tabs of lists: as many entries of an index as are worth it, and never a table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, LIVE, RunState
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import IS_LIVE, listed_as
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.jobs.filters import JobFilter
from tickwheel_admin.store.jobs.last_outcomes import last_outcomes
from tickwheel_admin.store.overview.job_failures import newest_failed_jobs

MAX_LOOKED_AT = 1_000  # entries of each number

COUNTED_HOURS_MS = 2 * 3_600_000  # failures before that are noted with their jobs


class Number(NamedTuple):
    """A number on a tab."""

    n: int
    capped: bool  # there may be more: the count stopped there


def count_by_state(
    conn: sa.Connection,
    states: Collection[RunState],
    *,
    executors: frozenset[int] | None,
    from_at: int | None,
    to_at: int | None,
) -> dict[RunState, Number]:
    """How many whole fires are in each state, among its newest 1,000 entries; one statement."""
    branches = [
        _counting(state, executors=executors, from_at=from_at, to_at=to_at)
        for state in sorted(states)
    ]
    return {
        RunState(row.state): Number(row.fitting or 0, row.seen == MAX_LOOKED_AT)
        for row in conn.execute(sa.union_all(*branches))
    }


def _counting(
    state: RunState, *, executors: frozenset[int] | None, from_at: int | None, to_at: int | None
) -> sa.Select[str, Any, int]:
    fits: sa.ColumnElement[bool] = run.c.fire_id.is_(None)
    if executors is not None:
        fits = sa.and_(fits, run.c.executor_id.in_(sorted(executors)))
    newest = sa.select(sa.case((fits, 1), else_=0).label("fits")).where(listed_as(state))
    if from_at is not None:
        newest = newest.where(run.c.scheduled_at >= from_at)
    if to_at is not None:
        newest = newest.where(run.c.scheduled_at < to_at)
    seen = (
        reading(newest, run, "ix_run_to_sweep" if state in LIVE else "ix_run_by_state")
        .order_by(run.c.scheduled_at.desc())
        .limit(MAX_LOOKED_AT)
        .subquery(f"seen_{state.value}")
    )
    return sa.select(
        sa.literal(state.value).label("state"),
        sa.func.sum(seen.c.fits).label("fitting"),
        sa.func.count().label("seen"),
    ).select_from(seen)


def count_running_jobs(conn: sa.Connection, executors: frozenset[int] | None) -> Number:
    """How many jobs have a live run, among 1,000 live runs."""
    chosen = sa.select(run.c.job_id, run.c.executor_id).where(IS_LIVE)
    rows = conn.execute(reading(chosen, run, "ix_run_to_sweep").limit(MAX_LOOKED_AT)).all()
    jobs = {row.job_id for row in rows if executors is None or row.executor_id in executors}
    return Number(len(jobs), len(rows) == MAX_LOOKED_AT)


def count_failing_jobs(
    conn: sa.Connection, wanted: JobFilter, *, saying: Collection[RunState], now: int
) -> Number:
    """How many of the jobs that fit have failed in the last run that says how they fare.

    Looked at are the jobs of the newest 1,000 failures of each kind and the 1,000 that were noted
    as failing last, so it costs the same with any number of jobs and of runs.
    """
    noted = newest_failed_jobs(conn, scope=None, scanned=MAX_LOOKED_AT, most=MAX_LOOKED_AT)
    candidates = {each.job_id for each in noted}
    capped = len(noted) == MAX_LOOKED_AT
    for state in sorted(FAILURES):
        newest = sa.select(run.c.job_id, run.c.scheduled_at).where(listed_as(state))
        rows = conn.execute(
            reading(newest, run, "ix_run_by_state")
            .order_by(run.c.scheduled_at.desc())
            .limit(MAX_LOOKED_AT)
        ).all()
        candidates.update(row.job_id for row in rows)
        if len(rows) == MAX_LOOKED_AT and rows[-1].scheduled_at > now - COUNTED_HOURS_MS:
            capped = True
    outcomes = last_outcomes(conn, wanted, sorted(candidates), saying=saying)
    return Number(sum(state in FAILURES for state in outcomes.values()), capped)
