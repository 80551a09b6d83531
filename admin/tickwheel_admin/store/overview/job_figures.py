"""What the last runs of a job say about it, kept with the job: lists are sorted by it.

A list that is sorted by a figure needs it in an index. Counting it with each run would write the
job's row each time, so the roll-up looks through the jobs instead, some of them in each pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FINAL, RunState
from tickwheel_admin.store.database.batch import update_rows
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.tables import ALIVE, job
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries

RUNS = 24  # of each job, as the list of jobs shows them


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFigures:
    """The figures of one job."""

    job_id: int
    usual_ms: int  # half of its last runs took no longer; 0: none has ended
    failure_rate: int  # per mille of its last runs that did not succeed


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiguresPage:
    """Some jobs in the order of their ids."""

    last_id: int  # 0: there are no more
    changed: list[JobFigures]  # other figures than are kept


def look_at_jobs(conn: sa.Connection, after: int, *, now: int, limit: int) -> JobFiguresPage:
    """The figures of the jobs behind an id; reads `limit` times 24 runs at most."""
    kept = {
        row.id: JobFigures(job_id=row.id, usual_ms=row.usual_ms, failure_rate=row.failure_rate)
        for row in conn.execute(
            sa.select(job.c.id, job.c.usual_ms, job.c.failure_rate)
            .where(job.c.id > after, unindexed(job.c.deleted_at) == ALIVE)
            .order_by(job.c.id)
            .limit(limit)
        )
    }
    marks = recent_summaries(conn, list(kept), until=now, per_job=RUNS)
    figures = [figures_of(job_id, marks.get(job_id, ())) for job_id in kept]
    return JobFiguresPage(
        last_id=max(kept) if len(kept) == limit else 0,
        changed=[each for each in figures if each != kept[each.job_id]],
    )


def keep_figures(conn: sa.Connection, figures: Sequence[JobFigures]) -> None:
    """Write them to their jobs."""
    update_rows(
        conn,
        job,
        [
            {"id": each.job_id, "usual_ms": each.usual_ms, "failure_rate": each.failure_rate}
            for each in sorted(figures, key=lambda each: each.job_id)
        ],
        match=("id",),
        values=("usual_ms", "failure_rate"),
    )


def figures_of(job_id: int, marks: Sequence[RunSummary]) -> JobFigures:
    """Of a job's last runs, counted as the list shows them: skipped ones say nothing."""
    ended = [m.state for m in marks if m.state in FINAL and m.state is not RunState.SKIPPED]
    succeeded = sum(state is RunState.SUCCEEDED for state in ended)
    lengths = sorted(mark.duration_ms for mark in marks if mark.duration_ms is not None)
    return JobFigures(
        job_id=job_id,
        usual_ms=lengths[math.ceil(len(lengths) / 2) - 1] if lengths else 0,
        failure_rate=round(1000 * (len(ended) - succeeded) / len(ended)) if ended else 0,
    )
