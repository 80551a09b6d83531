"""The months and the years of an expression in words.

Languages differ in where a year goes, so a phrase for months holds its years where those are one
year or go by a step: “January 2027”, 2027年1月. All other years stand apart, beside the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tickwheel_admin.domain.schedule.cron import CronExpression, Field, FieldKind
from tickwheel_admin.domain.schedule.describe.words import (
    Translate,
    cyclic,
    listed,
    month_name,
    named,
    numbers,
    step_of,
)
from tickwheel_admin.domain.schedule.wall_clock import MAX_YEAR, MIN_YEAR

_ALL_MONTHS = (1 << 13) - 2
_MOST_LISTED = 6  # years with a step; more of them are said by their step


class Years(NamedTuple):
    """A phrase for years."""

    text: str
    one: int | None = None  # the only year
    is_step: bool = False  # “every 2 years …”


class Months(NamedTuple):
    """The months of an expression that leaves some out."""

    text: str  # with its years, where `names_years`
    is_run: bool  # “November to February”
    is_one: bool
    names_years: bool


def year_bound(expression: CronExpression, _: Translate) -> Years | None:
    """The years of an expression; None: all."""
    if expression.covers_all_years:
        return None
    years = [MIN_YEAR + index for index in expression.fields[FieldKind.YEAR].values]
    first, last, step = years[0], years[-1], step_of(years)
    if len(years) == 1:
        return Years(_("in %(years)s") % {"years": first}, one=first)
    if step is not None and last + step > MAX_YEAR and (step == 1 or len(years) > _MOST_LISTED):
        if step == 1:
            return Years(_("from %(year)s on") % {"year": first})
        text = _("every %(n)s years from %(first)s on") % {"n": step, "first": first}
        return Years(text, is_step=True)
    if step == 1 and first == MIN_YEAR:
        return Years(_("up to %(year)s") % {"year": last})
    if step == 1:
        return Years(_("from %(first)s to %(last)s") % {"first": first, "last": last})
    if step is not None and len(years) > _MOST_LISTED:
        text = _("every %(n)s years from %(first)s to %(last)s") % {
            "n": step,
            "first": first,
            "last": last,
        }
        return Years(text, is_step=True)
    return Years(_("in %(years)s") % {"years": numbers(years, _)})


def months_in_words(field: Field, years: Years | None, _: Translate) -> Months | None:
    """None: every month."""
    if field.mask & _ALL_MONTHS == _ALL_MONTHS:
        return None
    # In one year, or in every other, January does not follow the December that is meant.
    in_each_year = years is None or not (years.one or years.is_step)
    months = cyclic(field.values, size=12) if in_each_year else list(field.values)
    is_run = len(months) > 2 and months[-1] - months[0] == len(months) - 1

    def name(month: int) -> str:
        if not is_run or month <= 12:
            return month_name(month, _)
        # The same in English; other languages say here that it is a month of the next year.
        return _("%(next_month)s") % {"next_month": month_name(month, _)}

    text = _odd_or_even(months, _) or listed(named(months, name, _), _)
    if years is not None and years.one is not None:
        text = _("%(months)s %(year)s") % {"months": text, "year": years.one}
    elif years is not None and years.is_step:
        text = _("%(months)s, %(years)s") % {"months": text, "years": years.text}
    else:
        # The same in English; other languages say here that these are the months of each year.
        text = _("%(months)s") % {"months": text}
        return Months(text, is_run=is_run, is_one=len(months) == 1, names_years=False)
    return Months(text, is_run=is_run, is_one=len(months) == 1, names_years=True)


def _odd_or_even(months: Sequence[int], _: Translate) -> str | None:
    if list(months) == [1, 3, 5, 7, 9, 11]:
        return _("every other month from January to November")
    if list(months) == [2, 4, 6, 8, 10, 12]:
        return _("every other month from February to December")
    return None


def without_the_day(field: Field, day: int, _: Translate) -> str | None:
    """Which of the months have a 29th, 30th or 31st where some have none; None: all have it.

    A note for the end of the phrase, with the space before it.
    """
    if field.mask & _ALL_MONTHS == _ALL_MONTHS:
        return {
            29: _(" that has a 29th"),
            30: _(" that has a 30th"),
            31: _(" that has a 31st"),
        }.get(day)
    months = cyclic(field.values, size=12)
    if day == 29 and [month % 12 for month in months] == [2]:
        return _(" (in leap years)")
    having = [month for month in months if day <= _LENGTHS[(month - 1) % 12]]
    if len(having) == len(months) or day < 30:
        return None
    names = listed([month_name(month, _) for month in having], _)
    if len(having) == 1:
        note = {
            30: _(" (only %(months)s has a 30th of these)"),
            31: _(" (only %(months)s has a 31st of these)"),
        }
    else:
        note = {
            30: _(" (only %(months)s have a 30th of these)"),
            31: _(" (only %(months)s have a 31st of these)"),
        }
    return note[day] % {"months": names}


_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
