"""Jobs that run slowly or cannot fire."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
)
from tickwheel_admin.store.overview import attention as store
from tickwheel_admin.store.overview.attention import JobWithExecutor, RunningRun, Scope
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries

MAX_JOBS = 50  # looked at for each kind
USUAL = 20  # successes that say what is usual
USUAL_AT_LEAST = 5  # fewer say nothing
USUAL_MARKS = 40
SLOW_FACTOR = 3
SLOW_MS = 30_000


def slow_runs(conn: sa.Connection, scope: Scope, *, now: int) -> list[Concern]:
    """Runs that take more than three times as long as the median of their job's successes."""
    longest: dict[int, RunningRun] = {}
    for each in store.long_running(conn, started_before=now - SLOW_MS, scope=scope):
        longest.setdefault(each.job_id, each)  # the oldest comes first
    looked_at = list(longest)[:MAX_JOBS]
    named = store.named_jobs(conn, looked_at)
    marks = recent_summaries(conn, list(named), until=now, per_job=USUAL_MARKS)
    found = []
    for job_id in looked_at:
        usual = _usual_ms(marks.get(job_id, []))
        run, took = longest[job_id], now - longest[job_id].started_at
        if job_id not in named or usual is None or took <= SLOW_FACTOR * usual:
            continue
        found.append(
            _of_job(
                job_id,
                named[job_id],
                kind=AlarmKind.SLOW,
                severity=Severity.WARNING,
                template="Run %(run)d of “%(job)s” has been running for %(seconds)d s; usual is"
                " %(usual)s s.",
                params={
                    "run": run.id,
                    "job": named[job_id].name,
                    "seconds": took // 1000,
                    "usual": _seconds(usual),
                },
                since=run.started_at,
                run_id=run.id,
            )
        )
    return found[:PER_KIND]


def _usual_ms(newest_first: Iterable[RunSummary]) -> float | None:
    took = [
        mark.duration_ms
        for mark in newest_first
        if mark.state is RunState.SUCCEEDED and mark.duration_ms is not None
    ][:USUAL]
    return median(took) if len(took) >= USUAL_AT_LEAST else None


def _seconds(ms: float) -> str:
    """To the millisecond, without needless zeros."""
    return f"{ms / 1000:.3f}".rstrip("0").rstrip(".")


def trigger_errors(conn: sa.Connection, scope: Scope) -> list[Concern]:
    """Triggers whose schedule cannot be computed."""
    broken = store.broken_triggers(conn, scope=scope, limit=PER_KIND)
    named = store.named_jobs(conn, [each.job_id for each in broken])
    return [
        _of_job(
            each.job_id,
            named[each.job_id],
            kind=AlarmKind.TRIGGER_ERROR,
            severity=Severity.ERROR,
            template="A trigger of “%(job)s” does not fire: %(reason)s",
            params={"job": named[each.job_id].name, "reason": Word(each.reason)},
            trigger_id=each.id,
        )
        for each in broken
        if each.job_id in named
    ]


def _of_job(job_id: int, job: JobWithExecutor, **more: Any) -> Concern:
    return Concern(
        job_id=job_id,
        job_name=job.name,
        executor_id=job.executor_id,
        executor_name=job.executor_name,
        **more,
    )
