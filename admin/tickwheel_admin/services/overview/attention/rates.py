"""Jobs that fail more often than they used to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, RunState
from tickwheel_admin.services.overview.attention.concern import AlarmKind, Concern, Severity
from tickwheel_admin.store.overview import attention as store
from tickwheel_admin.store.overview.attention import FailedRun, JobWithExecutor
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
JOBS_AT_ONCE = 50

# How often a job fails, beside how often it did a day before.
LATELY_MS = HOUR_MS
LATELY_AT_LEAST = 20  # newest runs, also when they reach further back than an hour
LATELY_MARKS = 100
USUAL_AT_LEAST = 20  # older runs that say what is usual
RATE_FAILURES = 3
RATE_MORE = 3.0  # times as often as usual
RATE_ALWAYS = 0.1  # a smaller share of failures is not told
RATE_UNKNOWN = 0.2  # when nobody knows what is usual
STANDING_SHARE = 0.5  # of these limits, for a job of which it was told: it must not come and go
MAX_RATE_JOBS = 20


def often_failed(
    failed: Iterable[FailedRun],
    *,
    without: Collection[int | None] = (),
    most: int | None = MAX_RATE_JOBS,
) -> list[int]:
    """Jobs with so many of these failures that it may be unusual, the most first."""
    often = Counter(each.job_id for each in failed if each.job_id not in without)
    return [n for n, count in often.most_common(most) if count >= RATE_FAILURES]


def failure_rates(
    conn: sa.Connection,
    suspects: Sequence[int],
    *,
    standing: Collection[int] = (),
    now: int,
) -> list[Concern]:
    """Those of the jobs that fail more often than they used to.

    Args:
        standing: jobs of which it was told before; they count until it is half as bad.
    """
    found: list[Concern] = []
    for first in range(0, len(suspects), JOBS_AT_ONCE):
        some = suspects[first : first + JOBS_AT_ONCE]
        named = store.named_jobs(conn, some)
        lately = recent_summaries(conn, list(named), until=now, per_job=LATELY_MARKS)
        usual = recent_summaries(conn, list(named), until=now - DAY_MS, per_job=LATELY_MARKS)
        for job_id in some:
            if job_id in named:
                factor = STANDING_SHARE if job_id in standing else 1.0
                told = _of(lately.get(job_id, []), usual.get(job_id, []), factor, now=now)
                if told is not None:
                    params, failures = told
                    found.append(
                        of_job(
                            job_id,
                            named[job_id],
                            kind=AlarmKind.FAILURE_RATE,
                            template="%(failures)d of the last %(runs)d runs of “%(job)s” failed.",
                            params=params | {"job": named[job_id].name},
                            since=failed_at(failures[-1]),
                            last_at=failed_at(failures[0]),
                            run_id=failures[0].id,
                        )
                    )
    return found


def _of(
    lately: Sequence[RunSummary], usual: Sequence[RunSummary], factor: float, *, now: int
) -> tuple[dict[str, Any], list[RunSummary]] | None:
    """What is unusual about a job, and its failures; None: nothing is."""
    runs = _lately(lately, now)
    failures = [mark for mark in runs if mark.state in FAILURES]
    older = _telling(usual)
    usual_share = _share(older) if len(older) >= USUAL_AT_LEAST else None
    if len(failures) < RATE_FAILURES * factor:
        return None
    if not _is_unusual(_share(runs), usual_share, factor):
        return None
    return {"failures": len(failures), "runs": len(runs), "usual": usual_share}, failures


def _is_unusual(share: float, usual: float | None, factor: float) -> bool:
    if usual is None:
        return share >= RATE_UNKNOWN * factor
    return share >= max(RATE_ALWAYS, RATE_MORE * usual) * factor


def _lately(newest_first: Sequence[RunSummary], now: int) -> list[RunSummary]:
    """Runs that ended, of the last hour, or as many as it takes to say something."""
    telling = _telling(newest_first)
    of_hour = [mark for mark in telling if mark.scheduled_at >= now - LATELY_MS]
    some = of_hour if len(of_hour) >= LATELY_AT_LEAST else telling[:LATELY_AT_LEAST]
    return [mark for mark in some if mark.scheduled_at >= now - DAY_MS]


def _telling(marks: Iterable[RunSummary]) -> list[RunSummary]:
    return [mark for mark in marks if mark.state is RunState.SUCCEEDED or mark.state in FAILURES]


def _share(marks: Sequence[RunSummary]) -> float:
    return sum(mark.state in FAILURES for mark in marks) / len(marks) if marks else 0.0


def failed_at(mark: RunSummary) -> int:
    """When a run failed, in UTC ms."""
    return mark.ended_at or mark.scheduled_at


def of_job(job_id: int, job: JobWithExecutor, **more: Any) -> Concern:
    """An error of a job."""
    return Concern(
        severity=Severity.ERROR,
        job_id=job_id,
        job_name=job.name,
        executor_id=job.executor_id,
        executor_name=job.executor_name,
        **more,
    )
