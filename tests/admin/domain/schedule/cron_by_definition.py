"""Cron by definition, slow and with no masks: does this field hold this number, on this date?

It shares nothing with the engine that it is compared with; also makes random expressions.
"""

from __future__ import annotations

import calendar
from datetime import date, datetime, time, timedelta
from random import Random

from tickwheel_admin.domain.schedule.cron.dialect import Dialect

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_LAST_DAY = date(2199, 12, 31)


class ByDefinition:
    """What an expression of six or seven fields (unix: five) matches."""

    def __init__(self, expression: str, dialect: Dialect) -> None:
        texts = expression.upper().split()
        if dialect is Dialect.UNIX:
            texts = ["0", *texts]
        self._dialect = dialect
        second, minute, hour, self._day, self._month, self._weekday, *year = texts
        self._year = year[0] if year else "*"
        hours = [n for n in range(24) if _holds(hour, n, 0, 23)]
        minutes = [n for n in range(60) if _holds(minute, n, 0, 59)]
        seconds = [n for n in range(60) if _holds(second, n, 0, 59)]
        self.times = [time(h, m, s) for h in hours for m in minutes for s in seconds]
        self._is_time = frozenset(self.times)
        self._dates: dict[date, bool] = {}
        self.covers_all_hours = len(hours) == 24
        self.is_interval = any(sign in second + minute + hour for sign in "*-/")

    def is_wall(self, wall: datetime) -> bool:
        return wall.time() in self._is_time and self.is_date(wall.date())

    def is_date(self, day: date) -> bool:
        if day not in self._dates:
            self._dates[day] = (
                _holds(self._year, day.year, 1970, 2199)
                and _holds(self._month, day.month, 1, 12, names=MONTHS)
                and self._is_day(day)
            )
        return self._dates[day]

    def next_wall(self, wall: datetime) -> datetime | None:
        """The first match after a wall time; None when there is none for four years."""
        for n in range(366 * 4):
            day = wall.date() + timedelta(days=n)
            if day > _LAST_DAY:
                return None
            if self.is_date(day):
                for at in self.times:
                    found = datetime.combine(day, at)
                    if found > wall:
                        return found
        return None

    def _is_day(self, day: date) -> bool:
        by_day = any(_is_day_of_month(item, day) for item in self._day.split(","))
        by_weekday = any(
            _is_day_of_week(item, day, self._dialect) for item in self._weekday.split(",")
        )
        if self._dialect is Dialect.UNIX and not {self._day[0], self._weekday[0]} & set("*?"):
            return by_day or by_weekday
        return by_day and by_weekday


def _holds(
    text: str, value: int, low: int, high: int, *, names: tuple[str, ...] = (), size: int = 0
) -> bool:
    return any(
        _item_holds(item, value, low, high, names, size or high - low + 1)
        for item in text.split(",")
    )


def _item_holds(
    item: str, value: int, low: int, high: int, names: tuple[str, ...], size: int
) -> bool:
    span, _, step = item.partition("/")
    first_text, _, last_text = span.partition("-")
    if span in ("*", "?", ""):
        first, last = low, high
    else:
        first = _number(first_text, names, low)
        last = _number(last_text, names, low) if last_text else (high if step else first)
        last = max(last, first) if not last_text else last
    if last < first:
        last += size
    return any((number - value) % size == 0 for number in range(first, last + 1, int(step or 1)))


def _number(text: str, names: tuple[str, ...], low: int) -> int:
    return names.index(text) + low if text in names else int(text)


