"""How full the coming days are, as tables of cells: by the hour, by executor and by job."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from babel.dates import format_date

from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.services.triggers.service import Heat, HeatRow

JOBS_ANCHOR = "h-jobs"  # of the table of jobs on the page
LEVELS = 5  # shades beside that of an empty cell
HOURS = 24
MINUTE_MS = 60_000

_DAY = {"en": "EEE, MMM d", "zh": "M月d日 EEE"}
_SHORT_DAY = {"en": "EEE d", "zh": "EEE d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """One cell."""

    count: int
    level: int  # 0 (nothing) to LEVELS
    when: str  # the time it stands for, in words
    is_over: bool = False
    href: str | None = None  # what fires then, or ran


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatLine:
    """A row of cells."""

    name: str
    cells: tuple[HeatCell, ...]
    count: int
    day: str | None = None  # the date that the row is about
    row: HeatRow | None = None  # the executor or job that the row is about


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatTable:
    """Rows of cells under their columns."""

    columns: tuple[str, ...]
    lines: tuple[HeatLine, ...]


def clock_table(heat: Heat, *, executor_id: int | None = None) -> HeatTable:
    """All fires: a row for each day of a week, or for each quarter of the hours of a day.

    Args:
        executor_id: of which the fires are; None: of all.
    """
    places = _places(heat)
    by_days = heat.cell_minutes == 60
    days = sorted({place.day for place in places})
    rows = days if by_days else [days[0]] * (60 // heat.cell_minutes)
    counts = [[0] * HOURS for _ in rows]
    over = [[True] * HOURS for _ in rows]
    for place, count in zip(places, heat.cells, strict=True):
        row = days.index(place.day) if by_days else place.minute // heat.cell_minutes
        if row < len(rows) and (by_days or place.day == days[0]):
            counts[row][place.hour] += count  # an hour that clocks repeat is one cell
            over[row][place.hour] = over[row][place.hour] and place.is_over
    level = against_usual(counts)
    lines = []
    for number, (day, row_counts) in enumerate(zip(rows, counts, strict=True)):
        minute = 0 if by_days else number * heat.cell_minutes
        cells = tuple(
            HeatCell(
                count=count,
                level=level(count),
                when=f"{_day(day)} {hour_span(hour, minute, heat.cell_minutes)}",
                is_over=over[number][hour],
                href=_day_href(day, executor_id) if by_days else f"#{JOBS_ANCHOR}",
            )
            for hour, count in enumerate(row_counts)
        )
        name = _day(day) if by_days else f":{minute:02}"
        lines.append(
            HeatLine(
                name=name,
                cells=cells,
                count=sum(row_counts),
                day=day.isoformat() if by_days else None,
            )
        )
    return HeatTable(columns=hour_columns(), lines=tuple(lines))


def row_table(heat: Heat, rows: Sequence[HeatRow], *, limit: int) -> HeatTable:
    """The fires of executors or jobs: by day for a week, by hour for a day."""
    places = _places(heat)
    by_days = heat.cell_minutes == 60
    days = sorted({place.day for place in places})
    column: Callable[[_Place], int] = (
        (lambda place: days.index(place.day)) if by_days else (lambda place: place.hour)
    )
    columns = tuple(_day(day, _SHORT_DAY) for day in days) if by_days else hour_columns()
    table = []
    over = [not by_days] * len(columns)  # of a week, each column has some time to come
    for place in places:
        if not place.is_over:
            over[column(place)] = False
    for row in rows[:limit]:
        counts = [0] * len(columns)
        for place, count in zip(places, row.cells, strict=True):
            counts[column(place)] += count
        table.append((row, counts))
    level = _by_magnitude([counts for _row, counts in table])
    lines = tuple(
        HeatLine(
            name=row.job_name or row.executor_name,
            cells=tuple(
                HeatCell(
                    count=count,
                    level=level(count),
                    when=_day(days[n]) if by_days else f"{_day(days[0])} {hour_span(n, 0, 60)}",
                    is_over=over[n],
                    href=_row_href(row, days[n] if by_days else days[0], by_days=by_days),
                )
                for n, count in enumerate(counts)
            ),
            count=row.count,
            row=row,
        )
        for row, counts in table
    )
    return HeatTable(columns=columns, lines=lines)


def _day_href(day: date, executor_id: int | None) -> str:
    """The quarters of the hours of a day, and the jobs that fire on it."""
    of = "" if executor_id is None else f"&executor={executor_id}"
    return f"/calendar?view=day&from={day.isoformat()}{of}"


def _row_href(row: HeatRow, day: date, *, by_days: bool) -> str:
    if row.job_id is not None:
        return f"/jobs/{row.job_id}"
    href = _day_href(day, row.executor_id)
    return href if by_days else f"{href}#{JOBS_ANCHOR}"


def midnight_of(day: date) -> int:
    """The first instant of a day in the reader's zone."""
    zone = ZoneInfo(REQUEST_LOCALE.get().timezone)
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where on the wall clock a cell begins."""

    day: date
    hour: int
    minute: int
    is_over: bool


def _places(heat: Heat) -> list[_Place]:
    zone = ZoneInfo(heat.zone) if heat.zone != "UTC" else UTC
    size, now = heat.cell_minutes * MINUTE_MS, REQUEST_LOCALE.get().now_at
    found = []
    for number in range(len(heat.cells)):
        at = heat.start + number * size
        local = datetime.fromtimestamp(at / 1000, zone)
        found.append(_Place(local.date(), local.hour, local.minute, at + size <= now))
    return found


def against_usual(counts: Sequence[Sequence[int]]) -> Callable[[int], int]:
    """Shades that show what stands out: an even load is of the middle one."""
    some = [count for row in counts for count in row if count]
    usual = sum(some) / len(some) if some else 1.0
    limits = (0.5 * usual, 0.85 * usual, 1.25 * usual, 1.75 * usual)
    return lambda count: 0 if count == 0 else 1 + sum(count > limit for limit in limits)


def _by_magnitude(counts: Sequence[Sequence[int]]) -> Callable[[int], int]:
    """Shades for rows that differ by orders of magnitude, as those of jobs do."""
    scale = math.log1p(max((count for row in counts for count in row), default=0)) or 1.0
    return lambda count: math.ceil(LEVELS * math.log1p(count) / scale)


def hour_columns() -> tuple[str, ...]:
    """The hours of a day."""
    return tuple(f"{hour:02}" for hour in range(HOURS))


def hour_span(hour: int, minute: int, minutes: int) -> str:
    """From when until when, "08:00–09:00"."""
    end = hour * 60 + minute + minutes
    return f"{hour:02}:{minute:02}–{end // 60:02}:{end % 60:02}"


def _day(day: date, patterns: Mapping[str, str] = _DAY) -> str:
    locale = REQUEST_LOCALE.get()
    return str(format_date(day, patterns[locale.pattern_language], locale=locale.language))
