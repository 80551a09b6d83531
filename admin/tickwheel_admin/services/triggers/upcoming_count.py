"""Counting fires: by cell, executor and job, and which minutes are the fullest.

Exact for triggers with up to 1,500 fires a day and for fixed rates; denser ones are sampled hour by
hour. The count ends after a budget of fires, so that no number of triggers can occupy an admin.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse
from tickwheel_admin.services.lists.heavy_reads import Breath
from tickwheel_admin.store.triggers.triggers import ArmedTrigger

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
MAX_FIRES = 400_000  # computed one by one, for all triggers together; each trigger counts as one
EXACT_FIRES = 1_500  # of one trigger on one day
SAMPLED_FIRES = 60  # of one hour of a denser trigger
MAX_JOBS = 50
MAX_BUSIEST = 10
MAX_NAMED = 10  # jobs of one of the busiest minutes
FREQUENT_MINUTES = 2  # a job that fires more often than that may be left out
DAY_MS = 86_400_000


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
    left_out: int = 0  # jobs that fire more often than every two minutes; only when asked to


@dataclass(frozen=True, slots=True)
class Window:
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

    def is_beyond(self, most: float, window: Window) -> bool:
        """Whether any cell has more fires than that."""
        if self.count <= most:
            return False  # most of them are asked no further
        size = window.cell_minutes
        if any(rate * size > most for _, _, rate in self.stretches):
            return True
        cells = Counter(minute // size for minute in self.minutes)
        return any(count > most for count in cells.values())

    def add_stretch(self, first: int, last: int, count: float) -> None:
        """`count` fires spread evenly from the first to the last minute."""
        self.stretches.append((first, last, count / (last - first + 1)))
        self.count += count


class Count:
    """What has been counted so far; filled in threads, one after the other."""

    def __init__(self, window: Window, breath: Callable[[], Breath] = Breath) -> None:
        """Count within this window; `breath` is made for each piece of work of a thread."""
        self.window = window
        self._new_breath = breath
        self._breath = breath()
        self.jobs: dict[int, _Job] = {}
        self.left = MAX_FIRES
        self.approximate = False

    def add(self, triggers: Sequence[ArmedTrigger], calendars: Mapping[str, Calendar]) -> None:
        """Count the fires of some triggers, as far as the budget goes."""
        self._breath = self._new_breath()
        for armed in triggers:
            self._breath.take()
            if self.left <= 0:
                return
            self.left -= 1  # a look costs about as much as a fire
            spec = armed.trigger.spec
            try:
                calendar = calendar_of(spec, calendars)
                schedule = parse(spec, saved_at=armed.saved_at, calendar=calendar)
            except ScheduleError:
                continue  # it is in error, or will be, as its planner finds
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
        if spec.follows_runs:
            most = 1  # the one after it is not known yet
        every = spec.every_ms if isinstance(spec, FixedRateSpec) else None
        if every is not None and every < MINUTE_MS and not spec.calendar:
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
            day_end = min(at + DAY_MS, window.end)
            self._breath.take()
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
            self._breath.take()
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

    def leave_out_frequent(self) -> int:
        """Forget jobs that fire more often than every two minutes in some cell; how many.

        They make all others look alike, and nobody looks for them by the hour.
        """
        most = self.window.cell_minutes / FREQUENT_MINUTES
        often = [job_id for job_id, job in self.jobs.items() if job.is_beyond(most, self.window)]
        for job_id in often:
            del self.jobs[job_id]
        return len(often)

    def result(self, zone: str, executors: Mapping[int, str], *, truncated: bool) -> Heat:
        """Everything that was counted, most first."""
        window, size = self.window, self.window.cell_minutes
        self._breath = self._new_breath()
        by_executor: dict[int, list[float]] = {}
        for job in self.jobs.values():
            self._breath.take()
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
            self._breath.take()
            for minute in job.minutes:
                minutes[minute] += 1
        _add_stretches(minutes, self.jobs.values())
        order = sorted(range(len(minutes)), key=lambda minute: (-minutes[minute], minute))
        chosen = [minute for minute in order[:MAX_BUSIEST] if round(minutes[minute]) > 0]
        jobs: defaultdict[int, Counter[int]] = defaultdict(Counter)
        wanted = frozenset(chosen)
        for job_id, job in self.jobs.items():
            self._breath.take()
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
