"""Jobs that fail: in a row, again after a retry, in their last run, or more often than usual.

Each job is told once, by the first of these that holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, PASSED_OVER, RunState
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    Concern,
    ConcernKind,
    Severity,
)
from tickwheel_admin.store.overview import attention as store
from tickwheel_admin.store.overview.attention import FailedRun, JobWithExecutor, Scope
from tickwheel_admin.store.overview.job_failures import newest_failed_jobs
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
MAX_JOBS = 50  # looked at for each kind
STREAK = 3  # failures in a row
STREAK_MARKS = 24  # of a job's newest runs are looked at
MAX_RETRIED = PER_KIND

# A job that fires so seldom that nobody waits for its next run to see whether it failed.
SELDOM_MS = 3 * HOUR_MS
MAX_SELDOM = 200  # jobs that failed and are looked at
SELDOM_SCANNED = 5_000  # entries looked at for those of some executors only
SELDOM_MARKS = 6

# How often a job fails, beside how often it did a day before.
LATELY_MS = HOUR_MS
LATELY_AT_LEAST = 20  # newest runs, also when they reach further back than an hour
LATELY_MARKS = 100
USUAL_AT_LEAST = 20  # older runs that say what is usual
RATE_FAILURES = 3
RATE_MORE = 3.0  # times as often as usual
RATE_ALWAYS = 0.1  # a smaller share of failures is not told
RATE_UNKNOWN = 0.2  # when nobody knows what is usual
MAX_RATE_JOBS = 20


@dataclass(frozen=True, slots=True)
class _Failing:
    """What the concerns of one look share."""

    conn: sa.Connection
    failed: Sequence[FailedRun]  # newest first
    now: int


def failing_jobs(
    conn: sa.Connection, scope: Scope, failed: Sequence[FailedRun], *, now: int
) -> list[Concern]:
    """Jobs that fail, each told once.

    Args:
        failed: the newest failed runs of a day, newest first.
    """
    look = _Failing(conn, failed, now)
    found = _streaks(look)
    found += _failed_retries(look, _jobs_of(found))
    found += _last_failed(look, scope, _jobs_of(found))
    found += _rates(look, _jobs_of(found))
    return found


def _jobs_of(concerns: Iterable[Concern]) -> frozenset[int | None]:
    return frozenset(each.job_id for each in concerns)


def _streaks(look: _Failing) -> list[Concern]:
    """Jobs whose last runs all failed, those with most failures lately first."""
    often = Counter(each.job_id for each in look.failed)
    suspects = [job_id for job_id, count in often.most_common(MAX_JOBS) if count >= STREAK]
    named = store.named_jobs(look.conn, suspects)
    marks = recent_summaries(look.conn, list(named), until=look.now, per_job=STREAK_MARKS)
    found = []
    for job_id in suspects:
        streak = _streak(marks.get(job_id, []))
        if job_id in named and len(streak) >= STREAK:
            found.append(
                _of_job(
                    job_id,
                    named[job_id],
                    kind=ConcernKind.FAILING_STREAK,
                    # Also when there are more of them: nobody looked further.
                    template="The last %(count)d runs of “%(job)s” failed.",
                    params={"count": len(streak), "job": named[job_id].name},
                    since=_failed_at(streak[-1]),
                    last_at=_failed_at(streak[0]),
                    run_id=streak[0].id,
                )
            )
    return found[:PER_KIND]


def _streak(newest_first: Iterable[RunSummary]) -> list[RunSummary]:
    """The failures since the last success."""
    streak = []
    for mark in newest_first:
        if mark.state in FAILURES:
            streak.append(mark)
        elif mark.ended_at is not None and mark.state not in PASSED_OVER:
            break
    return streak


def _failed_retries(look: _Failing, told: frozenset[int | None]) -> list[Concern]:
    """Runs that somebody retried, and the retry failed as well."""
    newest: dict[int, FailedRun] = {}
    for each in look.failed:
        if each.retry_of is not None and each.job_id not in told:
            newest.setdefault(each.job_id, each)
    looked_at = list(newest)[:MAX_RETRIED]
    named = store.named_jobs(look.conn, looked_at)
    return [
        _of_job(
            job_id,
            named[job_id],
            kind=ConcernKind.RETRY_FAILED,
            template="Run %(original)d of “%(job)s” was retried as run %(run)d, and that failed"
            " as well.",
            params={
                "original": newest[job_id].retry_of,
                "run": newest[job_id].id,
                "job": named[job_id].name,
            },
            since=newest[job_id].at,
            last_at=newest[job_id].at,
            run_id=newest[job_id].id,
        )
        for job_id in looked_at
        if job_id in named and not store.is_retried_since(look.conn, newest[job_id])
    ]


def _last_failed(look: _Failing, scope: Scope, told: frozenset[int | None]) -> list[Concern]:
    """Jobs that run seldom and failed last: until the next run nobody else would say so."""
    noted = newest_failed_jobs(look.conn, scope=scope, scanned=SELDOM_SCANNED, most=MAX_SELDOM)
    suspects = list(
        dict.fromkeys(
            [each.job_id for each in look.failed] + [each.job_id for each in noted],
        )
    )
    suspects = [job_id for job_id in suspects if job_id not in told][:MAX_SELDOM]
    named = store.named_jobs(look.conn, suspects)
    next_at = store.next_fires_of_jobs(look.conn, named) if named else {}
    marks: dict[int, list[RunSummary]] = {}
    for at in range(0, len(suspects), MAX_JOBS):
        some = [job_id for job_id in suspects[at : at + MAX_JOBS] if job_id in named]
        marks |= recent_summaries(look.conn, some, until=look.now, per_job=SELDOM_MARKS)
    found = []
    for job_id in suspects:
        streak = _streak(marks.get(job_id, []))
        if not streak or not _runs_seldom(marks[job_id], next_at.get(job_id), look.now):
            continue
        one = len(streak) == 1
        found.append(
            _of_job(
                job_id,
                named[job_id],
                kind=ConcernKind.LAST_FAILED,
                template="The last run of “%(job)s” failed."
                if one
                else "The last %(count)d runs of “%(job)s” failed.",
                params={
                    "count": len(streak),
                    "job": named[job_id].name,
                    "next_at": next_at.get(job_id),
                },
                since=_failed_at(streak[-1]),
                last_at=_failed_at(streak[0]),
                run_id=streak[0].id,
            )
        )
    return found[:PER_KIND]


def _runs_seldom(marks: Sequence[RunSummary], next_at: int | None, now: int) -> bool:
    """Whether hours pass between a job's runs."""
    last = next(mark for mark in marks if mark.state in FAILURES)
    if next_at is not None:
        return next_at - last.scheduled_at >= SELDOM_MS
    # It runs when somebody asks for it, and whoever did has seen the end a day later.
    if last.scheduled_at < now - DAY_MS:
        return False
    before = [mark.scheduled_at for mark in marks if mark.scheduled_at < last.scheduled_at]
    return not before or last.scheduled_at - before[0] >= SELDOM_MS


