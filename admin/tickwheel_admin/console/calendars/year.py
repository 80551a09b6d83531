"""A year as on a wall calendar: which days a calendar leaves to the triggers that name it."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from babel.dates import format_date

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec
from tickwheel_admin.domain.calendars.compiled import compiled
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.wall_clock import MAX_YEAR, MIN_YEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthPicture:
    """One month: weeks of seven days from Monday, None where the month has none."""

    name: str
    weeks: tuple[tuple[tuple[int, bool] | None, ...], ...]  # (day, whether it may fire)
    text: str  # the days that are taken away, for those who do not see the picture


@dataclass(frozen=True, slots=True, kw_only=True)
class YearPicture:
    """Twelve months."""

    year: int
    months: tuple[MonthPicture, ...]
    removed: int  # days on which nothing fires
    weekdays: tuple[str, ...]  # names of one letter or so, from Monday


def year_picture(
    spec: CalendarSpec, bases: Sequence[tuple[str, CalendarSpec]], year: int
) -> YearPicture | None:
    """The picture; None when the calendar cannot be computed.

    Args:
        bases: those it is based on, the nearest first.
        year: kept within the years that schedules know.
    """
    base: Calendar | None = None
    for name, below in reversed(bases):
        base = Calendar(name=name, version=0, spec=below, base=base)
    year = min(max(year, MIN_YEAR), MAX_YEAR)
    try:
        whole = compiled(Calendar(name="", version=0, spec=spec, base=base))
        masks = [whole.days(year, month) for month in range(1, 13)]
    except ScheduleError:
        return None
    months = tuple(_month(year, month, mask) for month, mask in enumerate(masks, 1))
    language = REQUEST_LOCALE.get().language
    return YearPicture(
        year=year,
        months=months,
        removed=sum(
            not may for month in months for week in month.weeks for _day, may in filter(None, week)
        ),
        weekdays=tuple(
            str(format_date(date(2024, 1, n), "EEEEE", locale=language)) for n in range(1, 8)
        ),
    )


def _month(year: int, month: int, mask: int) -> MonthPicture:
    first_weekday, length = monthrange(year, month)
    days: list[tuple[int, bool] | None] = [None] * first_weekday
    days += [(day, bool(mask >> day & 1)) for day in range(1, length + 1)]
    days += [None] * (-len(days) % 7)
    taken = [str(day) for day in range(1, length + 1) if not mask >> day & 1]
    name = str(format_date(date(year, month, 1), "LLLL", locale=REQUEST_LOCALE.get().language))
    if not taken:
        text = _("%(month)s: nothing removed") % {"month": name}
    else:
        text = _("%(month)s: removed are %(days)s") % {"month": name, "days": _(", ").join(taken)}
    return MonthPicture(
        name=name,
        weeks=tuple(tuple(days[start : start + 7]) for start in range(0, len(days), 7)),
        text=text,
    )
