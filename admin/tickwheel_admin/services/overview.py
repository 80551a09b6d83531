"""The overview: how things stand, in a few bounded queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.run import FAILURES, LIVE, RunState
from tickwheel_admin.domain.user import Actor
from tickwheel_admin.services.scope import visible_executors
from tickwheel_admin.store import overview as store_overview
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.executors import capacities
from tickwheel_admin.store.overview import NextFire as NextFire
from tickwheel_admin.store.overview import OutcomeCount
from tickwheel_admin.store.pauses import read_pauses
from tickwheel_admin.store.run_lists import RunItem
from tickwheel_admin.store.run_pages import RunFilter, page_runs

BUCKET_MS = 30 * 60_000
BUCKETS = 48
# Late results and retries change old buckets now and then: they are counted anew this often.
OLD_COUNTS_KEPT_MS = 10 * 60_000
RECENT_MS = 2 * BUCKET_MS  # what is newer is counted every time
NEXT_FIRES_WITHIN_MS = 3_600_000
MAX_NEXT_FIRES = 8
MAX_RUNNING = 8
MAX_FAILURES = 6
MAX_ADMINS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeBucket:
    """Runs by how they ended, scheduled within half an hour."""

    start_at: int
    succeeded: int
    failed: int  # or lost
    timed_out: int
    other: int  # cancelled: neither a success nor a failure

    @property
    def total(self) -> int:
        """All of them."""
        return self.succeeded + self.failed + self.timed_out + self.other


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminView:
    """An admin."""

    id: int
    name: str
    version: str
    lease_expires_at: int
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewData:
    """How things stand, as far as the caller may see."""

    now: int  # the database's time
    running: int
    waiting: int  # due and queued, counted up to 10,000
    buckets: list[OutcomeBucket]  # 48, oldest first; the last one is not over
    failed_24h: int  # failed, timed out or lost
    total_24h: int
    live_nodes: int
    slots: int  # of live nodes
    in_use: int
    next_fires: list[NextFire]
    running_now: list[RunItem]
    recent_failures: list[RunItem]
    admins: list[AdminView]
    first_steps: bool  # there is no job yet
    paused_at: int | None  # since when everything is paused
    paused_executors: int  # that are paused by themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """Outcomes before `split_at`, as they were counted at `at`."""

    at: int
    split_at: int
    counts: list[OutcomeCount]


class Overview:
    """The use case of the overview page.

    Outcomes of the last 24 h are counted from the run index. That costs an index entry per run, so
    all but the newest two buckets are counted every ten minutes only, once for everybody.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._old: _Counted | None = None

    async def get(self, actor: Actor) -> OverviewData:
        """How things stand."""
        return await self._store.read(self._read, visible_executors(actor))

    def _read(self, conn: sa.Connection, scope: frozenset[int] | None) -> OverviewData:
        now = now_ms(conn)
        pauses = read_pauses(conn, None)
        counts = [
            each for each in self._count(conn, now) if scope is None or each.executor_id in scope
        ]
        nodes = capacities(conn, scope=scope).values()
        failures = RunFilter(states=FAILURES, executors=scope, from_at=_first_bucket(now))
        return OverviewData(
            now=now,
            running=store_overview.count_live(conn, scope=scope),
            waiting=store_overview.count_waiting(conn, until=now, scope=scope),
            buckets=_buckets(counts, now=now),
            failed_24h=sum(each.runs for each in counts if each.state in FAILURES),
            total_24h=sum(each.runs for each in counts),
            live_nodes=sum(each.live_nodes for each in nodes),
            slots=sum(each.slots for each in nodes),
            in_use=sum(each.in_use for each in nodes),
            next_fires=[]
            if pauses.everything is not None
            else store_overview.next_fires(
                conn,
                from_at=now,
                to_at=now + NEXT_FIRES_WITHIN_MS,
                scope=scope,
                limit=MAX_NEXT_FIRES,
                without=pauses.executors,
            ),
            running_now=page_runs(
                conn, RunFilter(states=LIVE, executors=scope), before=None, limit=MAX_RUNNING
            )[0],
            recent_failures=page_runs(conn, failures, before=None, limit=MAX_FAILURES)[0],
            admins=_admins(conn, now=now),
            paused_at=pauses.everything,
            paused_executors=sum(
                1 for executor_id in pauses.executors if scope is None or executor_id in scope
            ),
            first_steps=not store_overview.has_any_job(conn, scope=scope),
        )

    def _count(self, conn: sa.Connection, now: int) -> list[OutcomeCount]:
        """Outcomes since the first bucket, of every executor."""
        first = _first_bucket(now)
        old = self._old
        if old is None or not 0 <= now - old.at < OLD_COUNTS_KEPT_MS:
            split_at = now - now % BUCKET_MS - RECENT_MS
            old = _Counted(
                at=now,
                split_at=split_at,
                counts=store_overview.count_outcomes(
                    conn, from_at=first, to_at=split_at, bucket_ms=BUCKET_MS
                ),
            )
            self._old = old  # threads may both count; either result is right
        recent = store_overview.count_outcomes(
            conn, from_at=old.split_at, to_at=now + 1, bucket_ms=BUCKET_MS
        )
        return [each for each in old.counts if each.start_at >= first] + recent


def _first_bucket(now: int) -> int:
    return now - now % BUCKET_MS - (BUCKETS - 1) * BUCKET_MS


def _buckets(counts: Iterable[OutcomeCount], *, now: int) -> list[OutcomeBucket]:
    by_bucket: defaultdict[int, defaultdict[RunState, int]] = defaultdict(lambda: defaultdict(int))
    for each in counts:
        by_bucket[each.start_at][each.state] += each.runs
    first = _first_bucket(now)
    return [
        OutcomeBucket(
            start_at=start,
            succeeded=by_bucket[start][RunState.SUCCEEDED],
            failed=by_bucket[start][RunState.FAILED] + by_bucket[start][RunState.LOST],
            timed_out=by_bucket[start][RunState.TIMED_OUT],
            other=by_bucket[start][RunState.CANCELLED],
        )
        for start in range(first, first + BUCKETS * BUCKET_MS, BUCKET_MS)
    ]


def _admins(conn: sa.Connection, *, now: int) -> list[AdminView]:
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
