"""A whole cron expression: its fields, how its days are joined, and whether it ever fires."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron import whole_refusals as refusals
from tickwheel_admin.domain.schedule.cron.crontab import check_foreign_parts, check_line
from tickwheel_admin.domain.schedule.cron.days import days_of_month, days_of_week
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.cron.fields import RULES, FieldKind, FieldRules
from tickwheel_admin.domain.schedule.cron.months import SHAPE_OF_MONTH, SHAPES
from tickwheel_admin.domain.schedule.cron.parser import parse_field
from tickwheel_admin.domain.schedule.cron.tokens import Field

MAX_EXPRESSION_CHARS = 500
# Each as the unix dialect writes it; the spring dialect has them too, at second 0.
MACROS: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_WRITTEN = {  # the fields that are written, and how many of them
    Dialect.UNIX: (RULES[Dialect.UNIX][FieldKind.MINUTE : FieldKind.YEAR], (5,)),
    Dialect.QUARTZ: (RULES[Dialect.QUARTZ], (6, 7)),
    Dialect.SPRING: (RULES[Dialect.SPRING][: FieldKind.YEAR], (6,)),
}
_AT_SECOND_0 = (parse_field(RULES[Dialect.UNIX][FieldKind.SECOND], "0"),)
_IN_ALL_YEARS = (parse_field(RULES[Dialect.QUARTZ][FieldKind.YEAR], "*"),)
_ALL_HOURS = (1 << 24) - 1
_ALL_YEARS = _IN_ALL_YEARS[0].mask


@dataclass(frozen=True, slots=True, kw_only=True)
class CronExpression:
    """What an expression says, without a zone."""

    dialect: Dialect
    text: str  # normal form: one space between fields, names in upper case, macros in lower
    fields: tuple[Field, ...]  # one of each FieldKind in that order, also those not written
    either_day: bool  # a day matches by day-of-month or by day-of-week; else it needs both
    is_interval: bool  # its wall times fire in both passes when the clocks go back
    covers_all_hours: bool  # nothing is invented for it when the clocks go forward
    covers_all_years: bool
    # Days by month shape, filled when a shape is first asked for; bit 0 is the month's first day.
    _days: list[int | None] = field(
        default_factory=lambda: [None] * len(SHAPES), repr=False, compare=False
    )

    def days(self, shape: int) -> int:
        """The matching days of a month; bit 0 is its first day.

        Args:
            shape: place in `months.SHAPES`.
        """
        days = self._days[shape]
        if days is None:
            in_month = days_of_month(self.fields[FieldKind.DAY_OF_MONTH], SHAPES[shape])
            in_week = days_of_week(self.fields[FieldKind.DAY_OF_WEEK], SHAPES[shape])
            days = in_month | in_week if self.either_day else in_month & in_week
            self._days[shape] = days
        return days


@lru_cache(maxsize=20_000)
def parse_cron(expression: str, dialect: Dialect) -> CronExpression:
    """What a cron expression means in a dialect.

    Raises:
        ScheduleError: it breaks a rule of the dialect, or would never fire. `params` hold the
            1-based `position` of the character at fault where there is one.
    """
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise refusals.too_long(MAX_EXPRESSION_CHARS)
    texts = expression.split()
    if not texts:
        raise refusals.nothing()
    check_foreign_parts(texts, dialect)
    if texts[0][0] == "@":
        macro = " ".join(texts).lower()
        if macro not in MACROS or dialect is Dialect.QUARTZ:
            raise refusals.unknown_macro(macro, dialect, tuple(MACROS))
        fields = _AT_SECOND_0 + _fields(MACROS[macro].split(), RULES[dialect][1:], macro)
        return _joined(dialect, macro, fields + _IN_ALL_YEARS)
    rules, counts = _WRITTEN[dialect]
    if len(texts) not in counts:
        check_line(texts, dialect, counts[-1])
        raise refusals.wrong_count(texts, dialect)
    fields = _fields(texts, rules, expression)
    if dialect is Dialect.QUARTZ:
        _check_days(expression, fields)
    text = " ".join([each.text for each in fields])
    if dialect is Dialect.UNIX:
        fields = _AT_SECOND_0 + fields
    return _joined(dialect, text, fields if len(fields) == 7 else fields + _IN_ALL_YEARS)


def _fields(
    texts: Sequence[str], rules: Sequence[FieldRules], expression: str
) -> tuple[Field, ...]:
    found: list[Field] = []
    try:
        for rule, text in zip(rules, texts, strict=False):  # the year may be left out
            found.append(parse_field(rule, text))
    except ScheduleError as error:
        at = _start(expression, len(found)) + error.params["position"] - 1
        params = error.params | {"position": at + 1}
        if (token := params.get("token")) and "…" not in token:
            params["token"] = expression[at : at + len(token)]  # in the case that was written
        raise ScheduleError(error.field, error.template, **params) from None
    return tuple(found)


def _start(expression: str, place: int) -> int:
    """Where a field begins, from 0."""
    return [match.start() for match in re.finditer(r"\S+", expression)][place]


def _check_days(expression: str, fields: tuple[Field, ...]) -> None:
    """Quartz takes one of the two days; `*` beside it is read as `?`, which is what is meant."""
    in_month, in_week = fields[FieldKind.DAY_OF_MONTH], fields[FieldKind.DAY_OF_WEEK]
    if not (in_month.is_any or in_week.is_any):
        position = _start(expression, FieldKind.DAY_OF_WEEK) + 1
        raise refusals.both_days(position, in_month, in_week)
    if in_month.text == in_week.text == "?":
        raise refusals.no_day(_start(expression, FieldKind.DAY_OF_WEEK) + 1)


def _joined(dialect: Dialect, text: str, fields: tuple[Field, ...]) -> CronExpression:
    second, minute, hour, in_month, _month, in_week, year = fields
    expression = CronExpression(
        dialect=dialect,
        text=text,
        fields=fields,
        either_day=(dialect is Dialect.UNIX and not in_month.is_starred and not in_week.is_starred),
        is_interval=second.is_interval or minute.is_interval or hour.is_interval,
        covers_all_hours=hour.mask == _ALL_HOURS,
        covers_all_years=year.mask == _ALL_YEARS,
    )
    if not _fires(expression):
        raise refusals.never(expression.text, expression.fields)
    return expression


def _fires(expression: CronExpression) -> bool:
    """Whether any month from 1970 to 2199 has a matching day."""
    _, _, _, in_month, month, in_week, year = expression.fields
    # Nearly every expression names one of the two days only, and a day that all months have.
    if in_week.is_any and in_month.is_in_every_month:
        return True
    if in_month.is_any and in_week.is_in_every_month:
        return True
    return any(
        expression.days(SHAPE_OF_MONTH[12 * each_year + each_month - 1])
        for each_year in year.values
        for each_month in month.values
    )
