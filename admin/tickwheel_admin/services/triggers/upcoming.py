"""How full the next hours are, counted from the schedules of all triggers that are not paused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.heavy_reads import Breath, HeavyReads
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.services.triggers.upcoming_count import Count, Heat, Window
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import list_executors
from tickwheel_admin.store.triggers.pauses import Pauses, read_pauses
from tickwheel_admin.store.triggers.triggers import ArmedTrigger, armed_triggers

DAY_SECONDS = 86_400
CELL_MINUTES = {1: 15, 7: 60}  # by number of days
CHUNK = 250  # triggers read at once: to read them computes as well
MAX_EXECUTORS = 1_000
KEPT_MS = 60_000
LAST_START = 7_258_118_400_000  # the end of 2199; cron is computed no further
KEPT_HEATS = 64


class UpcomingFires:
    """Counts what comes, one count at a time, and keeps each for a minute."""

    def __init__(self, store: Store, calendars: CalendarCache) -> None:
        self._store = store
        self._calendars = calendars
        self._one_at_a_time = asyncio.Lock()
        self._heavy = HeavyReads()
        self._kept: dict[object, tuple[int, Heat]] = {}

    async def heat(
        self,
        actor: Actor,
        executor_id: int | None,
        *,
        start: int | None,
        days: int,
        zone: str,
        frequent: bool = True,
    ) -> Heat:
        """As `Triggers.upcoming`."""
        if days not in CELL_MINUTES:
            raise InvalidInput.one(
                "days", "not_one_of", "This must be one of %(choices)s.", choices="1, 7"
            )
        try:
            found_zone = zone_of(zone)
        except ScheduleError as error:
            raise InvalidInput.one("zone", "zone.unknown", error.template, **error.params) from None
        if start is not None and not 0 <= start <= LAST_START:
            raise InvalidInput.one(
                "start", "out_of_range", "This must lie between the years 1970 and 2199."
            )
        scope = visible_executors(actor, executor_id)
        async with self._heavy.turn(actor.user_id), self._one_at_a_time:
            now = await self._store.read(now_ms)
            window = _window(now if start is None else start, now, days, found_zone)
            key = (scope, window.start, window.end, zone, frequent)
            if key in self._kept and now - self._kept[key][0] < KEPT_MS:
                return self._kept[key][1]
            heat = await self._count(window, scope, zone, frequent=frequent)
            kept = {k: v for k, v in self._kept.items() if now - v[0] < KEPT_MS}
            self._kept = (kept if len(kept) < KEPT_HEATS else {}) | {key: (now, heat)}
            return heat

    async def _count(
        self, window: Window, scope: frozenset[int] | None, zone: str, *, frequent: bool
    ) -> Heat:
        pauses, executors = await self._store.read(_pauses_and_executors, scope)
        count = Count(window, Breath)
        if pauses.everything is not None:
            return replace(count.result(zone, executors, truncated=False), all_paused=True)
        after, more = 0, True
        while more and count.left > 0:
            triggers, calendars = await self._store.read(
                self._chunk, window.end, after, scope, frozenset(pauses.executors)
            )
            await asyncio.to_thread(count.add, triggers, calendars)
            more = len(triggers) == CHUNK
            after = triggers[-1].trigger.id if triggers else 0
        left_out = 0 if frequent else await asyncio.to_thread(count.leave_out_frequent)
        heat = await asyncio.to_thread(count.result, zone, executors, truncated=count.left <= 0)
        return replace(heat, left_out=left_out)

    def _chunk(
        self,
        conn: sa.Connection,
        end: int,
        after: int,
        scope: frozenset[int] | None,
        without: frozenset[int],
    ) -> tuple[list[ArmedTrigger], dict[str, Calendar]]:
        found = armed_triggers(
            conn, after=after, before_at=end, scope=scope, without=without, limit=CHUNK
        )
        return found, self._calendars.get_many(conn, {t.trigger.spec.calendar for t in found})


def _pauses_and_executors(
    conn: sa.Connection, scope: frozenset[int] | None
) -> tuple[Pauses, dict[int, str]]:
    found = list_executors(conn, scope=scope, limit=MAX_EXECUTORS)
    return read_pauses(conn), {each.id: each.name for each in found}


def _window(start: int, now: int, days: int, zone: Zone) -> Window:
    """From the beginning of the cell in which `start` lies, for so many days of the wall."""
    minutes = CELL_MINUTES[days]
    local, offset = zone.to_local(start // 1000)
    local -= local % (minutes * 60)
    begin = local - offset
    until = local + days * DAY_SECONDS
    shown = zone.instants_of(until)
    end = shown[0] if shown else zone.gap_end(until) or until - offset
    return Window(begin * 1000, max(now, begin * 1000), end * 1000, minutes)
