"""A trigger in words, for people who do not read cron.

A sentence is put together from phrases for its times and its days, each of which says exactly what
the schedule does. Texts are message ids, given to the `_` of the reader's language; each language
orders times and days by its own templates.
"""

from __future__ import annotations

from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.cron import parse_cron
from tickwheel_admin.domain.schedule.describe.days import (
    Days,
    days_in_words,
    weekdays_in_words,
)
from tickwheel_admin.domain.schedule.describe.months import year_bound
from tickwheel_admin.domain.schedule.describe.times import times_in_words
from tickwheel_admin.domain.schedule.describe.words import Translate as Translate
from tickwheel_admin.domain.schedule.describe.words import every, length
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, seconds_of_time, short_time
from tickwheel_admin.domain.triggers.schedule import dialect_of
from tickwheel_admin.domain.triggers.trigger import IntervalUnit, TriggerKind, TriggerSpec


def describe(spec: TriggerSpec, _: Translate) -> str:
    """When the trigger fires; the caller adds the time zone of wall times where it matters.

    An expression that is refused stands for itself.
    """
    match spec.kind:
        case TriggerKind.CRON:
            return _cron(spec, _)
        case TriggerKind.FIXED_RATE:
            return every(spec.every_ms or 0, _)
        case TriggerKind.FIXED_DELAY:
            return _("%(length)s after each run has ended") % {
                "length": length(spec.every_ms or 0, _)
            }
        case TriggerKind.ONCE:
            moment = instant_to_iso(spec.at or 0).replace("T", " ").rstrip("Z")
            return _("Once at %(moment)s UTC") % {"moment": moment}
        case TriggerKind.CALENDAR_INTERVAL:
            return _calendar_interval(spec, _)
        case TriggerKind.DAILY_WINDOW:
            return _daily_window(spec, _)


def _cron(spec: TriggerSpec, _: Translate) -> str:
    try:
        expression = parse_cron(spec.expression or "", dialect_of(spec))
    except ScheduleError:
        return " ".join((spec.expression or "").split())
    years = year_bound(expression, _)
    days = days_in_words(expression, years, _)
    times = times_in_words(expression, _, every_day=days is None and expression.covers_all_years)
    if not times.is_list:
        days = days_in_words(expression, years, _, beside_rhythm=True)
    if times.is_list and days is None:
        text = _("Every day at %(times)s") % {"times": times.text}
    elif times.is_list and days is not None and days.is_apart:
        text = _("At %(times)s, %(days)s") % {"times": times.text, "days": days.text}
    elif times.is_list and days is not None:
        text = _("At %(times)s %(days)s") % {"times": times.text, "days": days.text}
    else:
        text = _with_days(times.text, days, _)
    if years is None or (days is not None and days.names_years):
        return text
    return _("%(sentence)s, %(years)s") % {"sentence": text, "years": years.text}


def _with_days(rhythm: str, days: Days | None, _: Translate) -> str:
    if days is None:
        return rhythm
    return _("%(rhythm)s, %(days)s") % {"rhythm": rhythm, "days": days.text}


def _calendar_interval(spec: TriggerSpec, _: Translate) -> str:
    one, many = {
        IntervalUnit.DAY: (
            _("Every day at %(time)s, from %(date)s on"),
            _("Every %(n)s days at %(time)s, counted from %(date)s"),
        ),
        IntervalUnit.WEEK: (
            _("Every week at %(time)s, counted from %(date)s"),
            _("Every %(n)s weeks at %(time)s, counted from %(date)s"),
        ),
        IntervalUnit.MONTH: (
            _("Every month at %(time)s, counted from %(date)s"),
            _("Every %(n)s months at %(time)s, counted from %(date)s"),
        ),
        IntervalUnit.YEAR: (
            _("Every year at %(time)s, counted from %(date)s"),
            _("Every %(n)s years at %(time)s, counted from %(date)s"),
        ),
    }[spec.unit or IntervalUnit.DAY]
    time = short_time(seconds_of_time(spec.at_time or "00:00"))
    params = {"n": spec.every, "time": time, "date": spec.start_date}
    return (one if spec.every == 1 else many) % params


def _daily_window(spec: TriggerSpec, _: Translate) -> str:
    text = every(spec.every_ms or 0, _)
    start = seconds_of_time(spec.from_time or "00:00")
    end = seconds_of_time(spec.to_time or "23:59:59")
    covers_day = start == 0 and end == DAY_SECONDS - 1
    if not covers_day or DAY_SECONDS * 1000 % (spec.every_ms or 1):
        text = _("%(rhythm)s from %(first)s to %(last)s") % {
            "rhythm": text,
            "first": short_time(start),
            "last": short_time(end),
        }
    days = None
    if 0 < len(spec.weekdays) < 7:
        days = weekdays_in_words(spec.weekdays, _, beside_rhythm=True)
    return _with_days(text, days, _)
