"""On which days an expression fires, in words."""

from __future__ import annotations

from typing import NamedTuple

from tickwheel_admin.domain.schedule.cron import CronExpression, Field, FieldKind
from tickwheel_admin.domain.schedule.cron.tokens import (
    LastDay,
    LastWeekday,
    LastWorkday,
    NearestWorkday,
    NthWeekday,
    Special,
)
from tickwheel_admin.domain.schedule.describe.months import (
    Months,
    Years,
    months_in_words,
    without_the_day,
)
from tickwheel_admin.domain.schedule.describe.words import (
    Translate,
    cyclic,
    day_of_month,
    listed,
    named,
    step_of,
    weekday_name,
    weekdays_name,
)

_ALL_DATES = (1 << 32) - 2
_ALL_WEEKDAYS = (1 << 7) - 1
_MOST_LISTED = 6  # dates with a step; more of them are said by their step


class Days(NamedTuple):
    """A phrase for days."""

    text: str
    is_apart: bool = False  # it does not begin with “on” or “every”, so a comma goes before it
    names_years: bool = False  # no year has to be named beside it


def with_days(rhythm: str, days: Days | None, _: Translate) -> str:
    """“Every 5 minutes, on Mondays”; None: every day."""
    if days is None:
        return rhythm
    return _("%(rhythm)s, %(days)s") % {"rhythm": rhythm, "days": days.text}


def days_in_words(
    expression: CronExpression, years: Years | None, _: Translate, *, beside_rhythm: bool = False
) -> Days | None:
    """The days of an expression; None: every day.

    Args:
        years: those it is bound to.
        beside_rhythm: it follows “Every 5 minutes”, so weekdays are “on Mondays”.
    """
    months = months_in_words(expression.fields[FieldKind.MONTH], years, _)
    days = _days(expression, months, _, beside_rhythm=beside_rhythm)
    if days is None or months is None:
        return days
    return days._replace(names_years=months.names_years)


def _days(
    expression: CronExpression, months: Months | None, _: Translate, *, beside_rhythm: bool
) -> Days | None:
    month_field = expression.fields[FieldKind.MONTH]
    in_month = expression.fields[FieldKind.DAY_OF_MONTH]
    in_week = expression.fields[FieldKind.DAY_OF_WEEK]
    every_date = in_month.mask & _ALL_DATES == _ALL_DATES
    every_weekday = in_week.mask == _ALL_WEEKDAYS
    if expression.either_day and (every_date or every_weekday):
        every_date = every_weekday = True
    if every_date and every_weekday:
        if months is None:
            return None
        if months.is_run:
            return Days(_("every day, %(months)s") % {"months": months.text})
        return Days(_("every day in %(months)s") % {"months": months.text})
    if every_weekday:
        return Days(_dates(in_month, month_field, months, _))
    if every_date:
        return _weekdays(in_week, months, _, beside_rhythm=beside_rhythm)
    dates = _dates(in_month, month_field, months, _)
    if expression.either_day:
        weekdays = _weekdays(in_week, months, _, beside_rhythm=beside_rhythm).text
        return Days(
            _("%(days)s, and also %(other_days)s") % {"days": dates, "other_days": weekdays}
        )
    return Days(
        _("%(dates)s when that falls on %(weekdays)s")
        % {"dates": dates, "weekdays": listed(_weekday_items(in_week, _), _)}
    )


def weekdays_in_words(
    weekdays: tuple[int, ...], _: Translate, *, beside_rhythm: bool = False
) -> Days:
    """Some weekdays, 1 for Monday to 7."""
    days = cyclic(sorted(weekdays), size=7)
    items = named(days, lambda weekday: weekday_name(weekday, _), _)
    if len(items) < len(weekdays):  # “Monday to Friday”
        return Days(listed(items, _), is_apart=True)
    if beside_rhythm:
        text = listed([weekdays_name(weekday, _) for weekday in days], _)
        return Days(_("on %(weekdays)s") % {"weekdays": text})
    return Days(_("every %(weekdays)s") % {"weekdays": listed(items, _)})