def _is_day_of_month(item: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if item.endswith("W"):
        wanted = item[:-1]
        target = _from_end(wanted, length) if wanted[0] == "L" else int(wanted)
        workdays = [
            n for n in range(1, length + 1) if date(day.year, day.month, n).isoweekday() <= 5
        ]
        return 1 <= target <= length and day.day == min(workdays, key=lambda n: abs(n - target))
    if item[0] == "L":
        return day.day == _from_end(item, length)
    return _item_holds(item, day.day, 1, 31, (), 31)


def _from_end(text: str, length: int) -> int:
    return length - int(text[2:] or 0)


def _is_day_of_week(item: str, day: date, dialect: Dialect) -> bool:
    sunday = 1 if dialect is Dialect.QUARTZ else 0
    weekday = day.isoweekday() % 7 + sunday
    length = calendar.monthrange(day.year, day.month)[1]
    if item == "L":
        return day.isoweekday() == 6
    if item.endswith("L"):
        return _weekday(item[:-1], sunday) == weekday and day.day + 7 > length
    if "#" in item:
        name, _, nth = item.partition("#")
        return _weekday(name, sunday) == weekday and (day.day + 6) // 7 == int(nth)
    # A week of Spring's begins on Monday, also where a step begins.
    low, high = (1, 7) if dialect is not Dialect.UNIX else (0, 6)
    if item[0] in "*?" and dialect is Dialect.SPRING:
        return _item_holds(item, weekday, low, high, (), 7)
    names = tuple(WEEKDAYS)
    first = item.partition("/")[0].partition("-")[0]
    if first in names:
        item = item.replace(first, str(names.index(first) + sunday), 1)
    last = item.partition("/")[0].partition("-")[2]
    if last in names:
        item = item.replace(last, str(names.index(last) + sunday), 1)
    return _item_holds(item, weekday, low, high, (), 7)


def _weekday(text: str, sunday: int) -> int:
    number = WEEKDAYS.index(text) + sunday if text in WEEKDAYS else int(text)
    return number if sunday else number % 7


def random_expression(random: Random, dialect: Dialect) -> str:
    """An expression of any form; some never fire."""
    low = 1 if dialect is Dialect.QUARTZ else 0
    fields = [
        _random_field(random, 0, 59),
        _random_field(random, 0, 59),
        _random_field(random, 0, 23),
        _random_days(random),
        _random_field(random, 1, 12, names=MONTHS, plain=0.5),
        _random_weekdays(random, low),
    ]
    if dialect is Dialect.UNIX:
        return " ".join(fields[1:])
    if dialect is Dialect.QUARTZ:
        fields[random.choice((3, 5))] = "?"
        if fields[3] == fields[5]:
            fields[3] = "*"
        if random.random() < 0.3:
            year = random.randint(1990, 2060)
            fields.append(random.choice((f"{year}-{year + 30}", f"{year},{year + 9}", f"{year}/5")))
    text = " ".join(fields)
    return text.lower() if random.random() < 0.2 else text


def _random_field(
    random: Random, low: int, high: int, *, names: tuple[str, ...] = (), plain: float = 0.3
) -> str:
    if random.random() < plain:
        return "*"
    return ",".join(
        _random_item(random, low, high, names) for _ in range(random.choice((1, 1, 1, 2, 3)))
    )


def _random_item(random: Random, low: int, high: int, names: tuple[str, ...]) -> str:
    def number() -> str:
        n = random.randint(low, high)
        return names[n - low] if n - low < len(names) and random.random() < 0.3 else str(n)

    step = random.choice((1, 2, 3, 5, 7, 10, max(1, high - 1)))
    step = min(step, max(high, 1))
    match random.randrange(6):
        case 0 | 1:
            return number()
        case 2:
            return f"{number()}-{number()}"
        case 3:
            return f"{number()}-{number()}/{step}"
        case 4:
            return f"*/{step}"
        case _:
            return f"{number()}/{step}"


def _random_days(random: Random) -> str:
    if random.random() < 0.3:
        return random.choice("*?")
    return ",".join(
        random.choice(
            (
                _random_item(random, 1, 31, ()),
                _random_item(random, 1, 31, ()),
                "L",
                f"L-{random.randint(1, 30)}",
                "LW",
                f"L-{random.randint(1, 30)}W",
                f"{random.choice((1, 31, random.randint(1, 31)))}W",
            )
        )
        for _ in range(random.choice((1, 1, 2, 3)))
    )


def _random_weekdays(random: Random, low: int) -> str:
    if random.random() < 0.4:
        return random.choice("*?")
    weekday = random.choice((str(random.randint(low, 7)), random.choice(WEEKDAYS)))
    return ",".join(
        random.choice(
            (
                _random_item(random, low, 7 if low else 6, WEEKDAYS),
                _random_item(random, low, 7, ()),
                f"{weekday}L",
                f"{weekday}#{random.randint(1, 5)}",
            )
        )
        for _ in range(random.choice((1, 1, 2)))
    )
