"""Recomputes triggers when their calendar, or the time zone data, changes.

The planner does the same with a trigger that is due; this loop reaches triggers whose next fire
lies far ahead, and those that had no further fire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.planning.plan import next_since
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import TZDATA_VERSION
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import TRIGGERS, Events
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.triggers.stale import (
    RefreshedTrigger,
    StaleTrigger,
    begin_anew,
    last_fires,
    lock_unchanged,
    note_zone_data,
    stale_calendars,
    take_back_fires,
    triggers_after,
    triggers_behind,
    write_refreshed,
    zone_data,
)

log = structlog.get_logger(__name__)

TRIGGERS_PER_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """What one transaction did."""

    looked_at: int = 0
    written: int = 0
    last_id: int = 0


class Refresher(Loop):
    """One batch per transaction. Every admin runs it; the first one does the work."""

    interval_seconds = 2.0

    def __init__(self, store: Store, events: Events, *, calendars: CalendarCache) -> None:
        super().__init__()
        self._store = store
        self._events = events
        self._calendars = calendars
        self._zones_are_current = False
        self._zones_after = 0  # trigger id up to which zones were looked at

    async def run_once(self) -> bool:
        more = False
        written = 0
        for name, version in (await self._store.read(stale_calendars)).items():
            batch = await self._store.run(_follow, name, version, self._calendars)
            written += batch.written
            # Triggers that were planned or edited meanwhile are read again by the next pass.
            more = more or batch.looked_at == TRIGGERS_PER_BATCH or batch.written < batch.looked_at
        if not self._zones_are_current:
            batch = await self._store.run(_rezone, self._zones_after, self._calendars)
            written += batch.written
            self._zones_after = batch.last_id
            self._zones_are_current = batch.looked_at < TRIGGERS_PER_BATCH
            more = more or not self._zones_are_current
        if written:
            self._events.publish(TRIGGERS)
        return more


# --- calendars -------------------------------------------------------------------------------


def _follow(conn: sa.Connection, name: str, version: int, calendars: CalendarCache) -> _Batch:
    """Recompute triggers of a calendar that were planned with an older version of it."""
    stale = triggers_behind(conn, name, version, limit=TRIGGERS_PER_BATCH)
    calendar = calendars.get_many(conn, [name]).get(name)
    if calendar is None or not stale:
        return _Batch()
    locked = lock_unchanged(conn, stale)
    now = now_ms(conn)
    ahead = [each.trigger.id for each in locked if (each.trigger.last_fire_at or 0) > now]
    back = take_back_fires(conn, ahead, after=now) if ahead else {}
    last = last_fires(conn, back) if back else {}
    refreshed = [
        _refreshed(each, calendar, back=back.get(each.trigger.id, 0), last_fires=last)
        for each in locked
    ]
    begin_anew(conn, _periods_of(locked, refreshed, back, calendar, now=now), now=now)
    write_refreshed(conn, refreshed)
    if refreshed:
        log.info(
            "calendar.followed", calendar=name, version=calendar.version, triggers=len(refreshed)
        )
    return _Batch(looked_at=len(stale), written=len(refreshed))


def _periods_of(
    locked: Sequence[StaleTrigger],
    refreshed: Sequence[RefreshedTrigger],
    back: Mapping[int, int],
    calendar: Calendar,
    *,
    now: int,
) -> dict[int, int]:
    """Of triggers that go on in another way than they stood: after which instant they are planned.

    That is one that was over or in error, and one with a fire that was claimed ahead: what was
    taken back before that fire is not planned again.
    """
    return {
        after.trigger_id: max(calendar.changed_at - 1, after.last_fire_at or 0)
        for before, after in zip(locked, refreshed, strict=True)
        if after.state is not before.trigger.state
        or (back.get(after.trigger_id) and (after.last_fire_at or 0) > now)
    }


def _refreshed(
    stale: StaleTrigger, calendar: Calendar, *, back: int, last_fires: Mapping[int, int]
) -> RefreshedTrigger:
    """A trigger as it is with the current version of its calendar.

    Args:
        back: fires that were planned ahead and are taken back.
        last_fires: by trigger, what remains of those that had some taken back.
    """
    trigger = stale.trigger
    stands = _unchanged(stale, calendar)
    if trigger.paused or stale.job_paused:
        return stands  # computed when it is resumed
    if trigger.spec.follows_runs and trigger.next_fire_at is None:
        if trigger.state is TriggerState.ERROR:  # the sweeper arms it, unless a run is live
            return replace(stands, state=TriggerState.ACTIVE, reason=None)
        if not back:
            return stands  # it waits for the end of a run, or its time is over
        trigger = replace(trigger, next_fire_at=trigger.last_fire_at)
    if back:
        remaining = last_fires.get(trigger.id)
        trigger = replace(trigger, last_fire_at=remaining, fires=trigger.fires - back)
    stands = replace(stands, last_fire_at=trigger.last_fire_at, fires=trigger.fires)
    try:
        schedule = parse(trigger.spec, saved_at=stale.saved_at, calendar=calendar)
        at = next_since(schedule, trigger, since=calendar.changed_at, calendar=calendar)
    except ScheduleError as error:
        log.error("trigger.schedule_error", trigger_id=trigger.id, reason=str(error))
        return replace(stands, next_fire_at=None, state=TriggerState.ERROR, reason=str(error)[:500])
    state = TriggerState.COMPLETE if at is None else TriggerState.ACTIVE
    return replace(stands, next_fire_at=at, state=state, reason=None)


def _unchanged(stale: StaleTrigger, calendar: Calendar | None) -> RefreshedTrigger:
    trigger = stale.trigger
    return RefreshedTrigger(
        trigger_id=trigger.id,
        version=trigger.version,
        next_fire_at=trigger.next_fire_at,
        last_fire_at=trigger.last_fire_at,
        fires=trigger.fires,
        calendar_version=trigger.calendar_version if calendar is None else calendar.version,
        state=trigger.state,
        reason=trigger.reason,
    )


# --- zones -----------------------------------------------------------------------------------


def _rezone(conn: sa.Connection, after: int, calendars: CalendarCache) -> _Batch:
    """Recompute triggers whose zone may have other transitions than when they were planned.

    Fires that differ are logged. Nothing is done if this admin's zone data is not newer than that
    which all triggers were computed with.
    """
    noted = zone_data(conn)
    if noted is not None and noted >= TZDATA_VERSION:
        return _Batch()
    stale = triggers_after(conn, after, limit=TRIGGERS_PER_BATCH)
    now = now_ms(conn)
    zoned = [each for each in stale if _has_zone(each.trigger.spec) and not _is_paused(each)]
    followed = calendars.get_many(conn, {each.trigger.spec.calendar for each in zoned})
    changed = [each for each in zoned if _next_of(each, followed, now) != each.trigger.next_fire_at]
    refreshed = []
    for each in lock_unchanged(conn, changed) if changed else ():
        at = _next_of(each, followed, now)
        log.warning(
            "trigger.zone_data_changed",
            trigger_id=each.trigger.id,
            timezone=each.trigger.spec.timezone,
            tzdata=TZDATA_VERSION,
            before=each.trigger.next_fire_at,
            after=at,
        )
        state = TriggerState.COMPLETE if at is None else TriggerState.ACTIVE
        refreshed.append(replace(_unchanged(each, None), next_fire_at=at, state=state))
    if refreshed:
        write_refreshed(conn, refreshed)
    if len(refreshed) < len(changed):
        # Some were planned or edited meanwhile, perhaps by an admin with older zone data.
        return _Batch(looked_at=TRIGGERS_PER_BATCH, written=len(refreshed), last_id=after)
    if len(stale) < TRIGGERS_PER_BATCH:
        note_zone_data(conn, TZDATA_VERSION)
    last_id = stale[-1].trigger.id if stale else after
    return _Batch(looked_at=len(stale), written=len(refreshed), last_id=last_id)


def _is_paused(stale: StaleTrigger) -> bool:
    return stale.trigger.paused or stale.job_paused


def _has_zone(spec: TriggerSpec) -> bool:
    by_the_clock = spec.has_wall_times or spec.calendar is not None
    return by_the_clock and spec.timezone not in (None, "UTC")


def _next_of(stale: StaleTrigger, followed: Mapping[str, Calendar], now: int) -> int | None:
    """What the stored next fire should be; unchanged if it cannot be computed."""
    trigger = stale.trigger
    if trigger.state is TriggerState.ERROR or trigger.spec.follows_runs:
        return trigger.next_fire_at
    try:
        calendar = calendar_of(trigger.spec, followed)
        schedule = parse(trigger.spec, saved_at=stale.saved_at, calendar=calendar)
    except ScheduleError:
        return trigger.next_fire_at
    return next_since(schedule, trigger, since=now, calendar=calendar)
