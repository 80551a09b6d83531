"""Triggers that are due soon become queued runs, shortly before their instant."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.routing.strategy import RandomSource
from tickwheel_admin.domain.triggers.spec import MISFIRE_THRESHOLD_MS
from tickwheel_admin.engine.batching import write_or_bisect
from tickwheel_admin.engine.catch_up_pace import CatchUpPace
from tickwheel_admin.engine.fault_points import before_commit, reached
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.planner.drafts import (
    PlanDraft,
    draft_due_triggers,
    failed_trigger,
    planned_trigger,
)
from tickwheel_admin.services.events.events import QUEUED, Events
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.triggers.planning import (
    PlannedTrigger,
    due_buckets,
    first_fire_at,
    plan_due_triggers,
)

T = TypeVar("T")

log = structlog.get_logger(__name__)

AHEAD_MS = 2_000  # the heavy work is done before the instant
TRIGGERS_PER_BATCH = 500
TRIGGERS_PER_LOOK = 1_000  # while fewer are due, the buckets need not be looked at one by one
# Commits cost more than fires while few are due; an admin that freezes holds up these buckets only.
BUCKETS_PER_BATCH = 4
# While more fires are planned in a pass than these, the next one comes sooner: those that are due
# meanwhile wait for the database, and for their turn, until a pass is over.
FIRES_PER_PASS = 200
LEAST_SECONDS = 0.2  # of a pause
# For overdue triggers, between two looks at those on time, which are planned AHEAD_MS ahead.
OVERDUE_SLICE_SECONDS = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What is due at the beginning of a pass."""

    soonest: list[PlanDraft]  # on time, of all buckets; if TRIGGERS_PER_LOOK, there may be more
    # (id, how late its first trigger is in ms), of the buckets that have to be read one by one
    buckets: list[tuple[int, int]]


