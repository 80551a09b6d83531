"""The overview: how things stand, in a few bounded queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, LIVE
from tickwheel_admin.domain.triggers.trigger import Trigger
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.services.overview.periods import OutcomeBucket as OutcomeBucket
from tickwheel_admin.services.overview.periods import Period as Period
from tickwheel_admin.services.overview.run_stats import RunFigures as RunFigures
from tickwheel_admin.services.overview.run_stats import RunFiguresReader
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import Capacity, capacities
from tickwheel_admin.store.overview import overview as store_overview
from tickwheel_admin.store.runs.lists import RunItem
from tickwheel_admin.store.runs.pages import RunFilter, page_runs
from tickwheel_admin.store.triggers.pauses import read_pauses
from tickwheel_admin.store.triggers.triggers import triggers_of_jobs

NEXT_FIRES_WITHIN_MS = 3_600_000
MAX_NEXT_FIRES = 8
FREQUENT_MS = 120_000  # what fires more often is no event of its own
MAX_SOON = 100  # triggers that fire within that time, among which are those that fire often
MAX_FREQUENT = 5
MAX_RUNNING = 8
MAX_FAILURES = 6
FAILED_WITHIN_MS = 86_400_000
MAX_ADMINS = 50
MAX_PAGES = 5  # read for one list, of 4,000 rows each


class OverviewPart(StrEnum):
    """What of the overview is wanted: parts of an open page ask for themselves alone."""

    COUNTS = "counts"  # runs and nodes as they are now
    FIGURES = "figures"  # of the period
    NEXT = "next"  # what fires within the hour
    RUNNING = "running"
    FAILURES = "failures"


EVERYTHING = frozenset(OverviewPart)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextJob:
    """A job that fires within the next hour."""

    id: int
    name: str
    triggers: list[Trigger]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminView:
    """An admin."""

    id: int
    name: str
    version: str
    lease_expires_at: int
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Runs and nodes as they are now."""

    running: int
    waiting: int  # due and queued, counted up to 10,000
    live_nodes: int
    slots: int  # of live nodes
    in_use: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewData:
    """How things stand, as far as the caller may see; parts that were not asked for are empty."""

    now: int  # the database's time
    counts: Counts | None
    figures: RunFigures | None
    next_jobs: list[NextJob]  # the one that fires first on top
    running_now: list[RunItem]  # steps are left out, as among the failures
    recent_failures: list[RunItem]  # of the last 24 h, that no retry has made good
    first_steps: bool  # there is no job yet
    paused_at: int | None  # since when everything is paused
    paused_executors: int  # that are paused by themselves


