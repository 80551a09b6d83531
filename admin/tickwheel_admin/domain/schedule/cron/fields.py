"""The fields of a cron expression and what each dialect allows in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.schedule.cron.dialect import Dialect

FIRST_YEAR = 1970
LAST_YEAR = 2199


class FieldKind(IntEnum):
    """In the order in which dialects write them."""

    SECOND = 0
    MINUTE = 1
    HOUR = 2
    DAY_OF_MONTH = 3
    MONTH = 4
    DAY_OF_WEEK = 5
    YEAR = 6


FIELD_NAMES: Mapping[FieldKind, Word] = {
    FieldKind.SECOND: Word("second"),
    FieldKind.MINUTE: Word("minute"),
    FieldKind.HOUR: Word("hour"),
    FieldKind.DAY_OF_MONTH: Word("day-of-month"),
    FieldKind.MONTH: Word("month"),
    FieldKind.DAY_OF_WEEK: Word("day-of-week"),
    FieldKind.YEAR: Word("year"),
}
MONTH_WORDS = (
    Word("January"), Word("February"), Word("March"), Word("April"), Word("May"), Word("June"),
    Word("July"), Word("August"), Word("September"), Word("October"), Word("November"),
    Word("December"),
)  # fmt: skip
WEEKDAY_WORDS = (
    Word("Sunday"), Word("Monday"), Word("Tuesday"), Word("Wednesday"), Word("Thursday"),
    Word("Friday"), Word("Saturday"),
)  # fmt: skip

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FieldRules:
    """One field in one dialect."""

    kind: FieldKind
    dialect: Dialect
    low: int  # the numbers that may be written, names aside
    high: int
    all_from: int  # the numbers that `*` means; `n/step` ends at the last of them
    all_to: int
    size: int  # a range whose end is before its start goes on after so many values
    origin: int  # the number of the first value …
    first_bit: int = 0  # … and its bit in `Field.mask`
    max_step: int
    names: Mapping[str, int] = field(default_factory=dict)  # upper case: the number meant
    words: tuple[Word, ...] = ()  # what the values mean, from `origin` on

    @property
    def name(self) -> Word:
        return FIELD_NAMES[self.kind]

    def bit(self, number: int) -> int:
        return (number - self.origin) % self.size + self.first_bit

    def value(self, number: int) -> int:
        """The number of a token, the same in all dialects."""
        return self.bit(number) if self.kind is FieldKind.DAY_OF_WEEK else number

    def meaning(self, number: int) -> Word:
        """The name of the month or weekday that a number is."""
        return self.words[(number - self.origin) % self.size]


def _time(kind: FieldKind, dialect: Dialect) -> FieldRules:
    high = 23 if kind is FieldKind.HOUR else 59
    return FieldRules(
        kind=kind, dialect=dialect, low=0, high=high, all_from=0, all_to=high, size=high + 1,
        origin=0, max_step=high,
    )  # fmt: skip


def _day_of_month(dialect: Dialect) -> FieldRules:
    return FieldRules(
        kind=FieldKind.DAY_OF_MONTH, dialect=dialect, low=1, high=31, all_from=1, all_to=31,
        size=31, origin=1, first_bit=1, max_step=31,
    )  # fmt: skip


def _month(dialect: Dialect) -> FieldRules:
    return FieldRules(
        kind=FieldKind.MONTH, dialect=dialect, low=1, high=12, all_from=1, all_to=12, size=12,
        origin=1, first_bit=1, max_step=12, names={n: i for i, n in enumerate(_MONTHS, 1)},
        words=MONTH_WORDS,
    )  # fmt: skip


def _day_of_week(dialect: Dialect) -> FieldRules:
    origin = 1 if dialect is Dialect.QUARTZ else 0
    # In Spring a week with a step starts on Monday and ends on Sunday, which is 7.
    all_from = 0 if dialect is Dialect.UNIX else 1
    return FieldRules(
        kind=FieldKind.DAY_OF_WEEK, dialect=dialect, low=origin, high=7, all_from=all_from,
        all_to=all_from + 6, size=7, origin=origin, max_step=7,
        names={n: i for i, n in enumerate(_WEEKDAYS, origin)}, words=WEEKDAY_WORDS,
    )  # fmt: skip


def _year(dialect: Dialect) -> FieldRules:
    years = LAST_YEAR - FIRST_YEAR + 1
    return FieldRules(
        kind=FieldKind.YEAR, dialect=dialect, low=FIRST_YEAR, high=LAST_YEAR, all_from=FIRST_YEAR,
        all_to=LAST_YEAR, size=years, origin=FIRST_YEAR, max_step=years - 1,
    )  # fmt: skip


# The rules of a dialect's fields, in the order in which they are written.
RULES: Mapping[Dialect, tuple[FieldRules, ...]] = {
    dialect: (
        _time(FieldKind.SECOND, dialect),
        _time(FieldKind.MINUTE, dialect),
        _time(FieldKind.HOUR, dialect),
        _day_of_month(dialect),
        _month(dialect),
        _day_of_week(dialect),
        _year(dialect),
    )
    for dialect in Dialect
}
