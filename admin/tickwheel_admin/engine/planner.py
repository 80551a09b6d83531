"""Triggers that are due soon become queued runs, a little ahead of their instant."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.calendar import Calendar
from tickwheel_admin.domain.fires import runs_needed, runs_of_plan
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.planning import (
    Plan,
    missing_calendar,
    next_since,
    plan,
    plan_fixed_delay,
    runs_left,
)
from tickwheel_admin.domain.routing.strategies import RandomSource
from tickwheel_admin.domain.schedule import ScheduleError, parse
from tickwheel_admin.domain.trigger import (
    MISFIRE_THRESHOLD_MS,
    Trigger,
    TriggerKind,
    TriggerState,
)
from tickwheel_admin.engine.halving import halved
from tickwheel_admin.engine.kill_points import before_commit, reached
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events import QUEUED, Events
from tickwheel_admin.store.calendars import Calendars
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.ids import Ids
from tickwheel_admin.store.job_configs import JobConfigs
from tickwheel_admin.store.pauses import read_pauses
from tickwheel_admin.store.triggers import (
    PlannedTrigger,
    due_buckets,
    due_triggers,
    plan_due_triggers,
)

log = structlog.get_logger(__name__)

AHEAD_MS = 2_000  # the heavy work is done before the instant
TRIGGERS_PER_BATCH = 500
# Of overdue triggers between two looks at those on time, which are planned AHEAD_MS ahead.
OVERDUE_SLICE_SECONDS = 0.7
OVERDUE_AT_ONCE = 4  # buckets; more only wait for each other on a small machine


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A trigger and its plan, before ids are given to its runs."""

    trigger: Trigger
    next_fire_at: int
    revision: int
    config: JobConfig
    now: int
    calendar: Calendar | None = None  # the one that it follows, if that is there
    plan: Plan | None = None  # None: its schedule cannot be computed, `reason` says why
    reason: str | None = None


class Planner(Loop):
    """Plan bucket by bucket; other admins plan the other buckets meanwhile."""

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
        calendars: Calendars | None = None,
    ) -> None:
        """Plan with what admins share, or (None) with a cache of calendars of its own."""
        super().__init__()
        self._store = store
        self._ids = ids
        self._events = events
        self._admin_id = admin_id
        self._random = random
        self._configs = configs
        self._calendars = calendars or Calendars()
        self.is_behind = False  # more is overdue than one pass could plan

    async def run_once(self) -> bool:
        buckets = await self._store.read(due_buckets, ahead_ms=AHEAD_MS)
        if not buckets:
            self.is_behind = False
            return False
        # Every admin starts elsewhere, so that they seldom meet at the same bucket.
        start = self._random.randrange(len(buckets))
        turned = buckets[start:] + buckets[:start]
        more = False
        for bucket_id, _ in turned:
            more = await self._plan_bucket(bucket_id, overdue=False) or more
        overdue = [each for each, late_ms in turned if late_ms >= MISFIRE_THRESHOLD_MS]
        self.is_behind = await self._plan_overdue(overdue)
        return self.is_behind or more

    async def _plan_overdue(self, buckets: list[int]) -> bool:
        """Plan what is overdue anyway, for a slice of time, so that what is on time stays so.

        Some buckets at once: while the database writes for one, the next one is computed. Returns
        whether there may be more.
        """
        until = asyncio.get_running_loop().time() + OVERDUE_SLICE_SECONDS
        waiting = deque(buckets)

        async def plan_some() -> None:
            while waiting and asyncio.get_running_loop().time() < until:
                bucket_id = waiting.popleft()
                if await self._plan_bucket(bucket_id, overdue=True):
                    waiting.append(bucket_id)

        # All of them end before the first error counts: none may go on behind the loop's back.
        ends = await asyncio.gather(
            *(plan_some() for _ in range(min(OVERDUE_AT_ONCE, len(buckets)))),
            return_exceptions=True,
        )
        for end in ends:
            if end is not None:
                raise end
        return bool(waiting)

    async def _plan_bucket(self, bucket_id: int, *, overdue: bool) -> bool:
        drafts = await self._store.read(
            _draft, bucket_id, self._configs, self._calendars, overdue=overdue
        )
        if not drafts:
            return False
        ids = iter(await self._ids.take_many("run", sum(map(_ids_needed, drafts))))
        planned = [_planned(draft, ids) for draft in drafts]

        async def write(batch: Sequence[PlannedTrigger]) -> None:
            count = await self._store.run(
                before_commit("planning", plan_due_triggers),
                bucket_id=bucket_id,
                admin_id=self._admin_id,
                planned=batch,
            )
            reached("planned")
            if count:
                self._events.publish(QUEUED)

        async def give_up(culprit: PlannedTrigger, reason: str) -> None:
            log.error("trigger.cannot_be_planned", trigger_id=culprit.trigger_id, reason=reason)
            await write([_in_error(culprit, reason)])

        await halved(planned, write, give_up)
        return len(drafts) == TRIGGERS_PER_BATCH


