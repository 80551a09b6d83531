"""Words for when a job fires: kinds, dialects, rules, and what the cron builder says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from babel.dates import format_date

from tickwheel_admin.console.frame.choices import Choices, name_of
from tickwheel_admin.console.frame.formatting import instant, length_in_words, number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.console.triggers.form import shown_for as shown_for
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.wall_clock import WEEKDAYS
from tickwheel_admin.domain.triggers.kinds import KINDS
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.own_fields import OwnField
from tickwheel_admin.domain.triggers.spec import (
    MAX_CATCH_UP,
    MISFIRE_THRESHOLD_MS,
    MisfirePolicy,
    TriggerSpec,
    WallTimeSpec,
)

Names = list[tuple[str, str]]  # value, name

_A_MONDAY = date(2024, 1, 1).toordinal()


def kind_choices() -> Choices:
    """Each kind of trigger with its name and when it is right."""
    return [(name, *kind.name_and_hint(_)) for name, kind in KINDS.items()]


def own_fields(*, seldom: bool) -> list[tuple[str, list[list[OwnField]]]]:
    """Each kind with its own fields for the form, in rows of those beside each other."""
    found = []
    for name, kind in KINDS.items():
        rows: list[list[OwnField]] = []
        for field in kind.own_fields(_):
            if field.is_seldom is not seldom:
                continue
            if field.beside:
                rows[-1].append(field)
            else:
                rows.append([field])
        found.append((name, rows))
    return found


def dialect_choices() -> Names:
    """The dialects; their names are never translated."""
    return [
        (Dialect.UNIX.value, "unix"),
        (Dialect.QUARTZ.value, "quartz (XXL-JOB)"),
        (Dialect.SPRING.value, "spring"),
    ]


def dialect_rules() -> Names:
    """What differs between the dialects, in a line."""
    return [
        (
            Dialect.UNIX.value,
            _(
                "minute, hour, day of month, month, weekday."
                " 0 and 7 are Sunday; of two days either counts."
            ),
        ),
        (
            Dialect.QUARTZ.value,
            _(
                "second, minute, hour, day of month, month, weekday [year]."
                " 1 is Sunday; one of the two days is “?”."
            ),
        ),
        (
            Dialect.SPRING.value,
            _(
                "second, minute, hour, day of month, month, weekday."
                " 0 and 7 are Sunday; both days must match."
            ),
        ),
    ]


def gap_choices() -> Names:
    """What becomes of times that do not exist when clocks go forward."""
    return [
        (Gap.FIRE.value, _("missing times fire once, right after")),
        (Gap.SKIP.value, _("missing times do not fire")),
    ]


def overlap_choices() -> Names:
    """What becomes of times that happen twice when clocks go back."""
    return [
        (Overlap.AUTO.value, _("intervals in both passes, times in the first")),
        (Overlap.FIRST.value, _("in the first pass only")),
        (Overlap.SECOND.value, _("in the second pass only")),
        (Overlap.BOTH.value, _("in both passes")),
    ]


def priority_choices() -> Names:
    """The priority of a trigger's runs."""
    return [("", _("the job’s")), *((str(n), _priority(n)) for n in range(1, 10))]


def _priority(n: int) -> str:
    said = {1: _("first"), 5: _("normal"), 9: _("last")}.get(n)
    return f"{n} — {said}" if said else str(n)


def calendar_choices(names: Sequence[str], chosen: str) -> Names:
    """The calendars there are; one that is chosen stays even when it is not there."""
    known = [chosen, *names] if chosen and chosen not in names else list(names)
    return [("", _("none")), *((name, name) for name in known)]


def weekday_choices() -> Names:
    """Weekdays by their short names."""
    return [(day, _date(n, "EEE")) for n, day in enumerate(WEEKDAYS)]


def weekday_names() -> Names:
    """Weekdays by their full names."""
    return [(day, _date(n, "EEEE")) for n, day in enumerate(WEEKDAYS)]


def _date(days_after_monday: int, pattern: str) -> str:
    day = date.fromordinal(_A_MONDAY + days_after_monday)
    return str(format_date(day, pattern, locale=REQUEST_LOCALE.get().language))


def month_names() -> list[str]:
    """The months of a year by their full names."""
    language = REQUEST_LOCALE.get().language
    return [str(format_date(date(2024, n, 1), "LLLL", locale=language)) for n in range(1, 13)]


