"""Cron expressions read a second time: by croniter where it reads them as we do, else here.

What is stored was accepted when it was saved, so this is about meaning, not about refusals. The
rules are those of docs/schedules.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from croniter import CroniterError, croniter

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_YEARS = (1970, 2199)
# Forms that croniter is known to read as every dialect does: numbers that rise, lists, steps of
# a star or of a range. Names, wrapped ranges and days that depend on the month are read here.
_PLAIN = re.compile(r"(?:\*(?:/[0-9]+)?|[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?)", re.ASCII)


class UnreadableExpression(ValueError):
    """Neither croniter nor this module understands it; it cannot be audited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CronReading:
    """The wall times that an expression matches."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    month_days: frozenset[int]  # 1..31
    special_days: tuple[str, ...]  # of the month: L, L-3, LW, 15W
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    special_weekdays: tuple[tuple[int, int], ...]  # (weekday, which of the month; 0: the last)
    years: frozenset[int]
    either_day: bool  # one of the two days is enough
    is_interval: bool  # it runs in both passes of an overlap

    def has_day(self, year: int, month: int, day: int, *, weekday: int, length: int) -> bool:
        """Whether a date matches.

        Args:
            weekday: of the date, 0 is Sunday.
            length: days of its month.
        """
        if month not in self.months or year not in self.years:
            return False
        first = (weekday - day + 1) % 7  # weekday of the first of the month
        in_month = day in self.month_days or any(
            day == _special_day(each, first=first, length=length) for each in self.special_days
        )
        in_week = weekday in self.weekdays or any(
            weekday == wanted and (day + 7 > length if nth == 0 else (day + 6) // 7 == nth)
            for wanted, nth in self.special_weekdays
        )
        return in_month or in_week if self.either_day else in_month and in_week


@lru_cache(maxsize=8_192)
def read_cron(expression: str, dialect: str) -> CronReading:
    """The meaning of an expression of a dialect: unix, quartz or spring.

    Raises:
        UnreadableExpression: it has none.
    """
    text = " ".join(expression.upper().split())
    text = _MACROS.get(text.lower(), text)
    fields = text.split()
    if dialect == "unix":
        fields = ["0", *fields]
    if len(fields) == 6:
        fields.append("*")
    if len(fields) != 7:
        raise UnreadableExpression(expression)
    try:
        own = _read(fields, dialect)
        if all(_PLAIN.fullmatch(item) for field in fields for item in field.split(",")):
            return _by_croniter(fields, dialect, own)
    except (ValueError, IndexError, KeyError, CroniterError) as error:
        raise UnreadableExpression(expression) from error
    return own


def _by_croniter(fields: Sequence[str], dialect: str, own: CronReading) -> CronReading:
    """What croniter makes of the fields whose numbers mean the same everywhere."""
    # Weekdays have other numbers in each dialect. Of ranges, croniter takes one of a single value
    # for all values, and steps through one that wraps around in another way.
    timed = [*fields[:5], "*"]
    if not all(_rises(item) for field in timed for item in field.split(",")):
        return own
    parts = croniter.expand(" ".join(timed), second_at_beginning=True)[0]  # the second comes last
    whole = (range(60), range(24), range(1, 32), range(1, 13), range(7), range(60))
    minute, hour, day, month, _, second = map(_expanded, parts, whole)
    return CronReading(
        seconds=second,
        minutes=minute,
        hours=hour,
        month_days=frozenset(day),
        special_days=(),
        months=frozenset(month),
        weekdays=own.weekdays,
        special_weekdays=(),
        years=own.years,
        either_day=own.either_day,
        is_interval=own.is_interval,
    )


def _rises(item: str) -> bool:
    first, _, last = item.partition("/")[0].partition("-")
    return not last or int(first) < int(last)


def _expanded(part: Sequence[int | str], whole: range) -> tuple[int, ...]:
    if any(each == "*" for each in part):
        return tuple(whole)
    return tuple(sorted({int(each) for each in part}))


def _read(fields: Sequence[str], dialect: str) -> CronReading:
    second, minute, hour, in_month, month, in_week, year = fields
    special_days = tuple(each for each in in_month.split(",") if set(each) & set("LW"))
    plain_days = [each for each in in_month.split(",") if each not in special_days]
    last_of_week = {"L"} if dialect == "quartz" else set()
    special_weekdays = [
        each for each in in_week.split(",") if "#" in each or _names_last_weekday(each)
    ]
    plain_weekdays = [
        "7" if each in last_of_week else each
        for each in in_week.split(",")
        if each not in special_weekdays
    ]
    origin = 1 if dialect == "quartz" else 0
    weekdays = {
        (number - origin) % 7
        for item in plain_weekdays
        for number in _item(item, origin, 7, _WEEKDAYS, origin, dialect=dialect)
    }
    return CronReading(
        seconds=_field(second, 0, 59, dialect),
        minutes=_field(minute, 0, 59, dialect),
        hours=_field(hour, 0, 23, dialect),
        month_days=frozenset(_field(",".join(plain_days), 1, 31, dialect)),
        special_days=special_days,
        months=frozenset(_field(month, 1, 12, dialect, _MONTHS)),
        weekdays=frozenset(weekdays),
        special_weekdays=tuple(_nth(each, origin) for each in special_weekdays),
        years=frozenset(_field(year, *_YEARS, dialect)),
        either_day=dialect == "unix" and in_month[0] not in "*?" and in_week[0] not in "*?",
        is_interval=bool(set(second + minute + hour) & set("*-/")),
    )


def _field(
    text: str, low: int, high: int, dialect: str, names: Sequence[str] = ()
) -> tuple[int, ...]:
    if not text:
        return ()
    size = high - low + 1
    return tuple(
        sorted(
            {
                (number - low) % size + low
                for item in text.split(",")
                for number in _item(item, low, high, names, low, dialect=dialect)
            }
        )
    )


def _item(
    item: str, low: int, high: int, names: Sequence[str], first_name: int, *, dialect: str
) -> Iterator[int]:
    """The numbers of one item; they may go on beyond the last value of the field."""
    size = 7 if names is _WEEKDAYS else high - low + 1
    begin, end = low, low + size - 1
    if names is _WEEKDAYS and dialect == "spring":
        begin, end = 1, 7  # a week with a step begins on Monday
    text, _, step = item.partition("/")
    if text in ("*", "?", ""):
        first, last = begin, end
    elif "-" in text:
        left, _, right = text.partition("-")
        first, last = (_number(each, names, first_name) for each in (left, right))
        if last < first:
            last += size
    else:
        first = last = _number(text, names, first_name)
        if step:
            last = max(first, end)
    return iter(range(first, last + 1, int(step or 1)))


def _number(text: str, names: Sequence[str], first_name: int) -> int:
    return names.index(text) + first_name if text in names else int(text)


def _names_last_weekday(item: str) -> bool:
    """Whether it is such as `6L` or `FRIL`; `L` alone is a day."""
    return len(item) > 1 and item.endswith("L")


def _nth(item: str, origin: int) -> tuple[int, int]:
    name, _, nth = item.partition("#")
    name = name if nth else name[:-1]
    return (_number(name, _WEEKDAYS, origin) - origin) % 7, int(nth or 0)


def _special_day(item: str, *, first: int, length: int) -> int:
    """The day of the month that L, L-n, LW, L-nW or nW is; 0: there is none.

    Args:
        first: weekday of the first of the month, 0 is Sunday.
    """
    near_workday = item.endswith("W")
    text = item.removesuffix("W")
    day = length - int(text[2:] or 0) if text.startswith("L") else int(text)
    if not 1 <= day <= length:
        return 0
    if not near_workday:
        return day
    weekday = (first + day - 1) % 7
    if weekday == 6:  # Saturday: the Friday before, unless that is another month
        return day - 1 if day > 1 else day + 2
    if weekday == 0:  # Sunday: the Monday after, likewise
        return day + 1 if day < length else day - 2
    return day