class Planner(Loop):
    """Plans some buckets at a time; other admins plan other ones meanwhile."""

    interval_seconds = 0.5

    def __init__(
        self,
        store: Store,
        ids: Ids,
        events: Events,
        *,
        admin_id: int,
        random: RandomSource,
        configs: JobConfigs,
        calendars: CalendarCache | None = None,
        pace: CatchUpPace | None = None,
    ) -> None:
        """Plan for this admin.

        Args:
            calendars: a cache that may be shared; None: one of its own.
            pace: of missed fires, told by the dispatcher what is late; None: nobody tells.
        """
        super().__init__()
        self._store = store
        self._ids = ids
        self._events = events
        self._admin_id = admin_id
        self._random = random
        self._configs = configs
        self._calendars = calendars or CalendarCache()
        self._pace = pace or CatchUpPace()
        self._asked_at = -math.inf  # event loop time of the last pass

    async def run_once(self) -> bool:
        asked_at = asyncio.get_running_loop().time()
        look = await self._store.read(self._look)
        written = [await self._write(batch) for batch in _batches(look.soonest, self._random)]
        if any(written):
            self._events.publish(QUEUED)
        pause = self._pause(len(look.soonest), asked_at)
        if pause < self.interval_seconds:
            self.aim_at(asyncio.get_running_loop().time() + pause)
        more = False
        rotated = _rotated(look.buckets, self._random)
        if len(look.soonest) == TRIGGERS_PER_LOOK:
            for bucket_id, _ in rotated:
                more = await self._plan_bucket(bucket_id, overdue=False) or more
        overdue = [each for each, late_ms in rotated if late_ms >= MISFIRE_THRESHOLD_MS]
        return await self._plan_overdue(overdue) or more

    def _pause(self, fires: int, now: float) -> float:
        """Seconds in which about `FIRES_PER_PASS` become due, if they do as since the last pass."""
        since, self._asked_at = now - self._asked_at, now
        if not fires:
            return self.interval_seconds
        seconds = since * FIRES_PER_PASS / fires
        return min(max(seconds, LEAST_SECONDS), self.interval_seconds)

    async def _plan_overdue(self, buckets: list[int]) -> bool:
        """Plan overdue triggers for a slice of time, so that those on time are not delayed.

        One bucket after the other: several at once would be done a little sooner, and hold up what
        is on time twice as long. Returns whether there may be more right now.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + OVERDUE_SLICE_SECONDS
        waiting = deque(buckets)
        while waiting and loop.time() < until and self._pace.may_plan(loop.time()):
            bucket_id = waiting.popleft()
            if await self._plan_bucket(bucket_id, overdue=True):
                waiting.append(bucket_id)
        if not waiting:
            return False
        if self._pace.may_plan(loop.time()):
            return True
        self.aim_at(self._pace.next_at)
        return False

    async def _plan_bucket(self, bucket_id: int, *, overdue: bool) -> bool:
        """Plan a batch of one bucket; returns whether there may be more."""
        drafts = await self._store.read(self._draft, bucket_id=bucket_id, overdue=overdue)
        if not drafts or not await self._write(drafts):  # or another admin plans it right now
            return False
        if overdue:
            self._pace.planned(sum(draft.ids_needed for draft in drafts))
        self._events.publish(QUEUED)
        return len(drafts) == TRIGGERS_PER_BATCH

    async def _write(self, drafts: Sequence[PlanDraft]) -> bool:
        """Write them in one transaction; returns whether anything was planned."""
        ids = iter(await self._ids.take_many("run", sum(draft.ids_needed for draft in drafts)))
        planned = [(draft, planned_trigger(draft, ids)) for draft in drafts]
        written = 0

        async def write(batch: Sequence[tuple[PlanDraft, PlannedTrigger]]) -> None:
            nonlocal written
            written += await self._store.run(
                before_commit("planning", plan_due_triggers),
                admin_id=self._admin_id,
                planned=[each for _, each in batch],
            )
            reached("planned")

        async def give_up(culprit: tuple[PlanDraft, PlannedTrigger], reason: str) -> None:
            draft, _ = culprit
            log.error("trigger.cannot_be_planned", trigger_id=draft.trigger.id, reason=reason)
            await write([(draft, failed_trigger(draft, reason))])

        await write_or_bisect(planned, write, give_up)
        return written > 0

    def _look(self, conn: sa.Connection) -> _Look:
        now = now_ms(conn)
        first_at = first_fire_at(conn)
        if first_at is None or first_at > now + AHEAD_MS:
            return _Look(soonest=[], buckets=[])
        soonest = self._draft(conn, bucket_id=None, overdue=False)
        buckets = []
        if len(soonest) == TRIGGERS_PER_LOOK or first_at <= now - MISFIRE_THRESHOLD_MS:
            buckets = due_buckets(conn, now=now, ahead_ms=AHEAD_MS)
        return _Look(soonest=soonest, buckets=buckets)

    def _draft(
        self, conn: sa.Connection, *, bucket_id: int | None, overdue: bool
    ) -> list[PlanDraft]:
        """Off the event loop, and outside any lock."""
        return draft_due_triggers(
            conn,
            self._configs,
            self._calendars,
            bucket_id=bucket_id,
            overdue=overdue,
            now=now_ms(conn),
            ahead_ms=AHEAD_MS,
            limit=TRIGGERS_PER_LOOK if bucket_id is None else TRIGGERS_PER_BATCH,
        )


def _batches(drafts: Sequence[PlanDraft], random: RandomSource) -> Iterator[list[PlanDraft]]:
    """Batches of a few whole buckets each."""
    by_bucket: defaultdict[int, list[PlanDraft]] = defaultdict(list)
    for draft in drafts:
        by_bucket[draft.trigger.bucket].append(draft)
    batch: list[PlanDraft] = []
    buckets = 0
    for bucket_id in _rotated(sorted(by_bucket), random):
        due = by_bucket[bucket_id]
        if batch and (buckets == BUCKETS_PER_BATCH or len(batch) + len(due) > TRIGGERS_PER_BATCH):
            yield batch
            batch, buckets = [], 0
        batch += due
        buckets += 1
    if batch:
        yield batch


def _rotated(each: list[T], random: RandomSource) -> list[T]:
    """Each admin starts at a random bucket, so that two seldom plan the same one."""
    if not each:
        return []
    start = random.randrange(len(each))
    return each[start:] + each[:start]
