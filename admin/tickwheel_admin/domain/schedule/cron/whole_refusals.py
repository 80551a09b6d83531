"""Why a cron expression is refused as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron.days import days_of_month, days_of_week
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.cron.fields import MONTH_WORDS
from tickwheel_admin.domain.schedule.cron.months import SHAPE_OF_MONTH, SHAPES
from tickwheel_admin.domain.schedule.cron.tokens import Field

_MOST_SHOWN = 80  # characters of an expression


def nothing() -> ScheduleError:
    return ScheduleError("expression", "A cron trigger needs an expression, such as 0 9 * * 1-5.")


def too_long(limit: int) -> ScheduleError:
    return ScheduleError(
        "expression", "A cron expression has at most %(limit)s characters.", limit=limit
    )


def unknown_macro(macro: str, dialect: Dialect, macros: Sequence[str]) -> ScheduleError:
    if dialect is Dialect.QUARTZ:
        return ScheduleError(
            "expression",
            "“%(expression)s”: the quartz dialect has no macros; choose the unix dialect, or write"
            " fields such as 0 0 0 * * ?.",
            expression=_shown(macro),
            position=1,
        )
    close = get_close_matches(macro[:20], macros, n=1)
    if close:
        return ScheduleError(
            "expression",
            "“%(expression)s” is not a macro; did you mean %(suggestion)s?",
            expression=_shown(macro),
            suggestion=close[0],
            position=1,
        )
    return ScheduleError(
        "expression",
        "“%(expression)s” is not a macro; use one of %(macros)s.",
        expression=_shown(macro),
        macros=", ".join(macros),
        position=1,
    )


def wrong_count(texts: Sequence[str], dialect: Dialect) -> ScheduleError:
    count = len(texts)
    match dialect:
        case Dialect.UNIX if count in (6, 7):
            return ScheduleError(
                "expression",
                "A unix cron expression has 5 fields (minute, hour, day of month, month, day of"
                " week); this one has %(count)s; did you mean the quartz dialect?",
                count=count,
            )
        case Dialect.UNIX:
            return ScheduleError(
                "expression",
                "A unix cron expression has 5 fields (minute, hour, day of month, month, day of"
                " week); this one has %(count)s.",
                count=count,
            )
        case Dialect.QUARTZ if count == 5:
            return ScheduleError(
                "expression",
                "A quartz cron expression has 6 or 7 fields (second, minute, hour, day of month,"
                " month, day of week, year); this one has 5; did you mean the unix dialect, or"
                " 0 %(expression)s?",
                expression=_shown(" ".join(texts)),
            )
        case Dialect.QUARTZ:
            return ScheduleError(
                "expression",
                "A quartz cron expression has 6 or 7 fields (second, minute, hour, day of month,"
                " month, day of week, year); this one has %(count)s.",
                count=count,
            )
        case Dialect.SPRING if count == 5:
            return ScheduleError(
                "expression",
                "A spring cron expression has 6 fields (second, minute, hour, day of month, month,"
                " day of week); this one has 5; did you mean the unix dialect, or"
                " 0 %(expression)s?",
                expression=_shown(" ".join(texts)),
            )
        case Dialect.SPRING if count == 7:
            return ScheduleError(
                "expression",
                "A spring cron expression has 6 fields (second, minute, hour, day of month, month,"
                " day of week); this one has 7; did you mean the quartz dialect, whose last field"
                " is the year?",
            )
        case Dialect.SPRING:
            return ScheduleError(
                "expression",
                "A spring cron expression has 6 fields (second, minute, hour, day of month, month,"
                " day of week); this one has %(count)s.",
                count=count,
            )


def both_days(position: int, in_month: Field, in_week: Field) -> ScheduleError:
    return ScheduleError(
        "expression",
        "“%(token)s” at character %(position)s: day-of-month is %(in_month)s already, and the"
        " quartz dialect takes only one of the two days; did you mean ? for day-of-week?",
        token=_shown(in_week.text),
        position=position,
        in_month=_shown(in_month.text),
    )


def no_day(position: int) -> ScheduleError:
    return ScheduleError(
        "expression",
        "“?” at character %(position)s: day-of-month is ? already, and the quartz dialect takes"
        " only one; did you mean * for day-of-week?",
        position=position,
    )


def never(text: str, fields: Sequence[Field]) -> ScheduleError:
    """Why no month from 1970 to 2199 has a day that matches all seven fields."""
    _, _, _, in_month, month, in_week, year = fields
    shown = _shown(text)
    if not any(days_of_month(in_month, SHAPES[shape]) for shape in _shapes(month)):
        return _no_such_day(shown, in_month, month)
    shapes = {
        SHAPE_OF_MONTH[12 * each_year + each_month - 1]
        for each_year in year.values
        for each_month in month.values
    }
    if not any(days_of_month(in_month, SHAPES[shape]) for shape in shapes):
        return ScheduleError(
            "expression",
            "“%(expression)s” never fires: its months have no day %(day)s in the years %(years)s.",
            expression=shown,
            day=_shown(in_month.text),
            years=_shown(year.text),
        )
    if not any(days_of_week(in_week, SHAPES[shape]) for shape in shapes):
        return ScheduleError(
            "expression",
            "“%(expression)s” never fires: its months have no weekday %(weekday)s in the years"
            " %(years)s.",
            expression=shown,
            weekday=_shown(in_week.text),
            years=_shown(year.text),
        )
    return ScheduleError(
        "expression",
        "“%(expression)s” never fires: no day is %(day)s by day-of-month and also %(weekday)s by"
        " day-of-week.",
        expression=shown,
        day=_shown(in_month.text),
        weekday=_shown(in_week.text),
    )


def _no_such_day(shown: str, in_month: Field, month: Field) -> ScheduleError:
    if len(month.values) == 1:
        return ScheduleError(
            "expression",
            "“%(expression)s” never fires: %(month)s has no day %(day)s.",
            expression=shown,
            month=MONTH_WORDS[month.values[0] - 1],
            day=_shown(in_month.text),
        )
    return ScheduleError(
        "expression",
        "“%(expression)s” never fires: none of its months has a day %(day)s.",
        expression=shown,
        day=_shown(in_month.text),
    )


def _shapes(month: Field) -> set[int]:
    """Every shape that one of the months has in some year."""
    return {
        SHAPE_OF_MONTH[number]
        for number in range(len(SHAPE_OF_MONTH))
        if month.mask >> number % 12 + 1 & 1
    }


def _shown(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"
