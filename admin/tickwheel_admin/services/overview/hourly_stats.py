"""Figures of whole hours as they were counted, and of the newest ones that were not yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.runs.stats import (
    EVERYBODY,
    HOUR_MS,
    RunStat,
    added,
    count_hour,
    read_hours,
)

KEPT_MS = 60_000  # readers see figures up to a minute old
MAX_KEPT = 50  # spans and scopes that are remembered
UNCOUNTED = 3  # hours: what is older and still uncounted waits for engine.rollup


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    at: int
    hours: Mapping[int, RunStat]


class HourFigures:
    """One sum of all executors that a reader sees for each hour; shared by all readers."""

    def __init__(self) -> None:
        self._kept: dict[object, _Kept] = {}
        self._newest: dict[int, tuple[int, list[RunStat]]] = {}  # by hour: when, what

    def get(
        self,
        conn: sa.Connection,
        *,
        from_at: int,
        to_at: int,
        scope: frozenset[int] | None,
        now: int,
    ) -> Mapping[int, RunStat]:
        """By the start of the hour; hours without figures are left out.

        Args:
            from_at: start of the first hour.
            to_at: the last hour begins before it.
            scope: the executors that the reader sees; None: all.
        """
        key = (from_at, to_at // HOUR_MS, scope)
        kept = self._kept.get(key)
        if kept is None or not 0 <= now - kept.at < KEPT_MS:
            hours = self.read(conn, range(from_at, to_at, HOUR_MS), scope, now)
            kept = _Kept(at=now, hours=hours)
            if len(self._kept) >= MAX_KEPT:
                self._kept = {}
            self._kept[key] = kept
        return kept.hours

    def read(
        self, conn: sa.Connection, hours: range, scope: frozenset[int] | None, now: int
    ) -> dict[int, RunStat]:
        """As `get`, and not kept: of so many hours that they would take too much memory."""
        found = _sums(read_hours(conn, hours, executors=_of(scope)), scope)
        if scope is not None and not scope:
            return {}
        # Hours that were counted have a row even when nothing of this scope ran in them.
        begun = now - now % HOUR_MS
        newest = [h for h in hours if begun - UNCOUNTED * HOUR_MS < h <= begun and h not in found]
        for hour_at in newest:
            counted = self._count(conn, hour_at, now)
            found |= _sums([each for each in counted if _is_seen(each, scope)], scope)
        return found

    def _count(self, conn: sa.Connection, hour_at: int, now: int) -> list[RunStat]:
        at, counted = self._newest.get(hour_at, (0, []))
        if not 0 <= now - at < KEPT_MS:
            counted = count_hour(conn, hour_at)
            counted.append(added(hour_at, counted))
            self._newest = {
                hour: (then, stats)
                for hour, (then, stats) in self._newest.items()
                if hour > hour_at - 2 * UNCOUNTED * HOUR_MS
            } | {hour_at: (now, counted)}
        return counted


def _of(scope: frozenset[int] | None) -> Collection[int]:
    return (EVERYBODY,) if scope is None else scope


def _is_seen(stat: RunStat, scope: frozenset[int] | None) -> bool:
    return stat.executor_id in _of(scope)


def _sums(stats: Collection[RunStat], scope: frozenset[int] | None) -> dict[int, RunStat]:
    """One for each hour."""
    if scope is None:
        return {each.hour_at: each for each in stats}
    by_hour: dict[int, list[RunStat]] = {}
    for each in stats:
        by_hour.setdefault(each.hour_at, []).append(each)
    return {hour_at: added(hour_at, parts) for hour_at, parts in by_hour.items()}
