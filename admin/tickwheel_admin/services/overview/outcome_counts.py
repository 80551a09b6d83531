"""Ended runs of the last hours, counted from the ledger's index: the old part seldom.

A count costs an index entry per run, so all but the newest two columns are counted once for
everybody and kept for a third of a column's length; late results and retries show then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.services.overview.periods import Period
from tickwheel_admin.store.runs.outcome_counts import OutcomeCount, count_outcomes

NEWEST = 2  # columns that are counted every time
KEPT_SHARE = 3  # of a column's length: 20 s for minutes, ten minutes for half hours


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """Outcomes from `from_at` until `split_at`, as they were counted at `at`."""

    at: int
    from_at: int
    split_at: int
    counts: list[OutcomeCount]


class OutcomeCounts:
    """Counts by column, executor and state; shared by all readers of one admin."""

    def __init__(self) -> None:
        self._old: dict[Period, _Counted] = {}  # threads may both count; either result is right

    def get(
        self, conn: sa.Connection, period: Period, *, from_at: int, now: int
    ) -> Iterable[OutcomeCount]:
        """What was scheduled from `from_at`, the start of a column, until now."""
        step = period.bucket_ms
        old = self._old.get(period)
        if old is None or not 0 <= now - old.at < step // KEPT_SHARE or from_at < old.from_at:
            split_at = now - now % step - NEWEST * step
            counts = count_outcomes(conn, from_at=from_at, to_at=split_at, bucket_ms=step)
            old = _Counted(at=now, from_at=from_at, split_at=split_at, counts=counts)
            self._old[period] = old
        recent = count_outcomes(conn, from_at=old.split_at, to_at=now + 1, bucket_ms=step)
        return [each for each in old.counts if each.start_at >= from_at] + recent
