"""Numbers on the tabs of lists, kept for a moment: every open list asks for them all the time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import partial
from typing import TypeVar, cast

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, FINAL, RunState
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.jobs.lists import SAYING, JobQuery, JobView
from tickwheel_admin.services.jobs.queries import MatchingJobs, filter_of
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.services.runs.queries import MAX_COUNTED, RunGroup
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.jobs.filters import JobFilter, count_jobs
from tickwheel_admin.store.overview import list_counts as store
from tickwheel_admin.store.overview.list_counts import MAX_LOOKED_AT
from tickwheel_admin.store.overview.list_counts import Number as Number

KEPT_SECONDS = 2.0
MAX_KEPT = 200  # different people's numbers
PERIOD_MS = 10_000  # what "within the last hour" is moves on in such steps

T = TypeVar("T")


class ListCounts:
    """Use cases of the tabs of lists."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read from this store.

        Args:
            clock: seconds, for what is kept.
        """
        self._store = store
        self._clock = clock
        self._kept: dict[Hashable, tuple[float, object]] = {}

    async def jobs(self, actor: Actor) -> dict[str, Number]:
        """Numbers by JobView."""
        scope = visible_executors(actor)

        def read(conn: sa.Connection) -> dict[str, Number]:
            of = partial(count_jobs, conn, limit=MAX_LOOKED_AT)
            return {
                JobView.ALL: Number(*of(JobFilter(executors=scope))),
                JobView.FAILING: store.count_failing_jobs(
                    conn, JobFilter(executors=scope), saying=SAYING, now=now_ms(conn)
                ),
                JobView.RUNNING: store.count_running_jobs(conn, scope),
                JobView.PAUSED: Number(*of(JobFilter(executors=scope, paused=True))),
            }

        return await self._for_a_moment(("jobs", scope), lambda: self._store.read(read))

    async def matching(self, actor: Actor, query: JobQuery) -> MatchingJobs:
        """How many jobs a list shows on all its pages, counted up to 10,000.

        Raises:
            InvalidInput: a word that means nothing, or control characters.
        """
        wanted, failing = filter_of(actor, query), query.view == JobView.FAILING
        read = partial(count_matching, wanted=wanted, failing=failing)
        return await self._for_a_moment((wanted, failing), lambda: self._store.read(read))

    async def runs(
        self, actor: Actor, *, from_at: int | None = None, to_at: int | None = None
    ) -> dict[str, Number]:
        """Numbers by RunState and RunGroup of runs that were scheduled within these instants."""
        scope = visible_executors(actor)
        period = tuple(None if at is None else at // PERIOD_MS for at in (from_at, to_at))

        def read(conn: sa.Connection) -> dict[str, Number]:
            found = store.count_by_state(
                conn, list(RunState), executors=scope, from_at=from_at, to_at=to_at
            )
            numbers: dict[str, Number] = {state.value: n for state, n in found.items()}
            numbers[RunGroup.FAILED_ANY] = _sum(found[state] for state in FAILURES)
            numbers[RunGroup.ACTIVE] = _sum(found[state] for state in set(RunState) - FINAL)
            return numbers

        return await self._for_a_moment(("runs", scope, period), lambda: self._store.read(read))

    async def _for_a_moment(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        now = self._clock()
        kept = self._kept.get(key)
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return cast("T", kept[1])  # this key has had nothing else
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        found = await read()
        self._kept[key] = (now, found)
        return found


def count_matching(conn: sa.Connection, wanted: JobFilter, *, failing: bool) -> MatchingJobs:
    """How many jobs fit.

    Args:
        failing: only those whose last run failed.
    """
    if failing:
        return MatchingJobs(
            *store.count_failing_jobs(conn, wanted, saying=SAYING, now=now_ms(conn))
        )
    return MatchingJobs(*count_jobs(conn, wanted, limit=MAX_COUNTED))


def _sum(numbers: Iterable[Number]) -> Number:
    counts, capped = zip(*numbers, strict=True)
    return Number(sum(counts), any(capped))
