"""How runs of a period ended and how late they started, beside the same length before it.

Columns of less than an hour are counted from the ledger; columns of hours add up hourly figures,
which are also there for runs that were deleted since. Start delays of up to six hours come from a
sample of runs, of longer periods from the samples that hourly figures keep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.services.overview.hourly_stats import HourFigures
from tickwheel_admin.services.overview.outcome_counts import OutcomeCounts
from tickwheel_admin.services.overview.periods import HOUR_MS, OutcomeBucket, Period
from tickwheel_admin.store.runs.outcome_counts import OutcomeCount
from tickwheel_admin.store.runs.stats import RunStat, SampledRun, sample_runs

LATE_SHARE = 0.95  # of the runs started sooner than the delay that is told
SAMPLED = 1_000  # runs of a short period whose start is looked at, and as many of the one before
SAMPLE_KEPT_MS = 30_000
MAX_KEPT = 50
POINTS = 12  # of a short period's line of start delays


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """Of one period, as far as the reader may see."""

    period: Period
    buckets: list[OutcomeBucket]  # oldest first; the last one is not over
    delays: list[int | None]  # ms, from the start of the period to now; None: nothing started
    delay: int | None  # ms that 95 % of the runs did not exceed between their instant and start
    former: OutcomeBucket  # all of the period before
    former_delay: int | None

    @property
    def whole(self) -> OutcomeBucket:
        """All of the period."""
        return _added(self.buckets[0].start_at, self.buckets)


class RunFiguresReader:
    """Reads them in bounded queries; what it keeps is shared by all readers of one admin."""

    def __init__(self) -> None:
        self._counts = OutcomeCounts()
        self._hours = HourFigures()
        self._samples: dict[object, tuple[int, list[SampledRun]]] = {}

    def read(
        self,
        conn: sa.Connection,
        period: Period,
        *,
        scope: frozenset[int] | None,
        now: int,
        zone_offset_ms: int = 0,
    ) -> RunFigures:
        """The figures of the period that ends now."""
        first = period.first_start(now, zone_offset_ms=zone_offset_ms)
        if period.bucket_ms >= HOUR_MS:
            return self._of_hours(conn, period, first, scope=scope, now=now)
        if period is Period.DAY:
            return self._of_day(conn, first, scope=scope, now=now)
        return self._of_minutes(conn, period, first, scope=scope, now=now)

    def _of_hours(
        self,
        conn: sa.Connection,
        period: Period,
        first: int,
        *,
        scope: frozenset[int] | None,
        now: int,
    ) -> RunFigures:
        from_at = first - period.length_ms
        hours = self._hours.get(conn, from_at=from_at, to_at=now + 1, scope=scope, now=now)
        starts = range(first, first + period.length_ms, period.bucket_ms)
        parts = [_within(hours, start, start + period.bucket_ms) for start in starts]
        former = _within(hours, from_at, first)
        return RunFigures(
            period=period,
            buckets=[_of_stats(start, part) for start, part in zip(starts, parts, strict=True)],
            delays=[_late(part) for part in parts],
            delay=_late(_within(hours, first, now + 1)),
            former=_of_stats(from_at, former),
            former_delay=_late(former),
        )

    def _of_day(
        self, conn: sa.Connection, first: int, *, scope: frozenset[int] | None, now: int
    ) -> RunFigures:
        """Half hours are counted, the rest are hourly figures."""
        counts = _seen(self._counts.get(conn, Period.DAY, from_at=first, now=now), scope)
        begin = first - first % HOUR_MS
        from_at = begin - Period.DAY.length_ms
        hours = self._hours.get(conn, from_at=from_at, to_at=now + 1, scope=scope, now=now)
        former = _within(hours, from_at, begin)
        return RunFigures(
            period=Period.DAY,
            buckets=_of_counts(counts, Period.DAY, first),
            delays=[_late(_within(hours, at, at + 1)) for at in range(begin, now, HOUR_MS)],
            delay=_late(_within(hours, begin, now + 1)),
            former=_of_stats(from_at, former),
            former_delay=_late(former),
        )

    def _of_minutes(
        self,
        conn: sa.Connection,
        period: Period,
        first: int,
        *,
        scope: frozenset[int] | None,
        now: int,
    ) -> RunFigures:
        from_at = first - period.length_ms
        counts = _seen(self._counts.get(conn, period, from_at=from_at, now=now), scope)
        buckets = _of_counts(counts, period, from_at, spans=2)
        former, own = buckets[: period.buckets], buckets[period.buckets :]
        sample = self._sample(conn, period, scope, now, runs=sum(b.total for b in buckets))
        point = period.length_ms // POINTS
        starts = range(first, first + period.length_ms, point)
        return RunFigures(
            period=period,
            buckets=own,
            delays=[_quantile(sample, start, start + point) for start in starts],
            delay=_quantile(sample, first, now + 1),
            former=_added(from_at, former),
            former_delay=_quantile(sample, from_at, first),
        )

    def _sample(
        self,
        conn: sa.Connection,
        period: Period,
        scope: frozenset[int] | None,
        now: int,
        *,
        runs: int,
    ) -> list[SampledRun]:
        """Starts of the period and of the one before."""
        at, sample = self._samples.get((period, scope), (0, []))
        if not 0 <= now - at < SAMPLE_KEPT_MS:
            sample = sample_runs(
                conn,
                from_at=now - 2 * period.length_ms,
                to_at=now + 1,
                every=max(1, runs // (2 * SAMPLED)),
                scope=scope,
                limit=4 * SAMPLED,
            )
            if len(self._samples) >= MAX_KEPT:
                self._samples = {}
            self._samples[period, scope] = (now, sample)
        return sample


def _seen(counts: Iterable[OutcomeCount], scope: frozenset[int] | None) -> list[OutcomeCount]:
    return [each for each in counts if scope is None or each.executor_id in scope]


def _of_counts(
    counts: Iterable[OutcomeCount], period: Period, first: int, *, spans: int = 1
) -> list[OutcomeBucket]:
    """Columns from `first` on, for so many periods."""
    by_start: defaultdict[int, defaultdict[RunState, int]] = defaultdict(lambda: defaultdict(int))
    for each in counts:
        by_start[each.start_at][each.state] += each.runs
    return [
        OutcomeBucket(
            start_at=start,
            succeeded=by_start[start][RunState.SUCCEEDED],
            failed=by_start[start][RunState.FAILED] + by_start[start][RunState.LOST],
            timed_out=by_start[start][RunState.TIMED_OUT],
            other=by_start[start][RunState.CANCELLED],
        )
        for start in range(first, first + spans * period.length_ms, period.bucket_ms)
    ]


def _within(hours: Mapping[int, RunStat], from_at: int, to_at: int) -> list[RunStat]:
    """The figures of hours that begin within a time."""
    begin = from_at + -from_at % HOUR_MS
    return [hours[at] for at in range(begin, to_at, HOUR_MS) if at in hours]


def _of_stats(start_at: int, stats: Iterable[RunStat]) -> OutcomeBucket:
    parts = [
        OutcomeBucket(
            start_at=start_at,
            succeeded=each.succeeded,
            failed=each.failed,
            timed_out=each.timed_out,
            other=each.cancelled,
        )
        for each in stats
    ]
    return _added(start_at, parts)


def _added(start_at: int, parts: Sequence[OutcomeBucket]) -> OutcomeBucket:
    return OutcomeBucket(
        start_at=start_at,
        succeeded=sum(each.succeeded for each in parts),
        failed=sum(each.failed for each in parts),
        timed_out=sum(each.timed_out for each in parts),
        other=sum(each.other for each in parts),
    )


def _late(stats: Iterable[RunStat]) -> int | None:
    return TimeHistogram.sum(each.delays for each in stats).quantile(LATE_SHARE)


def _quantile(sample: Iterable[SampledRun], from_at: int, to_at: int) -> int | None:
    delays = sorted(each.delay_ms for each in sample if from_at <= each.scheduled_at < to_at)
    return delays[max(0, -(-len(delays) * 95 // 100) - 1)] if delays else None
