"""Words that descriptions are put together from: lists, runs of numbers, ordinals, names, lengths.

All texts are message ids with %(name)s placeholders, given to the `_` of the reader's language.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tickwheel_admin.domain.fields import as_seconds, instant_to_iso

Translate = Callable[[str], str]

_RUN = 3  # so many values in a row are said as “first to last”


def listed(items: Sequence[str], _: Translate) -> str:
    """“a”, “a and b”, “a, b and c”."""
    text = items[0]
    for item in items[1:-1]:
        text = _("%(first)s, %(last)s") % {"first": text, "last": item}
    if len(items) > 1:
        text = _("%(first)s and %(last)s") % {"first": text, "last": items[-1]}
    return text


def numbers(values: Sequence[int], _: Translate) -> str:
    """“0, 5 and 10-20”."""
    spans = (str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in _runs(values))
    return listed(list(spans), _)


def named(values: Sequence[int], name: Callable[[int], str], _: Translate) -> list[str]:
    """The items of a list of names; what follows each other is “first to last”."""
    return [_span(run, name, _) for run in _runs(values)]


def cyclic(values: Sequence[int], *, size: int) -> list[int]:
    """Ascending values of a circle of `size`, so that a run over its end is in one piece.

    Values of the second round are `size` larger.
    """
    found = list(values)
    last = found[-1]
    if len(found) == size or last - found[0] != size - 1:
        return found
    while found[0] == last + 1 - size:
        last = found.pop(0) + size
        found.append(last)
    return found


def step_of(values: Sequence[int]) -> int | None:
    """The distance when all neighbours have the same; None with less than two values."""
    if len(values) < 2:
        return None
    step = values[1] - values[0]
    return step if list(values) == list(range(values[0], values[-1] + 1, step)) else None


def _runs(values: Sequence[int]) -> list[list[int]]:
    """Neighbours in one list where there are at least `_RUN` of them, else one by one."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return [
        part for run in runs for part in ([run] if len(run) >= _RUN else [[each] for each in run])
    ]


def _span(run: Sequence[int], name: Callable[[int], str], _: Translate) -> str:
    if len(run) == 1:
        return name(run[0])
    return _("%(first)s to %(last)s") % {"first": name(run[0]), "last": name(run[-1])}


def day_of_month(day: int, _: Translate) -> str:
    """“the 1st”."""
    if day in (11, 12, 13):
        return _("the %(n)sth") % {"n": day}
    match day % 10:
        case 1:
            return _("the %(n)sst") % {"n": day}
        case 2:
            return _("the %(n)snd") % {"n": day}
        case 3:
            return _("the %(n)srd") % {"n": day}
    return _("the %(n)sth") % {"n": day}


def month_name(month: int, _: Translate) -> str:
    """1 is January, and so is 13."""
    names = (
        _("January"), _("February"), _("March"), _("April"), _("May"), _("June"), _("July"),
        _("August"), _("September"), _("October"), _("November"), _("December"),
    )  # fmt: skip
    return names[(month - 1) % 12]


def weekday_name(weekday: int, _: Translate) -> str:
    """1 is Monday; 0 and 7 are Sunday."""
    names = (
        _("Sunday"), _("Monday"), _("Tuesday"), _("Wednesday"), _("Thursday"), _("Friday"),
        _("Saturday"),
    )  # fmt: skip
    return names[weekday % 7]


def weekdays_name(weekday: int, _: Translate) -> str:
    """All of them, as in “on Mondays”; 1 is Monday, 0 and 7 are Sunday."""
    names = (
        _("Sundays"), _("Mondays"), _("Tuesdays"), _("Wednesdays"), _("Thursdays"), _("Fridays"),
        _("Saturdays"),
    )  # fmt: skip
    return names[weekday % 7]


def every(length_ms: int, _: Translate) -> str:
    """“Every 5 minutes”, in the largest unit that fits."""
    for unit_ms, one, many in (
        (86_400_000, _("Every day"), _("Every %(n)s days")),
        (3_600_000, _("Every hour"), _("Every %(n)s hours")),
        (60_000, _("Every minute"), _("Every %(n)s minutes")),
        (1_000, _("Every second"), _("Every %(n)s seconds")),
    ):
        if length_ms % unit_ms == 0:
            n = length_ms // unit_ms
            return one if n == 1 else many % {"n": n}
    return _("Every %(n)s seconds") % {"n": as_seconds(length_ms)}


def length(length_ms: int, _: Translate) -> str:
    """“5 minutes”, in the largest unit that fits."""
    for unit_ms, one, many in (
        (86_400_000, _("1 day"), _("%(n)s days")),
        (3_600_000, _("1 hour"), _("%(n)s hours")),
        (60_000, _("1 minute"), _("%(n)s minutes")),
        (1_000, _("1 second"), _("%(n)s seconds")),
    ):
        if length_ms and length_ms % unit_ms == 0:
            n = length_ms // unit_ms
            return one if n == 1 else many % {"n": n}
    return _("%(n)s seconds") % {"n": as_seconds(length_ms)}


def moment(at: int) -> str:
    """“2026-10-01 09:30:00”, in UTC."""
    return instant_to_iso(at).replace("T", " ").rstrip("Z")