def _draft(
    conn: sa.Connection,
    bucket_id: int,
    configs: JobConfigs,
    calendars: Calendars,
    *,
    overdue: bool,
) -> list[_Draft]:
    """Read due triggers and compute their fires, outside any lock and off the event loop."""
    now = now_ms(conn)
    pauses = read_pauses(conn)
    late = now - MISFIRE_THRESHOLD_MS
    # While everything is paused nothing is planned ahead, so that resuming takes effect at once.
    ahead = now if pauses.everything is not None else now + AHEAD_MS
    due = due_triggers(
        conn,
        bucket_id=bucket_id,
        after=0 if overdue else late,
        until=late if overdue else ahead,
        limit=TRIGGERS_PER_BATCH,
        paused=pauses.executors,
        now=now,
    )
    known = configs.get_many(conn, {(t.job_id, revision) for t, _, revision in due})
    followed = calendars.get_many(conn, {t.spec.calendar for t, _, _ in due})
    drafts = []
    for trigger, saved_at, revision in due:
        calendar = followed.get(trigger.spec.calendar or "")
        found, reason = None, None
        try:
            found = _plan(
                trigger,
                calendar,
                saved_at=saved_at,
                paused_at=pauses.of(trigger.executor_id),
                now=now,
            )
        except ScheduleError as error:
            reason = str(error)
            log.error("trigger.schedule_error", trigger_id=trigger.id, reason=reason)
        draft = _Draft(
            trigger=trigger,
            next_fire_at=trigger.next_fire_at or now,
            revision=revision,
            config=known[trigger.job_id, revision],
            now=now,
            calendar=calendar,
            plan=found,
            reason=reason,
        )
        drafts.append(draft)
    return drafts


def _plan(
    trigger: Trigger,
    calendar: Calendar | None,
    *,
    saved_at: int,
    paused_at: int | None,
    now: int,
) -> Plan:
    spec = trigger.spec
    if spec.calendar is not None and calendar is None:
        raise missing_calendar(spec.calendar)
    schedule = parse(spec, saved_at=saved_at, calendar=calendar)
    next_fire_at: int | None = trigger.next_fire_at or now
    if calendar is not None and trigger.calendar_version != calendar.version:
        since = calendar.changed_at
        next_fire_at = next_since(schedule, trigger, since=since, calendar=calendar)
    left = runs_left(spec, trigger.fires)
    nothing = Plan(missed=None, caught_up=(), fires=(), next_fire_at=next_fire_at)
    if next_fire_at is None or left == 0:
        return replace(nothing, next_fire_at=None)
    if next_fire_at > now + AHEAD_MS:
        return nothing
    if spec.kind is TriggerKind.FIXED_DELAY:
        return plan_fixed_delay(
            spec,
            next_fire_at=next_fire_at,
            now=now,
            paused_at=paused_at,
            fires=trigger.fires,
            calendar=calendar,
        )
    return plan(
        schedule,
        next_fire_at=next_fire_at,
        now=now,
        until=now + AHEAD_MS,
        misfire=spec.misfire,
        threshold_ms=spec.misfire_threshold_ms,
        catch_up_limit=spec.catch_up_limit,
        paused_at=paused_at,
        left=left,
    )


def _version_met(trigger: Trigger, calendar: Calendar | None) -> int | None:
    """The version of its calendar that a trigger has met when it is planned.

    Not the new one while fires lie ahead that were planned with an older one: the refresher takes
    those back, and finds the trigger by its version.
    """
    if calendar is None:
        return None
    if trigger.last_fire_at is not None and trigger.last_fire_at > calendar.changed_at:
        return trigger.calendar_version
    return calendar.version


def _ids_needed(draft: _Draft) -> int:
    return 0 if draft.plan is None else runs_needed(draft.plan)


def _planned(draft: _Draft, ids: Iterator[int]) -> PlannedTrigger:
    trigger, found = draft.trigger, draft.plan
    if found is None:
        return _in_error(_unplanned(draft), draft.reason or "")
    runs = runs_of_plan(
        found, trigger, draft.config, revision=draft.revision, now=draft.now, ids=ids
    )
    complete = found.next_fire_at is None and not found.waits
    return replace(
        _unplanned(draft),
        runs=runs,
        next_fire_at=found.next_fire_at,
        last_fire_at=runs[-1].scheduled_at if runs else trigger.last_fire_at,
        fires=trigger.fires + found.runs,
        calendar_version=_version_met(trigger, draft.calendar),
        state=TriggerState.COMPLETE if complete else TriggerState.ACTIVE,
    )


def _unplanned(draft: _Draft) -> PlannedTrigger:
    return PlannedTrigger(
        trigger_id=draft.trigger.id,
        version=draft.trigger.version,
        planned_from=draft.next_fire_at,
        runs=(),
        next_fire_at=draft.next_fire_at,
        last_fire_at=draft.trigger.last_fire_at,
        fires=draft.trigger.fires,
        calendar_version=draft.trigger.calendar_version,
        state=TriggerState.ACTIVE,
    )


def _in_error(planned: PlannedTrigger, reason: str) -> PlannedTrigger:
    return replace(
        planned, runs=(), next_fire_at=None, state=TriggerState.ERROR, reason=reason[:500]
    )
