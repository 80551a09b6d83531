"""Counts how the runs of each hour ended, so that charts of weeks need not read millions of runs.

An hour is counted two minutes after it is over and again after an hour, six hours, a day and eight
days: runs that took long, tries that were repeated and results that came late have ended by then
(no timeout and no wait for another try is longer than seven days). An hour of which a retry by hand
has made failures good is counted again at the next pass. Hours that were missed, because no admin
ran or figures were not kept yet, are counted from the newest back, a few in each pass.

Beside the figures of an hour it notes the jobs that failed in it, and forgets those that have
recovered since, some of them in each pass (`store.overview.job_failures`).

It also counts what the last runs of each job say, for lists that are sorted by it
(`store.overview.job_figures`).

Any number of admins may do this at once: a count replaces an earlier one only, so the last one
holds whoever wrote it. Which hours are due is read from a few hundred keys every five minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.runs.run import FAILURES, PASSED_OVER
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.overview.job_failures import (
    JobFailure,
    count_failed_jobs,
    failed_jobs_after,
    forget_failed_jobs,
    note_failed_jobs,
)
from tickwheel_admin.store.overview.job_figures import keep_figures, look_at_jobs
from tickwheel_admin.store.runs.retries import hours_made_good
from tickwheel_admin.store.runs.stats import (
    HOUR_MS,
    count_hour,
    counted_hours,
    first_counted,
    first_hour,
    remove_old_stats,
    slices_of,
    write_stats,
)
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries

log = structlog.get_logger(__name__)

MINUTE_MS, DAY_MS = 60_000, 86_400_000
COUNTED_AFTER_MS = (2 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS, 8 * DAY_MS)  # after an hour's end
RECENT_MS = COUNTED_AFTER_MS[-1] + 2 * HOUR_MS  # what may have to be counted again began since
KEPT_DAYS = 400  # so long figures are kept; twelve months and a little
HOURS_PER_PASS = 12
LOOKED_BACK_MS = DAY_MS  # for retries that made up for failures
HOURS_PER_LOOK = 480  # how many of the older hours are looked up at once
REMOVED_PER_PASS = 24  # hours
FAILED_JOBS_KEPT_DAYS = 40  # a job that fires once a month is told of until it fires again
FAILED_JOBS_PER_BATCH = 100
FAILED_JOB_BATCHES = 10  # of each pass
FIGURES_PER_BATCH = 100  # jobs
FIGURE_BATCHES = 100  # of each pass: 10,000 jobs are looked at in it, 100,000 within the hour
MARKS = 5  # newest runs of a job that are read to tell how it does


class Rollup(Loop):
    """Small reads and smaller writes, far from the hot path."""

    interval_seconds = 300.0

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        # Older hours, which are counted only once, are searched from here back. None: not begun;
        # it is done once per process, and again after a long pause.
        self._back_to: int | None = None
        self._looked_at: int | None = None
        self._failed_after = 0  # jobs that failed are checked in the order of ids, in a circle
        self._figures_after = 0  # so are the figures of all jobs

    async def run_once(self) -> bool:
        now = await self._store.read(now_ms)
        if self._looked_at is not None and now - self._looked_at > RECENT_MS - 2 * HOUR_MS:
            self._back_to = None  # this machine slept for a week
        self._looked_at = now
        first = await self._store.read(first_hour)
        if first is not None:
            oldest = max(first, _hour(now - KEPT_DAYS * DAY_MS))
            recent_from = max(oldest, _hour(now - RECENT_MS))
            recent = range(_hour(now) - HOUR_MS, recent_from - HOUR_MS, -HOUR_MS)
            due = await self._due(recent, now)
            due += [at for at in await self._made_good(oldest, now) if at not in due]
            for hour_at in due[:HOURS_PER_PASS]:
                await self._count(hour_at, now)
            if due or await self._catch_up(recent_from, oldest, now):
                return True
        await self._forget_recovered(now)
        await self._count_figures(now)
        kept_from = _hour(now - KEPT_DAYS * DAY_MS)
        if (await self._store.read(first_counted) or now) >= kept_from:
            return False
        await self._store.run(remove_old_stats, before=kept_from, hours=REMOVED_PER_PASS)
        return True

    async def _due(self, hours: Iterable[int], now: int) -> list[int]:
        """Those of the hours that want to be counted, in the order given."""
        asked = list(hours)
        counted = await self._store.read(counted_hours, asked)
        return [hour_at for hour_at in asked if _is_due(hour_at, counted.get(hour_at), now)]

    async def _made_good(self, oldest: int, now: int) -> list[int]:
        """Hours that were counted before retries made failures of theirs good, newest first."""
        hours = await self._store.read(hours_made_good, since=now - LOOKED_BACK_MS, hour_ms=HOUR_MS)
        counted = await self._store.read(counted_hours, list(hours)) if hours else {}
        late = [at for at, last_at in hours.items() if counted.get(at, last_at) < last_at]
        return sorted((at for at in late if at >= oldest), reverse=True)

    async def _catch_up(self, until: int, oldest: int, now: int) -> bool:
        """Count older hours that never were, newest first; whether there may be more of them."""
        if self._back_to is None:
            self._back_to = until
        if self._back_to <= oldest:
            return False
        last = max(oldest, self._back_to - HOURS_PER_LOOK * HOUR_MS)
        hours = list(range(self._back_to - HOUR_MS, last - HOUR_MS, -HOUR_MS))
        counted = await self._store.read(counted_hours, hours)
        missing = [hour_at for hour_at in hours if hour_at not in counted]
        for hour_at in missing[:HOURS_PER_PASS]:
            await self._count(hour_at, now)
        if len(missing) <= HOURS_PER_PASS:
            self._back_to = last
        return True

    async def _count(self, hour_at: int, now: int) -> None:
        # The time before the count: whatever it did not see came after that.
        counted_at = await self._store.read(now_ms)
        counted = await self._store.read(count_hour, hour_at)
        await self._store.run(write_stats, hour_at, counted, counted_at=counted_at)
        log.debug("hour.counted", hour_at=hour_at, runs=sum(each.total for each in counted))
        if hour_at >= now - FAILED_JOBS_KEPT_DAYS * DAY_MS and any(
            each.failed or each.timed_out for each in counted
        ):
            failed = await self._store.read(_failed_jobs, hour_at)
            await self._store.run(note_failed_jobs, failed)

    async def _forget_recovered(self, now: int) -> None:
        """Look through some of the jobs that failed: a success since then ends it."""
        for _ in range(FAILED_JOB_BATCHES):
            failed = await self._store.read(
                failed_jobs_after, self._failed_after, limit=FAILED_JOBS_PER_BATCH
            )
            self._failed_after = failed[-1].job_id if failed else 0
            over = await self._store.read(_over, failed, now=now) if failed else []
            if over:
                await self._store.run(forget_failed_jobs, over)
            if len(failed) < FAILED_JOBS_PER_BATCH:
                self._failed_after = 0
                return

    async def _count_figures(self, now: int) -> None:
        """Look through some of the jobs; only figures that changed are written."""
        for _ in range(FIGURE_BATCHES):
            found = await self._store.read(
                look_at_jobs, self._figures_after, now=now, limit=FIGURES_PER_BATCH
            )
            self._figures_after = found.last_id
            if found.changed:
                await self._store.run(keep_figures, found.changed)
            if not found.last_id:
                return


def _hour(at: int) -> int:
    return at - at % HOUR_MS


def _is_due(hour_at: int, counted_at: int | None, now: int) -> bool:
    """Whether an instant to count the hour has passed since it was counted last."""
    ends_at = hour_at + HOUR_MS
    passed = [ends_at + after for after in COUNTED_AFTER_MS if ends_at + after <= now]
    return bool(passed) and (counted_at is None or counted_at < passed[-1])


def _failed_jobs(conn: sa.Connection, hour_at: int) -> list[JobFailure]:
    newest: dict[int, JobFailure] = {}
    for from_at, to_at in slices_of(conn, hour_at):
        # The parts come in the order of time, so a later one holds the newer failure.
        newest |= {e.job_id: e for e in count_failed_jobs(conn, from_at=from_at, to_at=to_at)}
    return list(newest.values())


def _over(conn: sa.Connection, failed: Sequence[JobFailure], *, now: int) -> list[int]:
    """Jobs whose last run did not fail, whose failure is long ago, or whose runs are gone."""
    marks = recent_summaries(conn, [each.job_id for each in failed], until=now, per_job=MARKS)
    return [
        each.job_id
        for each in failed
        if each.scheduled_at < now - FAILED_JOBS_KEPT_DAYS * DAY_MS
        or not _may_fail_still(marks.get(each.job_id, ()))
    ]


def _may_fail_still(newest_first: Sequence[RunSummary]) -> bool:
    ended = [mark for mark in newest_first if mark.ended_at is not None]
    telling = [mark for mark in ended if mark.state not in PASSED_OVER]
    return telling[0].state in FAILURES if telling else bool(newest_first)
