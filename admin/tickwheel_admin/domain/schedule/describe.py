"""A trigger in words, for people who do not read cron.

Only shapes whose words are exactly right are described; every other expression stands for itself.
Texts are message ids with %(name)s placeholders, given to the `_` of the reader's language.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tickwheel_admin.domain.fields import as_seconds, instant_to_iso
from tickwheel_admin.domain.schedule.cron import MACROS
from tickwheel_admin.domain.trigger import TriggerKind, TriggerSpec

Translate = Callable[[str], str]

_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTH_NAMES = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_MAX_TIMES = 6  # more times of day than this are no longer easier to read than the expression


def describe(spec: TriggerSpec, _: Translate) -> str:
    """When the trigger fires; the caller adds the time zone of a cron trigger where it matters."""
    match spec.kind:
        case TriggerKind.CRON:
            expression = " ".join((spec.expression or "").split())
            return _cron(expression, _) or expression
        case TriggerKind.FIXED_RATE:
            return _every(spec.every_ms or 0, _)
        case TriggerKind.FIXED_DELAY:
            return _("%(seconds)s seconds after each run ends") % {
                "seconds": as_seconds(spec.every_ms or 0)
            }
        case TriggerKind.ONCE:
            moment = instant_to_iso(spec.at or 0).replace("T", " ").rstrip("Z")
            return _("Once at %(moment)s UTC") % {"moment": moment}
        case TriggerKind.CALENDAR_INTERVAL | TriggerKind.DAILY_WINDOW:
            return spec.kind.value


def _every(every_ms: int, _: Translate) -> str:
    for unit_ms, one, many in (
        (86_400_000, _("Every day"), _("Every %(n)s days")),
        (3_600_000, _("Every hour"), _("Every %(n)s hours")),
        (60_000, _("Every minute"), _("Every %(n)s minutes")),
        (1_000, _("Every second"), _("Every %(n)s seconds")),
    ):
        if every_ms % unit_ms == 0:
            n = every_ms // unit_ms
            return one if n == 1 else many % {"n": n}
    return _("Every %(n)s seconds") % {"n": as_seconds(every_ms)}


def _cron(expression: str, _: Translate) -> str | None:
    fields = MACROS.get(expression.lower(), expression).lower().split(" ")
    if len(fields) != 5:
        return None
    try:
        minutes = _values(fields[0], 0, 59)
        hours = _values(fields[1], 0, 23)
        dates = _values(fields[2], 1, 31)
        months = _values(fields[3], 1, 12, names=_MONTH_NAMES)
        weekdays = sorted({day % 7 for day in _values(fields[4], 0, 7, names=_DAY_NAMES)})
    except ValueError:
        return None
    if fields[2] != "*" and fields[4] != "*":
        return None  # either of the two days counts: not to be said in few words
    days = _days(dates, weekdays, months, _)
    times = _times_of_day(minutes, hours)
    if times is not None:
        if days is None:
            return _("Every day at %(times)s") % {"times": times}
        return _("At %(times)s %(days)s") % {"times": times, "days": days}
    rhythm = _rhythm(minutes, hours, _)
    if rhythm is None or days is None:
        return rhythm
    return _("%(rhythm)s, %(days)s") % {"rhythm": rhythm, "days": days}


def _values(field: str, low: int, high: int, *, names: Sequence[str] = ()) -> list[int]:
    """The numbers a field means; ValueError for what is not a list, a range or a step."""
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, (), 0) if slash else 1
        if span == "*":
            first, last = low, high
        else:
            first_text, dash, last_text = span.partition("-")
            first = _number(first_text, names, low)
            last = _number(last_text, names, low) if dash else (high if slash else first)
        if not (low <= first <= last <= high and step > 0):
            raise ValueError(field)
        found.update(range(first, last + 1, step))
    return sorted(found)


def _number(text: str, names: Sequence[str], low: int) -> int:
    if text in names:
        return names.index(text) + low
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _times_of_day(minutes: Collection[int], hours: Collection[int]) -> str | None:
    if len(hours) == 24 or len(minutes) * len(hours) > _MAX_TIMES:
        return None
    return ", ".join(f"{hour:02}:{minute:02}" for hour in hours for minute in minutes)


def _rhythm(minutes: Sequence[int], hours: Sequence[int], _: Translate) -> str | None:
    """How often within the day, and between which times."""
    every_minutes = _step(minutes, 60)
    every_hours = _step(hours, 24)
    if every_hours == 1:
        return _within_hour(minutes, every_minutes, _)
    if len(minutes) == 1 and every_hours is not None:
        return _("Every %(n)s hours from 00:%(minute)02d") % {
            "n": every_hours,
            "minute": minutes[0],
        }
    if hours[-1] - hours[0] != len(hours) - 1:
        return None  # hours with gaps
    if every_minutes is None and len(minutes) > 1:
        return None
    return _("%(rhythm)s from %(first)s to %(last)s") % {
        "rhythm": _("Every hour") if len(minutes) == 1 else _within_hour(minutes, every_minutes, _),
        "first": f"{hours[0]:02}:{minutes[0]:02}",
        "last": f"{hours[-1]:02}:{minutes[-1]:02}",
    }


def _within_hour(minutes: Sequence[int], every: int | None, _: Translate) -> str | None:
    if every is not None:
        return _every(every * 60_000, _)
    if list(minutes) == [0]:
        return _("Every hour, on the hour")
    if len(minutes) == 1:
        return _("Every hour at minute %(minute)s") % {"minute": minutes[0]}
    if len(minutes) <= _MAX_TIMES:
        return _("Every hour at minutes %(minutes)s") % {"minutes": ", ".join(map(str, minutes))}
    return None


def _step(values: Sequence[int], size: int) -> int | None:
    """n, when the values are 0, n, 2n … and n divides the size, so the rhythm never breaks."""
    if len(values) < 2 or values[0] != 0 or size % len(values):
        return None
    step = size // len(values)
    return step if list(values) == list(range(0, size, step)) else None


def _days(
    dates: Sequence[int], weekdays: Sequence[int], months: Sequence[int], _: Translate
) -> str | None:
    """On which days; None for every day."""
    month_list = ", ".join(_month(month, _) for month in months)
    if len(dates) < 31:
        date_list = ", ".join(map(str, dates))
        if len(months) == 12:
            return _("on day %(dates)s of every month") % {"dates": date_list}
        return _("on day %(dates)s of %(months)s") % {"dates": date_list, "months": month_list}
    days = _weekdays(weekdays, _)
    if len(months) == 12:
        return days
    return _("%(days)s in %(months)s") % {"days": days or _("every day"), "months": month_list}


def _weekdays(weekdays: Sequence[int], _: Translate) -> str | None:
    match list(weekdays):
        case [0, 1, 2, 3, 4, 5, 6]:
            return None
        case [1, 2, 3, 4, 5]:
            return _("on weekdays")
        case [0, 6]:
            return _("on weekends")
        case days:
            # The week is read from Monday.
            names = (_weekday(day, _) for day in sorted(days, key=lambda day: (day - 1) % 7))
            return _("on %(weekdays)s") % {"weekdays": ", ".join(names)}


def _weekday(day: int, _: Translate) -> str:
    return (
        _("Sunday"),
        _("Monday"),
        _("Tuesday"),
        _("Wednesday"),
        _("Thursday"),
        _("Friday"),
        _("Saturday"),
    )[day]


def _month(month: int, _: Translate) -> str:
    return (
        _("January"),
        _("February"),
        _("March"),
        _("April"),
        _("May"),
        _("June"),
        _("July"),
        _("August"),
        _("September"),
        _("October"),
        _("November"),
        _("December"),
    )[month - 1]
