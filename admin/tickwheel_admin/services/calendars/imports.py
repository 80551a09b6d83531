"""Days of a calendar out of files that people have: CSV and iCalendar.

Nothing is stored: what was read, and what was not, is shown to the person first.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.calendar import MAX_DATES
from tickwheel_admin.domain.schedule.wall_clock import MAX_YEAR, MIN_YEAR
from tickwheel_admin.services.calendars.ical import (
    UnreadableEvent,
    days_of_events,
    refuse_frequent_zone_rules,
)

MAX_CHARS = 1_000_000
MAX_PROBLEMS = 100  # more lines than that with problems are not told one by one
MAX_NAME_CHARS = 200
YEARS_AROUND = 10  # recurring events are expanded so many years back and ahead

_DATE_HEADERS = frozenset({"date", "day", "datum", "fecha", "日期"})
_NAME_HEADERS = frozenset({"name", "summary", "description", "holiday", "名称", "节日", "说明"})
_YEARLY_HEADERS = frozenset({"yearly", "annual", "recurring", "每年"})
_YES = frozenset({"1", "x", "y", "yes", "true", "是"})
_NO = frozenset({"", "0", "n", "no", "false", "否"})
_FULL_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})-|/([0-9]{1,2})/|([0-9]{2}))([0-9]{1,2})")
_YEARLY_DATE = re.compile(r"(?:--)?([0-9]{1,2})-([0-9]{1,2})")


class CalendarFormat(StrEnum):
    """What a file is written in."""

    CSV = "csv"  # a column with dates, if need be with columns `yearly` and `name`
    ICAL = "ical"  # RFC 5545, .ics


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProblem:
    """A line that gave no day."""

    line: int = 0  # from 1
    template: str  # English message id
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The English text."""
        return self.template % self.params if self.params else self.template


@dataclass(slots=True, kw_only=True)
class ImportedDays:
    """What a file holds, as a calendar's fields have it."""

    dates: list[str] = field(default_factory=list)  # "2026-10-01", ascending
    yearly: list[str] = field(default_factory=list)  # "12-25", ascending
    names: dict[str, str] = field(default_factory=dict)  # of days that have one, by either form
    problems: list[ImportProblem] = field(default_factory=list)  # at most 100
    more_problems: int = 0  # beyond those

    def add(self, day: str, name: str, *, yearly: bool = False) -> None:
        days = self.yearly if yearly else self.dates
        days.append(day)
        if name and day not in self.names:
            self.names[day] = name[:MAX_NAME_CHARS]

    def note(self, problem: ImportProblem) -> None:
        if len(self.problems) >= MAX_PROBLEMS:
            self.more_problems += 1
        else:
            self.problems.append(problem)


def read_days(
    content: str | bytes,
    format: CalendarFormat,  # noqa: A002 - what the field of the form is called
    *,
    now: int,
    at: Callable[[str], None] = lambda _place: None,
) -> ImportedDays:
    """The days in a file.

    Args:
        now: UTC epoch ms; recurring events are expanded for ten years around it.
        at: told what is looked at next, when that may take long.

    Raises:
        InvalidInput: import.too_long, import.not_text, import.not_ical, import.zone_rule,
            import.too_many.
    """
    text = text_of(content)
    found = ImportedDays()
    if format is CalendarFormat.CSV:
        _read_csv(text, found)
    else:
        _read_ical(text, found, this_year=datetime.fromtimestamp(now / 1000, UTC).year, at=at)
    found.dates = sorted(set(found.dates))
    found.yearly = sorted(set(found.yearly))
    if len(found.dates) > MAX_DATES:
        raise InvalidInput.one(
            "content",
            "import.too_many",
            "This has %(count)d dates; a calendar holds %(limit)d.",
            count=len(found.dates),
            limit=MAX_DATES,
        )
    return found


def text_of(content: str | bytes) -> str:
    """A file's text; raises InvalidInput as `read_days` does."""
    if len(content) > MAX_CHARS:
        raise InvalidInput.one(
            "content", "import.too_long", "At most %(limit)s bytes, please.", limit=f"{MAX_CHARS:,}"
        )
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    try:
        utf_16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
        return content.decode("utf-16" if utf_16 else "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise InvalidInput.one(
            "content", "import.not_text", "This is not text in UTF-8; save the file as UTF-8 first."
        ) from None


