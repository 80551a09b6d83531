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
from tickwheel_admin.domain.schedule.describe.words import (
    Translate,
    cyclic,
    day_of_month,
    listed,
    month_name,
    named,
    numbers,
    step_of,
    weekday_name,
)

_ALL_DATES = (1 << 32) - 2
_ALL_MONTHS = (1 << 13) - 2
_ALL_WEEKDAYS = (1 << 7) - 1
_MOST_LISTED = 6  # dates or years with a step; more of them are said by their step


class Days(NamedTuple):
    """A phrase for days."""

    text: str
    is_apart: bool = False  # it does not begin with “on”, so a comma goes before it


def days_in_words(expression: CronExpression, _: Translate) -> Days | None:
    """The days of an expression; None: every day."""
    in_month = expression.fields[FieldKind.DAY_OF_MONTH]
    in_week = expression.fields[FieldKind.DAY_OF_WEEK]
    every_date = in_month.mask & _ALL_DATES == _ALL_DATES
    every_weekday = in_week.mask == _ALL_WEEKDAYS
    months = _months(expression.fields[FieldKind.MONTH], _)
    if expression.either_day and (every_date or every_weekday):
        every_date = every_weekday = True
    if every_date and every_weekday:
        if months is None:
            return None
        return Days(_("every day in %(months)s") % {"months": months})
    if every_weekday:
        return Days(_dates(in_month, months, _))
    if every_date:
        return _weekdays(in_week, months, _)
    dates = _dates(in_month, months, _)
    if expression.either_day:
        weekdays = _weekdays(in_week, months, _).text
        return Days(
            _("%(days)s, and also %(other_days)s") % {"days": dates, "other_days": weekdays}
        )
    return Days(
        _("%(dates)s when that falls on %(weekdays)s")
        % {"dates": dates, "weekdays": listed(_weekday_items(in_week, _), _)}
    )


def weekdays_in_words(weekdays: tuple[int, ...], _: Translate) -> Days:
    """Some weekdays, 1 for Monday to 7."""
    items = named(cyclic(sorted(weekdays), size=7), lambda weekday: weekday_name(weekday, _), _)
    text = listed(items, _)
    if len(items) < len(weekdays):  # “Monday to Friday”
        return Days(text, is_apart=True)
    return Days(_("on %(weekdays)s") % {"weekdays": text})


def _months(field: Field, _: Translate) -> str | None:
    """None: every month."""
    if field.mask & _ALL_MONTHS == _ALL_MONTHS:
        return None
    months = cyclic(field.values, size=12)
    return listed(named(months, lambda month: month_name(month, _), _), _)


def _dates(field: Field, months: str | None, _: Translate) -> str:
    dates = _date_items(field, _)
    if months is None:
        return _("on %(dates)s of every month") % {"dates": listed(dates, _)}
    return _("on %(dates)s of %(months)s") % {"dates": listed(dates, _), "months": months}


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


def _weekdays(field: Field, months: str | None, _: Translate) -> Days:
    """Plain weekdays of the week, and those that are counted in the month."""
    plain = None
    if field.mask:
        plain = weekdays_in_words(tuple(day or 7 for day in field.values), _)
        if months is not None:
            text = _("%(days)s in %(months)s") % {"days": plain.text, "months": months}
            plain = plain._replace(text=text)
    if not field.specials:
        return plain or Days("")
    counted = listed([_special(each, _) for each in field.specials], _)
    if months is None:
        text = _("on %(dates)s of every month") % {"dates": counted}
    else:
        text = _("on %(dates)s of %(months)s") % {"dates": counted, "months": months}
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


def years_in_words(field: Field, _: Translate) -> str:
    """The years of an expression that does not fire in all of them."""
    years = [1970 + index for index in field.values]
    step = step_of(years)
    if len(years) > _MOST_LISTED and step is not None and step > 1:
        return _("every %(n)s years from %(first)s to %(last)s") % {
            "n": step,
            "first": years[0],
            "last": years[-1],
        }
    if step == 1:
        return _("from %(first)s to %(last)s") % {"first": years[0], "last": years[-1]}
    return _("in %(years)s") % {"years": numbers(years, _)}