class Overview:
    """The use cases of the overview page."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._figures = RunFiguresReader()

    async def get(
        self,
        actor: Actor,
        period: Period = Period.DAY,
        *,
        parts: Collection[OverviewPart] = EVERYTHING,
        zone_offset_ms: int = 0,
    ) -> OverviewData:
        """How things stand.

        Args:
            period: of the figures; nothing else depends on it.
            zone_offset_ms: of the reader's time zone from UTC.
        """
        scope = visible_executors(actor)
        return await self._store.read(self._read, scope, period, frozenset(parts), zone_offset_ms)

    async def admins(self) -> list[AdminView]:
        """The admins that share the database, for whoever is logged in."""
        return await self._store.read(_admins)

    def _read(
        self,
        conn: sa.Connection,
        scope: frozenset[int] | None,
        period: Period,
        parts: frozenset[OverviewPart],
        zone_offset_ms: int,
    ) -> OverviewData:
        now = now_ms(conn)
        pauses = read_pauses(conn, None)
        figures = None
        if OverviewPart.FIGURES in parts:
            figures = self._figures.read(
                conn, period, scope=scope, now=now, zone_offset_ms=zone_offset_ms
            )
        next_jobs: list[NextJob] = []
        if OverviewPart.NEXT in parts and pauses.everything is None:
            next_jobs = _next_jobs(conn, scope, now=now, without=pauses.executors)
        live = RunFilter(states=LIVE, executors=scope, without_steps=True)
        failed = RunFilter(
            states=FAILURES,
            made_good=False,
            executors=scope,
            without_steps=True,
            from_at=now - FAILED_WITHIN_MS,
        )
        return OverviewData(
            now=now,
            counts=_counts(conn, scope, now=now) if OverviewPart.COUNTS in parts else None,
            figures=figures,
            next_jobs=next_jobs,
            running_now=_newest(conn, live, MAX_RUNNING) if OverviewPart.RUNNING in parts else [],
            recent_failures=_newest(conn, failed, MAX_FAILURES)
            if OverviewPart.FAILURES in parts
            else [],
            paused_at=pauses.everything,
            paused_executors=sum(
                1 for executor_id in pauses.executors if scope is None or executor_id in scope
            ),
            first_steps=not store_overview.has_any_job(conn, scope=scope),
        )


def _newest(conn: sa.Connection, wanted: RunFilter, limit: int) -> list[RunItem]:
    """The newest; steps of workflows may lie between them, more than one page looks at."""
    found, before = page_runs(conn, wanted, before=None, limit=limit)
    pages = 1
    while before is not None and len(found) < limit and pages < MAX_PAGES:
        more, before = page_runs(conn, wanted, before=before, limit=limit - len(found))
        found += more
        pages += 1
    return found


def _counts(conn: sa.Connection, scope: frozenset[int] | None, *, now: int) -> Counts:
    nodes: Collection[Capacity] = capacities(conn, scope=scope).values()
    return Counts(
        running=store_overview.count_live(conn, scope=scope),
        waiting=store_overview.count_waiting(conn, until=now, scope=scope),
        live_nodes=sum(each.live_nodes for each in nodes),
        slots=sum(each.slots for each in nodes),
        in_use=sum(each.in_use for each in nodes),
    )


def _next_jobs(
    conn: sa.Connection, scope: frozenset[int] | None, *, now: int, without: Collection[int]
) -> list[NextJob]:
    # Whatever fires often does so within the next two minutes, so beyond them are only the others.
    soon = store_overview.next_fires(
        conn,
        from_at=now,
        to_at=now + FREQUENT_MS,
        scope=scope,
        limit=MAX_SOON,
        without=without,
    )
    later = store_overview.next_fires(
        conn,
        from_at=now + FREQUENT_MS,
        to_at=now + NEXT_FIRES_WITHIN_MS,
        scope=scope,
        limit=MAX_NEXT_FIRES,
        without=without,
    )
    seldom = store_overview.next_fires(
        conn,
        from_at=now,
        to_at=now + FREQUENT_MS,
        scope=scope,
        limit=MAX_NEXT_FIRES,
        without=without,
        apart_ms=FREQUENT_MS,
    )
    frequent = {fire.job_id: fire.job_name for fire in soon if _is_frequent(fire)}
    others = {
        fire.job_id: fire.job_name for fire in [*seldom, *later] if fire.job_id not in frequent
    }
    names = dict(list(others.items())[:MAX_NEXT_FIRES])
    names |= dict(list(frequent.items())[:MAX_FREQUENT])
    triggers = triggers_of_jobs(conn, list(names)) if names else {}
    return [
        NextJob(
            id=job_id,
            name=name,
            triggers=[each.trigger for each in triggers[job_id]],
        )
        for job_id, name in names.items()
        if job_id in triggers
    ]


def _is_frequent(fire: store_overview.NextFire) -> bool:
    return fire.last_at is not None and fire.at - fire.last_at < FREQUENT_MS


def _admins(conn: sa.Connection) -> list[AdminView]:
    now = now_ms(conn)
    return [
        AdminView(
            id=each.id,
            name=each.name,
            version=each.version,
            lease_expires_at=each.lease_expires_at,
            live=each.lease_expires_at > now,
        )
        for each in store_overview.list_admins(conn, limit=MAX_ADMINS)
    ]
