"""Which instants a backfill has run that brought no run by themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import sqlalchemy as sa

from tickwheel_admin.domain.backfills.backfill import VOID, FillOutcome
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import backfill_run, run
from tickwheel_admin.store.runs.retries import RetryLink

_JOBS_AT_ONCE = 100  # of one statement; SQLite joins at most 500 parts
_NO_RUN = sorted(each.value for each in (*VOID, FillOutcome.EXISTING))


def filled_instants(
    conn: sa.Connection, wanted: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], list[RetryLink]]:
    """Runs of backfills by (job, instant), oldest first; a look-up for each job and instant.

    What is noted of a run outlives its row.
    """
    by_job: defaultdict[int, set[int]] = defaultdict(set)
    for job_id, at in wanted:
        by_job[job_id].add(at)
    jobs = sorted(by_job)
    found: defaultdict[tuple[int, int], list[RetryLink]] = defaultdict(list)
    for first in range(0, len(jobs), _JOBS_AT_ONCE):
        some = [_of_job(each, by_job[each]) for each in jobs[first : first + _JOBS_AT_ONCE]]
        rows = conn.execute(sa.union_all(*(sa.select(each) for each in some)))
        for row in sorted(rows, key=lambda each: each.run_id):
            link = RetryLink(id=row.run_id, state=_state(row.state, row.outcome))
            found[row.job_id, row.at].append(link)
    return dict(found)


def _of_job(job_id: int, ats: Collection[int]) -> sa.Subquery:
    wanted = (
        sa.select(
            backfill_run.c.job_id,
            backfill_run.c.at,
            backfill_run.c.run_id,
            backfill_run.c.outcome,
            run.c.state,
        )
        .outerjoin(run, run.c.id == backfill_run.c.run_id)
        .where(
            backfill_run.c.job_id == job_id,
            backfill_run.c.at.in_(sorted(ats)),
            backfill_run.c.outcome.not_in(_NO_RUN),
        )
    )
    return reading(wanted, backfill_run, "PRIMARY").subquery()


def _state(state: str | None, outcome: str) -> RunState:
    if state is not None:
        return RunState(state)
    return RunState.LOST if outcome == FillOutcome.OPEN.value else RunState(outcome)