def builder_words() -> dict[str, str]:
    """What the cron builder says by a code."""
    return {
        "more": _("This expression says more than can be chosen here. Choosing replaces it."),
        "times": _("Write times of day such as 09:00, separated by commas."),
        "times-differ": _(
            "One expression has the same minutes in each of its hours."
            " Add a trigger for the other times."
        ),
        "weekdays": _("Choose at least one day."),
        "day": _("There is no such day."),
        "minute": _("A minute is 0 to 59."),
        "elsewhere": _("The unix cron of other programs does not know L, W and #; here they work."),
    }


def misfire_choices() -> Choices:
    """What happens with fires that were missed while no admin ran."""
    return [
        (
            MisfirePolicy.FIRE_ONCE.value,
            _("Run once, late"),
            _("One run for the latest missed fire, as soon as possible."),
        ),
        (
            MisfirePolicy.SKIP.value,
            _("Skip them"),
            _("Nothing runs for them; a skipped run says how many were missed."),
        ),
        (
            MisfirePolicy.FIRE_ALL.value,
            _("Run each"),
            _("A run for every missed fire, oldest first, up to a limit."),
        ),
    ]


def misfire_text(spec: TriggerSpec) -> str:
    """What happens with a trigger's missed fires, and what counts as missed."""
    parts = [name_of(misfire_choices(), spec.misfire.value)]
    if spec.misfire is MisfirePolicy.FIRE_ALL and spec.catch_up_limit < MAX_CATCH_UP:
        parts.append(_("the latest %(n)s") % {"n": number(spec.catch_up_limit)})
    if spec.misfire_threshold_ms != MISFIRE_THRESHOLD_MS:
        parts.append(_("after %(time)s") % {"time": length_in_words(spec.misfire_threshold_ms)})
    return " · ".join(parts)


def schedule_text(spec: TriggerSpec) -> str:
    """When a trigger fires, in words."""
    if isinstance(spec, OnceSpec) and spec.at is not None:
        return _("Once, on %(moment)s") % {"moment": instant(spec.at)}
    if spec.follows_runs:
        return _("%(length)s after each run has ended") % {"length": length_in_words(spec.delay_ms)}
    return spec.describe(_)


def details(spec: TriggerSpec) -> list[str]:
    """What a trigger says beyond when it fires, where it is not the default."""
    found = []
    if spec.start_at is not None:
        found.append(_("not before %(moment)s") % {"moment": instant(spec.start_at)})
    if spec.end_at is not None:
        found.append(_("not after %(moment)s") % {"moment": instant(spec.end_at)})
    if spec.repeat_count is not None:
        text = ngettext("%(num)s run in all", "%(num)s runs in all", spec.repeat_count)
        found.append(text % {"num": number(spec.repeat_count)})
    if spec.jitter_ms:
        found.append(_("up to %(time)s later") % {"time": length_in_words(spec.jitter_ms)})
    if isinstance(spec, WallTimeSpec) and spec.gap is not Gap.FIRE:
        found.append(f"{_('when clocks go forward')}: {dict(gap_choices())[spec.gap.value]}")
    if isinstance(spec, WallTimeSpec) and spec.overlap is not Overlap.AUTO:
        found.append(f"{_('when clocks go back')}: {dict(overlap_choices())[spec.overlap.value]}")
    if isinstance(spec, WindowSpec):
        found.append(spec.placement_in_words(_))
        if spec.placement is not None:
            found.append(_("placed on %(moment)s") % {"moment": instant(spec.placement.chosen_at)})
    if spec.priority is not None:
        found.append(_("priority %(n)s") % {"n": spec.priority})
    if spec.parameters is not None:
        found.append(_("with parameters of its own"))
    return found


def schedule_rule(spec: TriggerSpec) -> str:
    """When a trigger fires, as it was written down; else its kind."""
    rule = name_of(kind_choices(), spec.kind)
    if isinstance(spec, CronSpec):
        rule = spec.expression or ""
    zone = spec.timezone or "UTC"
    return f"{rule} {zone}" if spec.has_wall_times and zone != "UTC" else rule


def marked(text: str, position: int | None) -> tuple[str, str, str] | None:
    """A text cut at a 1-based position: what is before, the word there, and the rest."""
    text = text.strip()
    if position is None or not 1 <= position <= len(text) + 1:
        return None
    start = position - 1
    end = next((i for i in range(start, len(text)) if text[i] in " ,\t"), len(text))
    return text[:start], text[start : max(end, start + 1)] or " ", text[max(end, start + 1) :]