def _dates(field: Field, month_field: Field, months: Months | None, _: Translate) -> str:
    dates = listed(_date_items(field, _), _)
    if months is None:
        text = _("on %(dates)s of every month") % {"dates": dates}
    else:
        text = _of_months(dates, months, _)
    only = _only_date(field)
    note = None if only is None else without_the_day(month_field, only, _)
    return text if note is None else text + note


def _only_date(field: Field) -> int | None:
    """The day of the month that all dates of a field are, or are near to."""
    match field.values, field.specials:
        case [day], []:
            return day
        case [], [NearestWorkday(day)]:
            return day
    return None


def _of_months(dates: str, months: Months, _: Translate) -> str:
    if months.is_one:
        return _("on %(dates)s of %(month)s") % {"dates": dates, "month": months.text}
    if months.is_run:
        return _("on %(dates)s of every month, %(months)s") % {
            "dates": dates,
            "months": months.text,
        }
    return _("on %(dates)s of %(months)s") % {"dates": dates, "months": months.text}


def _date_items(field: Field, _: Translate) -> list[str]:
    values = field.values
    step = step_of(values)
    if len(values) > _MOST_LISTED and step is not None and step > 1:
        by_step = {
            2: _("every 2nd day from %(first)s to %(last)s"),
            3: _("every 3rd day from %(first)s to %(last)s"),
            4: _("every 4th day from %(first)s to %(last)s"),
            5: _("every 5th day from %(first)s to %(last)s"),
        }
        first, last = day_of_month(values[0], _), day_of_month(values[-1], _)
        items = [by_step[step] % {"first": first, "last": last}]
    else:
        items = named(values, lambda day: day_of_month(day, _), _)
    return items + [_special(each, _) for each in field.specials]


def _weekdays(field: Field, months: Months | None, _: Translate, *, beside_rhythm: bool) -> Days:
    """Plain weekdays of the week, and those that are counted in the month."""
    plain = None
    if field.mask:
        days = tuple(day or 7 for day in field.values)
        plain = weekdays_in_words(days, _, beside_rhythm=beside_rhythm)
        if months is not None:
            template = (
                _("%(days)s, %(months)s")
                if months.is_run or plain.is_apart
                else _("%(days)s in %(months)s")
            )
            plain = plain._replace(text=template % {"days": plain.text, "months": months.text})
    if not field.specials:
        return plain or Days("")
    counted = listed([_special(each, _) for each in field.specials], _)
    if months is None:
        text = _("on %(dates)s of every month") % {"dates": counted}
    else:
        text = _of_months(counted, months, _)
    if plain is None:
        return Days(text)
    both = _("%(days)s, and also %(other_days)s") % {"days": plain.text, "other_days": text}
    return plain._replace(text=both)


def _weekday_items(field: Field, _: Translate) -> list[str]:
    """Without “on”."""
    days = sorted(day or 7 for day in field.values)
    plain = named(cyclic(days, size=7), lambda day: weekday_name(day, _), _) if days else []
    counted = [
        _("%(weekday)s of the month") % {"weekday": _special(each, _)} for each in field.specials
    ]
    return plain + counted


def _special(special: Special, _: Translate) -> str:
    match special:
        case LastDay(0):
            return _("the last day")
        case LastDay(1):
            return _("the last day but one")
        case LastDay(before):
            return _("the day that is %(n)s days before the last day") % {"n": before}
        case LastWorkday(0):
            return _("the last weekday")
        case LastWorkday(1):
            return _("the weekday nearest the last day but one")
        case LastWorkday(before):
            return _("the weekday nearest the day that is %(n)s days before the last day") % {
                "n": before
            }
        case NearestWorkday(day):
            return _("the weekday nearest %(day)s") % {"day": day_of_month(day, _)}
        case LastWeekday(weekday):
            return _("the last %(weekday)s") % {"weekday": weekday_name(weekday, _)}
        case NthWeekday(weekday, nth):
            ordinals = (
                _("the first %(weekday)s"),
                _("the second %(weekday)s"),
                _("the third %(weekday)s"),
                _("the fourth %(weekday)s"),
                _("the fifth %(weekday)s"),
            )
            return ordinals[nth - 1] % {"weekday": weekday_name(weekday, _)}
