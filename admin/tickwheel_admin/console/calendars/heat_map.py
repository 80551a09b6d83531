"""How full the coming days are, as tables of cells: by the hour, by executor and by job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from babel.dates import format_date

from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.frame.heat_table import (
    HOURS,
    HeatCell,
    HeatLine,
    HeatTable,
    against_usual,
    by_magnitude,
    hour_columns,
    hour_span,
)
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.services.triggers.service import Heat, HeatRow

JOBS_ANCHOR = "h-jobs"  # of the table of jobs on the page
MINUTE_MS = 60_000

_DAY = {"en": "EEE, MMM d", "zh": "M月d日 EEE"}
_SHORT_DAY = {"en": "EEE d", "zh": "EEE d"}


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
    for line, (day, row_counts) in enumerate(zip(rows, counts, strict=True)):
        minute = 0 if by_days else line * heat.cell_minutes
        cells = tuple(
            HeatCell(
                count=count,
                level=level(count),
                when=f"{_day(day)} {hour_span(hour, minute, heat.cell_minutes)}",
                text=_fires(count),
                is_over=over[line][hour],
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
                href=_day_href(day, executor_id) if by_days else None,
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
    level = by_magnitude([counts for _row, counts in table])
    lines = tuple(
        HeatLine(
            name=row.job_name or row.executor_name,
            cells=tuple(
                HeatCell(
                    count=count,
                    level=level(count),
                    when=_day(days[n]) if by_days else f"{_day(days[0])} {hour_span(n, 0, 60)}",
                    text=_fires(count),
                    is_over=over[n],
                    href=_row_href(row, days[n] if by_days else days[0], by_days=by_days),
                )
                for n, count in enumerate(counts)
            ),
            count=row.count,
            href=_line_href(row, by_days=by_days),
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


def _line_href(row: HeatRow, *, by_days: bool) -> str:
    """The job, or the same view of the executor alone."""
    if row.job_id is not None:
        return f"/jobs/{row.job_id}"
    return f"/calendar?executor={row.executor_id}{'' if by_days else '&view=day'}"


def _fires(count: int) -> str:
    return ngettext("%(num)s fire", "%(num)s fires", count) % {"num": number(count)}


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
    for place in range(len(heat.cells)):
        at = heat.start + place * size
        local = datetime.fromtimestamp(at / 1000, zone)
        found.append(_Place(local.date(), local.hour, local.minute, at + size <= now))
    return found


def _day(day: date, patterns: Mapping[str, str] = _DAY) -> str:
    locale = REQUEST_LOCALE.get()
    return str(format_date(day, patterns[locale.pattern_language], locale=locale.language))
