"""Cron expressions: a pattern of the clock and the calendar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.schedule.allowed_grid import WallCalendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.cron import Cron, CronExpression, FieldKind, parse_cron
from tickwheel_admin.domain.schedule.cron.days import days_of_month, days_of_week
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.cron.fields import MONTH_WORDS, WEEKDAY_WORDS
from tickwheel_admin.domain.schedule.cron.months import SHAPE_OF_MONTH, SHAPES
from tickwheel_admin.domain.schedule.describe.days import days_in_words, with_days
from tickwheel_admin.domain.schedule.describe.months import year_bound
from tickwheel_admin.domain.schedule.describe.times import times_in_words
from tickwheel_admin.domain.schedule.describe.words import Translate
from tickwheel_admin.domain.schedule.wall_clock import MIN_YEAR, date_of_day
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.reason import Reason
from tickwheel_admin.domain.triggers.spec import WallTimeSpec

MAX_EXPRESSION_CHARS = 500


class CronSpec(WallTimeSpec, frozen=True, kw_only=True, tag="cron"):
    """Fires when the clocks show what its expression matches."""

    kind: ClassVar[str] = "cron"
    is_proven_to_fire: ClassVar[bool] = True

    expression: str | None = None
    dialect: str | None = None  # a Dialect; None: unix

    def schedule(self, *, saved_at: int, calendar: WallCalendar | None) -> Cron:
        expression, zone = self.read_expression(), zone_of(self.timezone)
        return Cron(expression, zone, gap=self.gap, overlap=self.overlap, calendar=calendar)

    def read_expression(self) -> CronExpression:
        """Its expression, as its dialect reads it; raises ScheduleError."""
        try:
            dialect = Dialect(self.dialect or Dialect.UNIX)
        except ValueError:
            raise ScheduleError(
                "dialect",
                "“%(dialect)s” is not a cron dialect; use unix, quartz or spring.",
                dialect=self.dialect,
            ) from None
        return parse_cron(self.expression or "", dialect)

    @staticmethod
    def own_fields(_: Translate) -> Sequence[OwnField]:
        return (
            OwnField(
                name="expression",
                input=Input.EXPRESSION,
                label=_("Cron expression"),
                is_required=True,
                placeholder="30 9 * * 1-5",
            ),
            OwnField(
                name="dialect",
                input=Input.DIALECT,
                label=_("Dialect"),
                default=Dialect.UNIX.value,
            ),
        )

    @staticmethod
    def read_own(fields: Fields) -> dict[str, Any]:
        expression = fields.text("expression", max_chars=MAX_EXPRESSION_CHARS, required=True)
        dialect = fields.member("dialect", Dialect, default=Dialect.UNIX)
        if not fields.has("dialect") and len(expression.split()) in (6, 7):
            fields.refuse(
                "dialect",
                "required",
                "An expression with seconds is read differently by quartz (1 is Sunday) and by"
                " spring (0 and 7 are Sunday); say which it is.",
            )
        return {"expression": expression, "dialect": dialect.value}

    def own_to_raw(self) -> dict[str, Any]:
        return {"expression": self.expression, "dialect": self.dialect or Dialect.UNIX.value}

    @staticmethod
    def name_and_hint(_: Translate) -> tuple[str, str]:
        return (
            _("Cron"),
            _("By a pattern of the clock and the calendar: on weekdays at 09:30."),
        )

    def describe(self, _: Translate) -> str:
        try:
            expression = self.read_expression()
        except ScheduleError:
            return " ".join((self.expression or "").split())
        years = year_bound(expression, _)
        days = days_in_words(expression, years, _)
        times = times_in_words(
            expression, _, every_day=days is None and expression.covers_all_years
        )
        if not times.is_list:
            days = days_in_words(expression, years, _, beside_rhythm=True)
        if times.is_list and days is None:
            text = _("Every day at %(times)s") % {"times": times.text}
        elif times.is_list and days is not None and days.is_apart:
            text = _("At %(times)s, %(days)s") % {"times": times.text, "days": days.text}
        elif times.is_list and days is not None:
            text = _("At %(times)s %(days)s") % {"times": times.text, "days": days.text}
        else:
            text = with_days(times.text, days, _)
        if years is None or (days is not None and days.names_years):
            return text
        return _("%(sentence)s, %(years)s") % {"sentence": text, "years": years.text}

    def why_not_on(self, day: int, everything: Schedule, zone: Zone) -> Iterable[Reason]:
        return _by_fields(self.read_expression(), day)


def _by_fields(expression: CronExpression, day: int) -> Iterator[Reason]:
    date = date_of_day(day)
    fields = expression.fields
    if not fields[FieldKind.YEAR].mask >> date.year - MIN_YEAR & 1:
        yield Reason(
            code="year",
            template="The year field “%(field)s” leaves %(year)s out.",
            params={"field": fields[FieldKind.YEAR].text, "year": str(date.year)},
        )
    if not fields[FieldKind.MONTH].mask >> date.month & 1:
        yield Reason(
            code="month",
            template="The month field “%(field)s” leaves %(month)s out.",
            params={
                "field": fields[FieldKind.MONTH].text,
                "month": MONTH_WORDS[date.month - 1],
            },
        )
    shape = SHAPES[SHAPE_OF_MONTH[12 * (date.year - MIN_YEAR) + date.month - 1]]
    in_month = days_of_month(fields[FieldKind.DAY_OF_MONTH], shape) >> date.day - 1 & 1
    in_week = days_of_week(fields[FieldKind.DAY_OF_WEEK], shape) >> date.day - 1 & 1
    if expression.either_day and (in_month or in_week):
        return
    if not in_month:
        yield Reason(
            code="day_of_month",
            template="The day-of-month field “%(field)s” leaves day %(day)s of this month out.",
            params={"field": fields[FieldKind.DAY_OF_MONTH].text, "day": str(date.day)},
        )
    if not in_week:
        yield Reason(
            code="day_of_week",
            template="The day-of-week field “%(field)s” leaves this %(weekday)s out.",
            params={
                "field": fields[FieldKind.DAY_OF_WEEK].text,
                "weekday": WEEKDAY_WORDS[date.isoweekday() % 7],
            },
        )