# --- CSV -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Columns:
    date: int = 0
    name: int | None = 1
    yearly: int | None = None


def _read_csv(text: str, found: ImportedDays) -> None:
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    columns: _Columns | None = None
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if columns is None:
                columns = _columns(cells) or _Columns()
                if _columns(cells) is not None:
                    continue
            _read_row(cells, columns, reader.line_num, found)
    except csv.Error as error:
        found.note(
            ImportProblem(
                line=reader.line_num,
                template="This line is not CSV: %(problem)s.",
                params={"problem": str(error)},
            )
        )


def _columns(cells: list[str]) -> _Columns | None:
    """Where a header says that things are; None when the line is no header."""
    headers = [cell.casefold() for cell in cells]
    dates = [place for place, header in enumerate(headers) if header in _DATE_HEADERS]
    if not dates:
        return None
    names = [place for place, header in enumerate(headers) if header in _NAME_HEADERS]
    yearly = [place for place, header in enumerate(headers) if header in _YEARLY_HEADERS]
    return _Columns(
        date=dates[0],
        name=names[0] if names else None,
        yearly=yearly[0] if yearly else None,
    )


def _read_row(cells: list[str], columns: _Columns, line: int, found: ImportedDays) -> None:
    def cell(place: int | None) -> str:
        return cells[place] if place is not None and place < len(cells) else ""

    text, name, yearly = cell(columns.date), cell(columns.name), cell(columns.yearly).casefold()

    def refuse(problem: ImportProblem) -> None:
        found.note(replace(problem, line=line, params={"text": text[:50]} | problem.params))

    if yearly not in _YES | _NO:
        refuse(
            ImportProblem(
                template="“%(text)s” is neither yes nor no.", params={"text": yearly[:50]}
            )
        )
        return
    if (full := _FULL_DATE.fullmatch(text)) is not None:
        year, month, day = int(full[1]), int(full[2] or full[3] or full[4]), int(full[5])
    elif (part := _YEARLY_DATE.fullmatch(text)) is not None:
        year, month, day, yearly = 2000, int(part[1]), int(part[2]), "yes"
    else:
        refuse(
            ImportProblem(template="“%(text)s” is not a date; write it as 2026-10-01, or 12-25.")
        )
        return
    try:
        each = date(year, month, day)
    except ValueError:
        refuse(ImportProblem(template="There is no day %(text)s."))
        return
    if not MIN_YEAR <= each.year <= MAX_YEAR:
        refuse(
            ImportProblem(
                template="%(text)s lies outside the years %(first)d to %(last)d.",
                params={"first": MIN_YEAR, "last": MAX_YEAR},
            )
        )
    elif yearly in _YES:
        found.add(f"{each:%m-%d}", name, yearly=True)
    else:
        found.add(each.isoformat(), name)


# --- iCalendar -------------------------------------------------------------------------------


def _read_ical(
    text: str, found: ImportedDays, *, this_year: int, at: Callable[[str], None]
) -> None:
    lines = _lines_of_events(text)
    at("BEGIN:VCALENDAR")
    refuse_frequent_zone_rules(text)
    first = date(max(this_year - YEARS_AROUND, MIN_YEAR), 1, 1)
    last = date(min(this_year + YEARS_AROUND, MAX_YEAR), 12, 31)
    try:
        for number, event in enumerate(days_of_events(text, first=first, last=last, at=at)):
            line = lines[number] if number < len(lines) else 1
            if isinstance(event, UnreadableEvent):
                found.note(ImportProblem(line=line, template=event.template, params=event.params))
                continue
            for day in event.days:
                found.add(day.isoformat(), event.name)
            if not event.days and not event.cancelled:
                found.note(
                    ImportProblem(
                        line=line,
                        template="This event has no day from %(first)s to %(last)s.",
                        params={"first": first.isoformat(), "last": last.isoformat()},
                    )
                )
    except Exception as error:  # noqa: BLE001 - whatever the library stumbles over
        raise InvalidInput.one(
            "content",
            "import.not_ical",
            "This is not an iCalendar file: %(problem)s.",
            problem=str(error)[:200],
        ) from None


def _lines_of_events(text: str) -> list[int]:
    """Where each event begins, in the order of the file."""
    return list(_numbers_of(text))


def _numbers_of(text: str) -> Iterator[int]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip().upper() == "BEGIN:VEVENT":
            yield number