def _rates(look: _Failing, told: frozenset[int | None]) -> list[Concern]:
    """Jobs that fail more often than they used to."""
    often = Counter(each.job_id for each in look.failed if each.job_id not in told)
    suspects = [n for n, count in often.most_common(MAX_RATE_JOBS) if count >= RATE_FAILURES]
    named = store.named_jobs(look.conn, suspects)
    lately = recent_summaries(look.conn, list(named), until=look.now, per_job=LATELY_MARKS)
    before = look.now - DAY_MS
    usual = recent_summaries(look.conn, list(named), until=before, per_job=LATELY_MARKS)
    found = []
    for job_id in suspects:
        if job_id not in named:
            continue
        runs = _lately(lately.get(job_id, []), look.now)
        failures = [mark for mark in runs if mark.state in FAILURES]
        older = _telling(usual.get(job_id, []))
        usual_share = _share(older) if len(older) >= USUAL_AT_LEAST else None
        if len(failures) < RATE_FAILURES or not _is_unusual(_share(runs), usual_share):
            continue
        found.append(
            _of_job(
                job_id,
                named[job_id],
                kind=ConcernKind.FAILURE_RATE,
                template="%(failures)d of the last %(runs)d runs of “%(job)s” failed.",
                params={
                    "failures": len(failures),
                    "runs": len(runs),
                    "job": named[job_id].name,
                    "usual": usual_share,
                },
                since=_failed_at(failures[-1]),
                last_at=_failed_at(failures[0]),
                run_id=failures[0].id,
            )
        )
    return found[:PER_KIND]


def _is_unusual(share: float, usual: float | None) -> bool:
    if usual is None:
        return share >= RATE_UNKNOWN
    return share >= max(RATE_ALWAYS, RATE_MORE * usual)


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


def _failed_at(mark: RunSummary) -> int:
    return mark.ended_at or mark.scheduled_at


def _of_job(job_id: int, job: JobWithExecutor, **more: Any) -> Concern:
    return Concern(
        severity=Severity.ERROR,
        job_id=job_id,
        job_name=job.name,
        executor_id=job.executor_id,
        executor_name=job.executor_name,
        **more,
    )
