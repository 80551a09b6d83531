"""How full the next hours are: fires counted from the schedules, by cell, executor and job.

Exact for triggers with up to 1,500 fires a day and for fixed rates; denser ones are sampled hour by
hour. The count ends after a budget of fires, so that no number of triggers can occupy an admin.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlalchemy as sa

from tickwheel_admin.domain.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.schedule import Schedule, ScheduleError, parse
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.trigger import TriggerKind
from tickwheel_admin.domain.user import Actor
from tickwheel_admin.services.scope import visible_executors
from tickwheel_admin.store.calendars import Calendars
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.executors import list_executors
from tickwheel_admin.store.job_triggers import ArmedTrigger, armed_triggers
from tickwheel_admin.store.pauses import Pauses, read_pauses

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_SECONDS = 86_400
CELL_MINUTES = {1: 15, 7: 60}  # by number of days
CHUNK = 1_000  # triggers read at once
MAX_FIRES = 400_000  # computed one by one, for all triggers together; each trigger counts as one
EXACT_FIRES = 1_500  # of one trigger on one day
SAMPLED_FIRES = 60  # of one hour of a denser trigger
MAX_JOBS = 50
MAX_EXECUTORS = 1_000
MAX_BUSIEST = 10
MAX_NAMED = 10  # jobs of one of the busiest minutes
KEPT_MS = 60_000
KEPT_HEATS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """The fires of one executor, or of one job."""

    executor_id: int
    executor_name: str
    job_id: int | None  # None: all jobs of the executor
    job_name: str | None
    count: int
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMinute:
    """One of the fullest minutes."""

    at: int  # its beginning, UTC epoch ms
    count: int
    jobs: tuple[tuple[int, str, int], ...]  # (id, name, fires), most fires first, at most 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """How many fires come."""

    start: int  # of the first cell, UTC epoch ms
    end: int  # of the last cell: the same wall time after the days asked for
    zone: str
    cell_minutes: int  # every cell is so long, also on nights when clocks change
    cells: tuple[int, ...]
    total: int
    executors: tuple[HeatRow, ...]  # most fires first; without those that have none
    jobs: tuple[HeatRow, ...]  # the 50 with most fires
    busiest: tuple[HeatMinute, ...]  # most fires first, at most 10
    approximate: bool  # some triggers are so dense that their fires were sampled
    truncated: bool  # there are more triggers than could be counted
    all_paused: bool  # everything is paused, so nothing comes


@dataclass(frozen=True, slots=True)
class _Window:
    """The time that is counted."""

    start: int  # of the first cell
    since: int  # fires before are over
    end: int
    cell_minutes: int

    @property
    def cells(self) -> int:
        return -(-(self.end - self.start) // (self.cell_minutes * MINUTE_MS))

    def minute_of(self, at: int) -> int:
        return (at - self.start) // MINUTE_MS


@dataclass(slots=True)
class _Job:
    """The fires of a job: minutes with one each, and stretches with many in every minute."""

    name: str
    executor_id: int
    minutes: array[int] = field(default_factory=lambda: array("i"))
    stretches: list[tuple[int, int, float]] = field(default_factory=list)  # from, to, per minute
    count: float = 0

    def add_stretch(self, first: int, last: int, count: float) -> None:
        """`count` fires spread evenly from the first to the last minute."""
        self.stretches.append((first, last, count / (last - first + 1)))
        self.count += count


class _Count:
    """What has been counted so far; filled in threads, one after the other."""

    def __init__(self, window: _Window) -> None:
        self.window = window
        self.jobs: dict[int, _Job] = {}
        self.left = MAX_FIRES
        self.approximate = False

    def add(self, triggers: Sequence[ArmedTrigger], calendars: Mapping[str, Calendar]) -> None:
        """Count the fires of some triggers, as far as the budget goes."""
        for armed in triggers:
            if self.left <= 0:
                return
            self.left -= 1  # a look costs about as much as a fire
            spec = armed.trigger.spec
            calendar = None if spec.calendar is None else calendars.get(spec.calendar)
            if spec.calendar is not None and calendar is None:
                continue  # it will be in error, as its planner finds
            try:
                schedule = parse(spec, saved_at=armed.saved_at, calendar=calendar)
            except ScheduleError:
                continue
            self._add_trigger(armed, schedule)

    def _add_trigger(self, armed: ArmedTrigger, schedule: Schedule) -> None:
        trigger, window = armed.trigger, self.window
        first = trigger.next_fire_at
        if first is not None and first < window.since:
            first = schedule.next_after(window.since - 1)
        if first is None or first >= window.end:
            return
        job = self.jobs.get(trigger.job_id)
        if job is None:
            job = self.jobs[trigger.job_id] = _Job(armed.job_name, trigger.executor_id)
        spec = trigger.spec
        most = None if spec.repeat_count is None else max(spec.repeat_count - trigger.fires, 1)
        if spec.kind is TriggerKind.FIXED_DELAY:
            most = 1  # the one after it is not known yet
        every = spec.every_ms or 0
        if spec.kind is TriggerKind.FIXED_RATE and every < MINUTE_MS and not spec.calendar:
            self._add_rate(job, schedule, first, every, most)
        else:
            self._add_fires(job, schedule, first, most)

    def _add_rate(
        self, job: _Job, schedule: Schedule, first: int, every: int, most: int | None
    ) -> None:
        last = max(schedule.last_before(self.window.end) or first, first)
        count = (last - first) // every + 1
        if most is not None and most < count:
            count, last = most, first + (most - 1) * every
        job.add_stretch(self.window.minute_of(first), self.window.minute_of(last), count)
        self.approximate = self.approximate or MINUTE_MS % every != 0

    def _add_fires(self, job: _Job, schedule: Schedule, first: int, most: int | None) -> None:
        window = self.window
        at: int | None = first
        while at is not None and at < window.end and self.left > 0:
            day_end = min(at + DAY_SECONDS * 1000, window.end)
            found = array("i")
            cursor: int | None = at
            while cursor is not None and cursor < day_end and len(found) < EXACT_FIRES:
                if most is not None and len(found) >= most:
                    cursor = None
                    break
                found.append(window.minute_of(cursor))
                cursor = schedule.next_after(cursor)
            self.left -= len(found)
            if cursor is None or cursor >= day_end:
                job.minutes += found
                job.count += len(found)
                at = cursor
                if most is not None:
                    most -= len(found)
            else:
                at, most = self._add_samples(job, schedule, at, day_end, most)
            if most is not None and most <= 0:
                return

    def _add_samples(
        self, job: _Job, schedule: Schedule, at: int, end: int, most: int | None
    ) -> tuple[int | None, int | None]:
        """Count a dense day by the first fires of each hour; where to go on, and what is left."""
        self.approximate = True
        cursor: int | None = at
        while cursor is not None and cursor < end and self.left > 0:
            hour_end = min((cursor // HOUR_MS + 1) * HOUR_MS, end)
            begin, seen = cursor, 0
            while cursor is not None and cursor < hour_end and seen < SAMPLED_FIRES:
                seen += 1
                cursor = schedule.next_after(cursor)
            self.left -= seen
            count = float(seen)
            if cursor is not None and cursor < hour_end:
                count = seen * (hour_end - begin) / (cursor - begin)
                cursor = schedule.next_after(hour_end - 1)
            if most is not None:
                count = min(count, most)
                most -= int(count)
            job.add_stretch(
                self.window.minute_of(begin), self.window.minute_of(hour_end - 1), count
            )
            if most is not None and most <= 0:
                return None, most
        return cursor, most

    def result(self, zone: str, executors: Mapping[int, str], *, truncated: bool) -> Heat:
        """Everything that was counted, most first."""
        window, size = self.window, self.window.cell_minutes
        by_executor: dict[int, list[float]] = {}
        for job in self.jobs.values():
            row = by_executor.setdefault(job.executor_id, [0.0] * window.cells)
            _add_cells(row, job, size)
        totals = [round(sum(cells)) for cells in zip(*by_executor.values(), strict=True)]
        fullest = sorted(self.jobs.items(), key=lambda item: (-item[1].count, item[0]))[:MAX_JOBS]
        return Heat(
            start=window.start,
            end=window.end,
            zone=zone,
            cell_minutes=size,
            cells=tuple(totals or [0] * window.cells),
            total=round(sum(job.count for job in self.jobs.values())),
            executors=tuple(
                sorted(
                    (
                        HeatRow(
                            executor_id=executor_id,
                            executor_name=executors.get(executor_id, ""),
                            job_id=None,
                            job_name=None,
                            count=round(sum(cells)),
                            cells=tuple(round(cell) for cell in cells),
                        )
                        for executor_id, cells in by_executor.items()
                    ),
                    key=lambda row: (-row.count, row.executor_name),
                )
            ),
            jobs=tuple(self._row(job_id, job, executors) for job_id, job in fullest),
            busiest=self._busiest(),
            approximate=self.approximate,
            truncated=truncated,
            all_paused=False,
        )

    def _row(self, job_id: int, job: _Job, executors: Mapping[int, str]) -> HeatRow:
        cells = [0.0] * self.window.cells
        _add_cells(cells, job, self.window.cell_minutes)
        return HeatRow(
            executor_id=job.executor_id,
            executor_name=executors.get(job.executor_id, ""),
            job_id=job_id,
            job_name=job.name,
            count=round(job.count),
            cells=tuple(round(cell) for cell in cells),
        )

    def _busiest(self) -> tuple[HeatMinute, ...]:
        minutes = [0.0] * (self.window.cells * self.window.cell_minutes)
        for job in self.jobs.values():
            for minute in job.minutes:
                minutes[minute] += 1
        _add_stretches(minutes, self.jobs.values())
        order = sorted(range(len(minutes)), key=lambda minute: (-minutes[minute], minute))
        chosen = [minute for minute in order[:MAX_BUSIEST] if round(minutes[minute]) > 0]
        jobs: defaultdict[int, Counter[int]] = defaultdict(Counter)
        wanted = frozenset(chosen)
        for job_id, job in self.jobs.items():
            for minute in wanted.intersection(job.minutes):
                jobs[minute][job_id] += job.minutes.count(minute)
            for first, last, rate in job.stretches:
                for minute in chosen:
                    if first <= minute <= last:
                        jobs[minute][job_id] += max(round(rate), 1)
        return tuple(
            HeatMinute(
                at=self.window.start + minute * MINUTE_MS,
                count=round(minutes[minute]),
                jobs=tuple(
                    (job_id, self.jobs[job_id].name, count)
                    for job_id, count in jobs[minute].most_common(MAX_NAMED)
                ),
            )
            for minute in chosen
        )


def _add_cells(cells: list[float], job: _Job, size: int) -> None:
    for minute in job.minutes:
        cells[minute // size] += 1
    for first, last, rate in job.stretches:
        for cell in range(first // size, last // size + 1):
            inside = min(last, cell * size + size - 1) - max(first, cell * size) + 1
            cells[cell] += inside * rate


def _add_stretches(minutes: list[float], jobs: Iterable[_Job]) -> None:
    """Add even stretches to minutes, each in constant time."""
    steps = [0.0] * (len(minutes) + 1)
    for job in jobs:
        for first, last, rate in job.stretches:
            steps[first] += rate
            steps[last + 1] -= rate
    running = 0.0
    for minute in range(len(minutes)):
        running += steps[minute]
        minutes[minute] += running


class Coming:
    """Counts what comes, one count at a time, and keeps each for a minute."""

    def __init__(self, store: Store, calendars: Calendars) -> None:
        self._store = store
        self._calendars = calendars
        self._one_at_a_time = asyncio.Lock()
        self._kept: dict[object, tuple[int, Heat]] = {}

    async def heat(
        self, actor: Actor, executor_id: int | None, *, start: int | None, days: int, zone: str
    ) -> Heat:
        """As `Schedules.coming`."""
        if days not in CELL_MINUTES:
            raise InvalidInput.one(
                "days", "not_one_of", "This must be one of %(choices)s.", choices="1, 7"
            )
        try:
            found_zone = zone_of(zone)
        except ScheduleError as error:
            raise InvalidInput.one("zone", "zone.unknown", error.template, **error.params) from None
        scope = visible_executors(actor, executor_id)
        async with self._one_at_a_time:
            now = await self._store.read(now_ms)
            window = _window(now if start is None else start, now, days, found_zone)
            key = (scope, window.start, window.end, zone)
            if key in self._kept and now - self._kept[key][0] < KEPT_MS:
                return self._kept[key][1]
            heat = await self._count(window, scope, zone)
            kept = {k: v for k, v in self._kept.items() if now - v[0] < KEPT_MS}
            self._kept = (kept if len(kept) < KEPT_HEATS else {}) | {key: (now, heat)}
            return heat

    async def _count(self, window: _Window, scope: frozenset[int] | None, zone: str) -> Heat:
        pauses, executors = await self._store.read(_pauses_and_executors, scope)
        count = _Count(window)
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
        return await asyncio.to_thread(count.result, zone, executors, truncated=count.left <= 0)

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


def _window(start: int, now: int, days: int, zone: Zone) -> _Window:
    """From the beginning of the cell in which `start` lies, for so many days of the wall."""
    minutes = CELL_MINUTES[days]
    local, offset = zone.to_local(start // 1000)
    local -= local % (minutes * 60)
    begin = local - offset
    until = local + days * DAY_SECONDS
    shown = zone.instants_of(until)
    end = shown[0] if shown else zone.gap_end(until) or until - offset
    return _Window(begin * 1000, max(now, begin * 1000), end * 1000, minutes)
