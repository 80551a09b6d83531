"""Jobs that fail: in a row, again after a retry, in their last run, or more often than usual.

Each job is told once, by the first of these that holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, PASSED_OVER
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
)
from tickwheel_admin.services.overview.attention.rates import (
    failed_at,
    failure_rates,
    of_job,
    often_failed,
)
from tickwheel_admin.store.overview import attention as store
from tickwheel_admin.store.overview.attention import FailedRun, Scope
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
    found += last_failed(conn, scope, failed, told=_jobs_of(found), now=now)[:PER_KIND]
    found += failure_rates(conn, often_failed(failed, without=_jobs_of(found)), now=now)[:PER_KIND]
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
                of_job(
                    job_id,
                    named[job_id],
                    kind=AlarmKind.FAILING_STREAK,
                    # Also when there are more of them: nobody looked further.
                    template="The last %(count)d runs of “%(job)s” failed.",
                    params={"count": len(streak), "job": named[job_id].name},
                    since=failed_at(streak[-1]),
                    last_at=failed_at(streak[0]),
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
        of_job(
            job_id,
            named[job_id],
            kind=AlarmKind.RETRY_FAILED,
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


def last_failed(
    conn: sa.Connection,
    scope: Scope,
    failed: Sequence[FailedRun],
    *,
    told: frozenset[int | None] = frozenset(),
    most: int = MAX_SELDOM,
    now: int,
) -> list[Concern]:
    """Jobs that run seldom and failed last: until the next run nobody else would say so.

    Args:
        failed: the newest failed runs, newest first.
        told: jobs that are left out.
        most: jobs that are looked at.
    """
    noted = newest_failed_jobs(conn, scope=scope, scanned=SELDOM_SCANNED, most=most)
    suspects = list(
        dict.fromkeys(
            [each.job_id for each in failed] + [each.job_id for each in noted],
        )
    )
    suspects = [job_id for job_id in suspects if job_id not in told][:most]
    named = store.named_jobs(conn, suspects)
    next_at = store.next_fires_of_jobs(conn, named) if named else {}
    marks: dict[int, list[RunSummary]] = {}
    for at in range(0, len(suspects), MAX_JOBS):
        some = [job_id for job_id in suspects[at : at + MAX_JOBS] if job_id in named]
        marks |= recent_summaries(conn, some, until=now, per_job=SELDOM_MARKS)
    found = []
    for job_id in suspects:
        streak = _streak(marks.get(job_id, []))
        if not streak or not _runs_seldom(marks[job_id], next_at.get(job_id), now):
            continue
        one = len(streak) == 1
        found.append(
            of_job(
                job_id,
                named[job_id],
                kind=AlarmKind.LAST_FAILED,
                template="The last run of “%(job)s” failed."
                if one
                else "The last %(count)d runs of “%(job)s” failed.",
                params={
                    "count": len(streak),
                    "job": named[job_id].name,
                    "next_at": next_at.get(job_id),
                },
                since=failed_at(streak[-1]),
                last_at=failed_at(streak[0]),
                run_id=streak[0].id,
            )
        )
    return found


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
