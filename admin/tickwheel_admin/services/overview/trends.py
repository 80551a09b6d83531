"""How runs went over weeks: of everything, of an executor, of jobs with a tag, or of a job.

Of executors these are hourly figures, which stay when runs are deleted; of jobs the ledger itself,
as far back as it is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.job import parse_tag
from tickwheel_admin.domain.runs.trend import (
    DAYS,
    HOUR_MS,
    MONDAY,
    TrendBucket,
    TrendStep,
    added,
    bounds_of,
)
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.services.lists.scope import not_found, visible_executors
from tickwheel_admin.services.overview.hourly_stats import HourFigures
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.jobs.filters import JobFilter, job_ids
from tickwheel_admin.store.jobs.jobs import get_job
from tickwheel_admin.store.runs.job_trends import jobs_bucket
from tickwheel_admin.store.runs.stats import RunStat

DAY_MS = 24 * HOUR_MS
MAX_DAYS = 400  # as long as hourly figures are kept
MAX_BUCKETS = {TrendStep.HOUR: 24 * 14, TrendStep.DAY: MAX_DAYS, TrendStep.WEEK: MAX_DAYS}
MAX_JOB_BUCKETS = 60
WHOLE = 500  # up to so many runs of a bucket of a job are all read; of more a sample
COUNTED = 20_000  # beyond it the number of runs is the least it may be
MAX_TAG_BUCKETS = 2_600  # jobs times buckets: 200 jobs over 12 weeks
TAG_RUNS = 30_000  # that are read for a tag, in all buckets together
MIN_TAG_RUNS = 20  # of a bucket of one job
TAG_COUNTED = 5_000  # beyond it the number of runs of such a bucket is the least it may be
USUAL_DAYS = {TrendStep.HOUR: 2, TrendStep.DAY: 28, TrendStep.WEEK: 12 * DAYS}
HOURS_AT_ONCE = 24 * DAYS
MAX_ROWS = 100_000  # hours times executors
HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class HourOfWeek:
    """All runs of one hour of the weeks of the reader's clock."""

    runs: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """Buckets oldest first, and all of them together."""

    step: TrendStep
    zone: str
    buckets: list[TrendBucket]
    whole: TrendBucket
    # Rows of a day, from Monday, of 24 hours; None: of jobs, whose ledger is not read by the hour.
    week: list[list[HourOfWeek]] | None


