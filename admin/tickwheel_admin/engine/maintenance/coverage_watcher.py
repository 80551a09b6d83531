"""Watches the coverage of jobs that rules of the kind `coverage_gap` are about.

Nobody asks for all jobs: from time to time the triggers are walked by key, and those that a rule is
about are watched. Each is looked at when an interval of it is due by its rule, and again every few
minutes while it has a hole. What is settled is not read again, so a look mostly reads one interval.

One admin does it at a time, for a fifth of a core at most; with more to do, looks come later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.matching import AlarmPlace, RuleBook
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.backfills.coverage import HOLES, IntervalState
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.backfills.coverage import CoverageRequest, trigger_coverage
from tickwheel_admin.services.backfills.requests import chosen_trigger, schedule_of
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.overview.attention.coverage import limit_ms_of
from tickwheel_admin.store.alarms.rules import rules_of_kinds
from tickwheel_admin.store.backfills.watches import (
    CoverageWatch,
    any_watch,
    delete_watches,
    due_watches,
    first_fire_since,
    note_look,
    triggers_after,
    watches_between,
    write_watches,
)
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.claims import claim_work
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.jobs.jobs import get_job
from tickwheel_admin.store.triggers.triggers import StoredTrigger

log = structlog.get_logger(__name__)

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
CLAIM = "coverage_watch"  # name of the setting that says which admin watches
CLAIMED_MS = 2 * MINUTE_MS
LOOKBACK_MS = 7 * DAY_MS  # older holes are not told of any more
WALK_MS = 10 * MINUTE_MS  # so often all triggers are walked
TRIGGERS_PER_PAGE = 1_000
LOOKS_PER_PASS = 20
AGAIN_MS = 2 * MINUTE_MS  # so often one with a hole is looked at, or with a run that goes on
SOONEST_MS = MINUTE_MS
LATEST_MS = 6 * HOUR_MS
COSTS = 50  # one with a hole is looked at again after so many times as long as a look takes
REST_PER_WORK = 4
MAX_REST_SECONDS = 1.0
MAX_SECONDS = 10.0
# What becomes of these is no hole, now or later.
_SETTLED = frozenset(IntervalState) - HOLES - {IntervalState.RUNNING, IntervalState.WAITING}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walked:
    """A page of the walk."""

    after: int | None  # where the next page begins; None: there is none
    gone: Collection[int]  # triggers that are watched, and are not there any more


class CoverageWatcher(Loop):
    """Every admin runs it; whoever has the claim does the work."""

    interval_seconds = 15.0

    def __init__(
        self, store: Store, events: Events, *, calendars: CalendarCache, admin_id: int
    ) -> None:
        super().__init__()
        self._store = store
        self._events = events
        self._calendars = calendars
        self._admin_id = admin_id
        self._rules: list[tuple[int, int]] | None = None  # id, version: what the last walk was by
        self._walked_at = 0  # database time
        self._after: int | None = None  # where the walk goes on; None: none is under way
        # Watched triggers that were not there at the last walk. An edit of a schedule makes a new
        # trigger: what the old one lacked is told until the new one was looked at.
        self._gone: frozenset[int] = frozenset()
        self._gone_now: set[int] = set()

    async def run_once(self) -> bool:
        rules = await self._store.read(_rules)
        if not rules and not await self._store.read(any_watch):
            return False
        now = await self._store.read(now_ms)
        if not await self._store.run(claim_work, CLAIM, self._admin_id, now=now, for_ms=CLAIMED_MS):
            return False
        more = await self._walk(rules, now=now)
        due = await self._store.read(due_watches, now=now, limit=LOOKS_PER_PASS)
        loop = asyncio.get_running_loop()
        until = loop.time() + MAX_SECONDS  # of a pass: it is cancelled, and reported, between two
        for each in due:
            await self._look(each)
            if loop.time() > until:
                return True
        return more or len(due) == LOOKS_PER_PASS

    async def _walk(self, rules: Sequence[AlarmRule], *, now: int) -> bool:
        """A page of the triggers, if it is time; whether another one follows."""
        same = [(each.id, each.version) for each in rules]
        if same != self._rules:
            self._rules, self._after = same, 0
            self._gone_now = set()
        elif self._after is None and not 0 <= now - self._walked_at < WALK_MS:
            self._after = 0
        if self._after is None:
            return False
        walked = await self._store.run(_walk_page, rules, self._after, self._gone)
        self._gone_now |= set(walked.gone)
        self._after = walked.after
        if walked.after is None:
            self._walked_at = now
            self._gone, self._gone_now = frozenset(self._gone_now), set()
        return walked.after is not None

    async def _look(self, watch: CoverageWatch) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen = await self._store.read(_seen, watch, self._calendars)
        took = loop.time() - began
        again_ms = seen.look_at + int(took * 1_000) * (COSTS if seen.holes else 0)
        seen = replace(seen, look_at=again_ms)
        noted = await self._store.run(note_look, watch, seen)
        if noted and bool(seen.holes) != bool(watch.holes):
            about = {"job_id": watch.job_id, "trigger_id": watch.trigger_id}
            if seen.holes:
                log.info("coverage.gap_found", holes=seen.holes, **about)
            else:
                log.info("coverage.gap_over", **about)
            self._events.publish(ALARMS)
        await asyncio.sleep(min(REST_PER_WORK * took, MAX_REST_SECONDS))


def _rules(conn: sa.Connection) -> list[AlarmRule]:
    return [each for each in rules_of_kinds(conn, [AlarmKind.COVERAGE_GAP]) if each.enabled]


def _walk_page(
    conn: sa.Connection, rules: Sequence[AlarmRule], after: int, gone: Collection[int]
) -> _Walked:
    """Watch the triggers of a page that a rule is about, and no others.

    Args:
        gone: triggers that were not there a walk ago.
    """
    book = RuleBook(rules)
    now = now_ms(conn)
    page = triggers_after(conn, after, limit=TRIGGERS_PER_PAGE)
    until = page[-1].id if len(page) == TRIGGERS_PER_PAGE else None
    known = {
        each.trigger_id: each
        for each in watches_between(conn, after, until, limit=10 * TRIGGERS_PER_PAGE)
    }
    wanted: list[CoverageWatch] = []
    unwanted: list[int] = []
    for each in page:
        place = AlarmPlace(executor_id=each.executor_id, job_id=each.job_id, tags=each.tags)
        about = book.of(AlarmKind.COVERAGE_GAP, place)
        before = known.pop(each.id, None)
        if not about or not each.has_intervals:
            if before is not None:
                unwanted.append(each.id)
            continue
        limit_ms = min(limit_ms_of(rule) for rule in about)
        if before is None:
            wanted.append(
                CoverageWatch(
                    trigger_id=each.id,
                    job_id=each.job_id,
                    executor_id=each.executor_id,
                    limit_ms=limit_ms,
                    look_at=now,
                )
            )
        elif before.limit_ms != limit_ms:
            # Up to where it is known does not depend on the limit; its holes do.
            wanted.append(replace(before, limit_ms=limit_ms, look_at=now))
    write_watches(conn, wanted)
    delete_watches(conn, [*unwanted, *(known.keys() & set(gone))])
    return _Walked(after=until, gone=known.keys() - set(gone))


def _seen(conn: sa.Connection, watch: CoverageWatch, calendars: CalendarCache) -> CoverageWatch:
    """How the coverage stands now; what cannot be told is left to the next walk."""
    now = now_ms(conn)
    later = replace(watch, look_at=now + WALK_MS)
    job = get_job(conn, watch.job_id)
    if job is None:
        return later
    try:
        stored = chosen_trigger(conn, job.id, watch.trigger_id)
        return _looked(conn, watch, job, stored, calendars, now=now)
    except InvalidInput:
        return later


def _looked(
    conn: sa.Connection,
    watch: CoverageWatch,
    job: Job,
    stored: StoredTrigger,
    calendars: CalendarCache,
    *,
    now: int,
) -> CoverageWatch:
    until_at = now - watch.limit_ms + 1  # what ended exactly so long ago is too late
    if stored.trigger.state is TriggerState.COMPLETE:
        until_at = min(until_at, (stored.trigger.last_fire_at or 0) + 1)  # nothing is due any more
    from_at = watch.known_to
    if from_at is None:
        from_at = _begin(conn, job, stored, now=now)
    from_at = max(from_at, now - LOOKBACK_MS)
    schedule = schedule_of(conn, stored, calendars)
    following = schedule.next_after(max(until_at, from_at) - 1)
    ripe_at = now + LATEST_MS if following is None else following + watch.limit_ms
    rest_until = min(max(ripe_at, now + SOONEST_MS), now + LATEST_MS)
    if until_at <= from_at:
        return replace(watch, look_at=rest_until, known_to=from_at, holes=0, first_hole_at=None)
    request = CoverageRequest(from_at=from_at, until_at=until_at, trigger_id=stored.trigger.id)
    coverage = trigger_coverage(conn, job, request, calendars).coverage
    unsettled = next((e.at for e in coverage.intervals if e.state not in _SETTLED), None)
    holes = [each.at for each in coverage.intervals if each.is_hole]
    if unsettled is not None:
        look_at = min(rest_until, now + AGAIN_MS)
    else:
        look_at = now if coverage.more else rest_until
    return replace(
        watch,
        look_at=look_at,
        # An instant itself: the interval that ends there is read again with its beginning.
        known_to=coverage.until_at if unsettled is None else unsettled,
        holes=len(holes),
        first_hole_at=holes[0] if holes else None,
    )


def _begin(conn: sa.Connection, job: Job, stored: StoredTrigger, *, now: int) -> int:
    """From where on intervals are expected: of a trigger that is new to its job, from its first
    fire on, unless an earlier trigger of the job fired before.
    """
    begin = max(job.created_at + 1, now - LOOKBACK_MS)
    if stored.saved_at < begin:
        return begin
    first_at = first_fire_since(conn, job.id, begin)
    return stored.saved_at + 1 if first_at is None else min(first_at, stored.saved_at + 1)
