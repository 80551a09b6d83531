"""At which times of its days an expression fires, in words.

Wall times are listed while they are few; else it is said how often, from when to when; and where no
rhythm is exactly right, minute by minute and hour by hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tickwheel_admin.domain.schedule.cron import CronExpression, FieldKind
from tickwheel_admin.domain.schedule.describe.words import (
    Translate,
    cyclic,
    every,
    listed,
    numbers,
    step_of,
)
from tickwheel_admin.domain.schedule.wall_clock import short_time, time_of_seconds

_MOST_TIMES = 6  # more times of day than these are no easier to read than a rhythm
_SPAN = 4  # so many full hours in a row are said as from when to when


class Times(NamedTuple):
    """A phrase for times of day."""

    text: str
    is_list: bool  # wall times only: “09:00 and 17:00”


def times_in_words(expression: CronExpression, _: Translate, *, every_day: bool) -> Times:
    """The times of an expression.

    Args:
        every_day: a span may go over midnight, because it does so in each night.
    """
    fields = expression.fields
    seconds = fields[FieldKind.SECOND].values
    minutes = fields[FieldKind.MINUTE].values
    hours = fields[FieldKind.HOUR].values
    count = len(seconds) * len(minutes) * len(hours)
    is_rhythm = count == len(hours) >= _SPAN and _hour_step(hours, every_day=every_day) == 1
    is_rhythm = is_rhythm or _is_even_in_one_unit(seconds, minutes, hours)
    if count <= _MOST_TIMES and len(hours) < 24 and not is_rhythm:
        walls = [h * 3600 + m * 60 + s for h in hours for m in minutes for s in seconds]
        show = time_of_seconds if any(wall % 60 for wall in walls) else short_time
        return Times(listed([show(wall) for wall in walls], _), is_list=True)
    span = _one_span(seconds, minutes, hours, _, every_day=every_day)
    text = span or _field_by_field(seconds, minutes, hours, _, every_day=every_day)
    return Times(text, is_list=False)


def _is_even_in_one_unit(
    seconds: Sequence[int], minutes: Sequence[int], hours: Sequence[int]
) -> bool:
    """Evenly spaced minutes of one hour, or seconds of one minute: 14:00, 14:01 … 14:05."""
    if len(hours) != 1 or 1 not in (len(minutes), len(seconds)):
        return False
    values = seconds if len(minutes) == 1 else minutes
    return len(values) >= _SPAN and step_of(values) is not None


def _one_span(
    seconds: Sequence[int],
    minutes: Sequence[int],
    hours: Sequence[int],
    _: Translate,
    *,
    every_day: bool,
) -> str | None:
    """“Every 15 minutes from 09:00 to 17:45”; None where that is not exactly right."""
    if len(hours) == 24:
        return None
    if len(seconds) == 1:
        step = _even_step(minutes, hours, size=60)
        unit_ms = 60_000
        if len(minutes) == 1:
            step, unit_ms = _hour_step(hours, every_day=every_day), 3_600_000
    elif len(minutes) == 60:
        step, unit_ms = _even_step(seconds, hours, size=60), 1_000
    elif len(hours) == 1 and _is_run(minutes):
        step, unit_ms = _even_step(seconds, minutes, size=60), 1_000
    else:
        return None
    spanned = cyclic(hours, size=24) if every_day else list(hours)
    steps_by_hour = unit_ms == 3_600_000
    if step is None or not (steps_by_hour or _is_run(spanned)):
        return None
    first = spanned[0] * 3600 + minutes[0] * 60 + seconds[0]
    last = spanned[-1] % 24 * 3600 + minutes[-1] * 60 + seconds[-1]
    show = time_of_seconds if first % 60 or last % 60 else short_time
    return _("%(rhythm)s from %(first)s to %(last)s") % {
        "rhythm": every(step * unit_ms, _),
        "first": show(first),
        "last": show(last),
    }


def _even_step(values: Sequence[int], larger: Sequence[int], *, size: int) -> int | None:
    """The step of values that goes on evenly from one larger unit to the next."""
    step = step_of(values)
    if step is None:
        return None
    goes_on = values[0] == 0 and values[-1] + step == size
    return step if goes_on or len(larger) == 1 else None


def _hour_step(hours: Sequence[int], *, every_day: bool) -> int | None:
    step = step_of(hours)
    if step is not None or not every_day:
        return step
    return 1 if _is_run(cyclic(hours, size=24)) else None


def _is_run(values: Sequence[int]) -> bool:
    return values[-1] - values[0] == len(values) - 1


# --- field by field ----------------------------------------------------------------------------


def _field_by_field(
    seconds: Sequence[int],
    minutes: Sequence[int],
    hours: Sequence[int],
    _: Translate,
    *,
    every_day: bool,
) -> str:
    """How often within the minute or the hour, and then which minutes and hours."""
    second_step = _divided(seconds, 60)
    if second_step is not None and len(minutes) < 60:
        # The seconds are the rhythm, so the minutes restrict it.
        text = every(second_step * 1_000, _)
        if len(minutes) == 1:
            text = _("%(rhythm)s, in minute %(minute)s of the hour") % {
                "rhythm": text,
                "minute": minutes[0],
            }
        else:
            text = _("%(rhythm)s, in minutes %(minutes)s of the hour") % {
                "rhythm": text,
                "minutes": numbers(minutes, _),
            }
    elif second_step is not None:
        text = every(second_step * 1_000, _)
    else:
        text = _at_seconds(_minutes(minutes, _, at_zero=list(seconds) == [0]), seconds, _)
    return _in_hours(text, hours, _, every_day=every_day)


def _minutes(minutes: Sequence[int], _: Translate, *, at_zero: bool) -> str:
    step = _divided(minutes, 60)
    if step is not None:
        return every(step * 60_000, _)
    if list(minutes) == [0] and at_zero:
        return _("Every hour, on the hour")
    if len(minutes) == 1:
        return _("Every hour at minute %(minute)s") % {"minute": minutes[0]}
    by = step_of(minutes)
    if by is not None and by > 1 and len(minutes) > _MOST_TIMES:
        return _("Every %(n)s minutes from minute %(first)s to %(last)s of the hour") % {
            "n": by,
            "first": minutes[0],
            "last": minutes[-1],
        }
    return _("Every hour at minutes %(minutes)s") % {"minutes": numbers(minutes, _)}


def _at_seconds(text: str, seconds: Sequence[int], _: Translate) -> str:
    if list(seconds) == [0]:
        return text
    if len(seconds) == 1:
        return _("%(rhythm)s, at second %(second)s") % {"rhythm": text, "second": seconds[0]}
    return _("%(rhythm)s, at seconds %(seconds)s") % {
        "rhythm": text,
        "seconds": numbers(seconds, _),
    }


def _in_hours(text: str, hours: Sequence[int], _: Translate, *, every_day: bool) -> str:
    if len(hours) == 24:
        return text
    spanned = cyclic(hours, size=24) if every_day else list(hours)
    if _is_run(spanned):
        return _("%(rhythm)s, from %(first)s to %(last)s") % {
            "rhythm": text,
            "first": f"{spanned[0]:02}:00",
            "last": f"{spanned[-1] % 24:02}:59",
        }
    return _("%(rhythm)s, in hours %(hours)s") % {"rhythm": text, "hours": numbers(hours, _)}


def _divided(values: Sequence[int], size: int) -> int | None:
    """n, when the values are 0, n, 2n … and n divides the size, so that the rhythm never breaks."""
    step = step_of(values)
    return step if step is not None and values[0] == 0 and values[-1] + step == size else None