class TrendFigures:
    """Reads them in bounded queries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hours = HourFigures()
        self._heavy = HeavyReads()

    async def get(
        self,
        actor: Actor,
        *,
        step: TrendStep = TrendStep.WEEK,
        executor_id: int | None = None,
        job_id: int | None = None,
        tag: str | None = None,
        from_at: int | None = None,
        to_at: int | None = None,
        zone: str = "UTC",
    ) -> Trends:
        """The figures of a time.

        Args:
            executor_id: of this executor; None: of all that the caller sees.
            job_id: of this job only, which must be of the executor if that is given, too.
            tag: of the jobs that have this tag now.
            from_at: UTC epoch ms, in the first bucket; None: 12 weeks, 28 days or 2 days of hours.
            to_at: UTC epoch ms, the end of the last bucket; None: now.
            zone: an IANA name; its days and weeks are the buckets.

        Raises:
            InvalidInput: the zone is unknown, the time is too long for the step, or the job is of
                another executor.
            NotFound: there is no such job, or the caller may not see it.
        """
        try:
            found_zone = zone_of(zone)
        except ScheduleError as error:
            raise InvalidInput.one(
                "timezone", "zone.unknown", error.template, **error.params
            ) from None
        async with self._heavy.turn(actor.user_id):
            now = await self._store.read(now_ms)
            until = now if to_at is None else min(to_at, now)
            begin = until - USUAL_DAYS[step] * DAY_MS if from_at is None else from_at
            if job_id is not None and tag is not None:
                raise InvalidInput.one(
                    "tag", "does_not_apply", "Give either a job or a tag: a job is one alone."
                )
            _check(step, begin, until, of_jobs=job_id is not None or tag is not None)
            bounds = bounds_of(step, begin, until, found_zone)
            if job_id is not None:
                return await self._store.read(
                    self._of_job, actor, job_id, executor_id, step, bounds, zone
                )
            scope = visible_executors(actor, executor_id)
            if tag is not None:
                tag = parse_tag(tag, is_there=True)
                return await self._of_tag(scope, tag, step, bounds, zone)
            hours = (bounds[-1] - bounds[0]) // HOUR_MS
            if scope is not None and hours * len(scope) > MAX_ROWS:
                raise InvalidInput.one(
                    "executor_id",
                    "trends.too_many",
                    "These are too many figures: choose an executor, or a shorter time.",
                )
            return await self._store.read(self._of_hours, scope, step, bounds, found_zone, now)

    def _of_job(
        self,
        conn: sa.Connection,
        actor: Actor,
        job_id: int,
        executor_id: int | None,
        step: TrendStep,
        bounds: list[int],
        zone: str,
    ) -> Trends:
        job = get_job(conn, job_id)
        if job is None:
            raise not_found()
        actor.require(Permission.VIEW, job.executor_id)
        if executor_id not in (None, job.executor_id):
            raise InvalidInput.one(
                "executor_id",
                "does_not_apply",
                "The job is of another executor: leave one of the two out.",
            )
        buckets = [
            jobs_bucket(conn, [job_id], start, end, whole=WHOLE, counted=COUNTED)
            for start, end in itertools.pairwise(bounds)
        ]
        whole = added(bounds[0], bounds[-1], buckets)
        return Trends(step=step, zone=zone, buckets=buckets, whole=whole, week=None)

    async def _of_tag(
        self, scope: frozenset[int] | None, tag: str, step: TrendStep, bounds: list[int], zone: str
    ) -> Trends:
        wanted = JobFilter(executors=scope, tags=(tag,))
        jobs = sorted(await self._store.read(job_ids, wanted))
        cells = len(jobs) * (len(bounds) - 1)
        if cells > MAX_TAG_BUCKETS:
            raise InvalidInput.one(
                "tag",
                "trends.too_many_jobs",
                "%(jobs)d jobs have this tag: choose an executor, or a shorter time.",
                jobs=len(jobs),
            )
        whole = min(WHOLE, max(MIN_TAG_RUNS, TAG_RUNS // max(cells, 1)))

        def read(conn: sa.Connection, start: int, end: int) -> TrendBucket:
            return jobs_bucket(conn, jobs, start, end, whole=whole, counted=TAG_COUNTED)

        # One read each, so that nobody else waits for all of them.
        buckets = [
            await self._store.read(read, start, end) for start, end in itertools.pairwise(bounds)
        ]
        total = added(bounds[0], bounds[-1], buckets)
        return Trends(step=step, zone=zone, buckets=buckets, whole=total, week=None)

    def _of_hours(
        self,
        conn: sa.Connection,
        scope: frozenset[int] | None,
        step: TrendStep,
        bounds: list[int],
        zone: Zone,
        now: int,
    ) -> Trends:
        week = [[HourOfWeek() for _ in range(HOURS)] for _ in range(DAYS)]
        buckets = []
        for start, end in itertools.pairwise(bounds):
            parts: list[TrendBucket] = []
            for first in range(start, end, HOURS_AT_ONCE * HOUR_MS):
                hours = range(first, min(first + HOURS_AT_ONCE * HOUR_MS, end), HOUR_MS)
                found = self._hours.read(conn, hours, scope, now)
                parts += [_bucket(each) for each in found.values()]
                _count(week, found, zone)
            buckets.append(added(start, end, parts))
        whole = added(bounds[0], bounds[-1], buckets)
        return Trends(step=step, zone=zone.name, buckets=buckets, whole=whole, week=week)


def _check(step: TrendStep, begin: int, until: int, *, of_jobs: bool) -> None:
    if begin < 0 or begin >= until:
        raise InvalidInput.one("from", "trends.order", "This must be before the end, and now.")
    length = {TrendStep.HOUR: HOUR_MS, TrendStep.DAY: DAY_MS, TrendStep.WEEK: DAYS * DAY_MS}[step]
    most = MAX_JOB_BUCKETS if of_jobs else MAX_BUCKETS[step]
    if until - begin > min(most * length, MAX_DAYS * DAY_MS):
        raise InvalidInput.one(
            "from",
            "trends.too_long",
            "This is too long ago for steps of this length: at most %(days)d days.",
            days=min(most * length // DAY_MS, MAX_DAYS),
        )


def _bucket(stat: RunStat) -> TrendBucket:
    return TrendBucket(
        start_at=stat.hour_at,
        end_at=stat.hour_at + HOUR_MS,
        succeeded=stat.succeeded,
        failed=stat.failed,
        timed_out=stat.timed_out,
        cancelled=stat.cancelled,
        delays=stat.delays,
        durations=stat.durations,
    )


def _count(week: Sequence[list[HourOfWeek]], found: Mapping[int, RunStat], zone: Zone) -> None:
    for stat in found.values():
        local = zone.to_local(stat.hour_at // 1000)[0]
        day, hour = (local // DAY_SECONDS - MONDAY) % DAYS, local % DAY_SECONDS // 3600
        before = week[day][hour]
        week[day][hour] = HourOfWeek(
            runs=before.runs + _bucket(stat).total,
            failures=before.failures + stat.failed + stat.timed_out,
        )
