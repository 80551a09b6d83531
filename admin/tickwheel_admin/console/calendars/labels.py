"""Words for what a calendar says."""

from __future__ import annotations

from markupsafe import Markup

from tickwheel_admin.console.frame.choices import Choices, name_of
from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.console.triggers.labels import weekday_names
from tickwheel_admin.domain.calendars.calendar import CalendarSense, CalendarSpec
from tickwheel_admin.domain.schedule.wall_clock import seconds_of_time, short_time


def sense_choices() -> Choices:
    """What being in a calendar means."""
    return [
        (
            CalendarSense.EXCLUDE.value,
            _("Leave these out"),
            _("Nothing fires on its days and hours: public holidays, a maintenance window."),
        ),
        (
            CalendarSense.INCLUDE.value,
            _("Only these"),
            _("Fires on its days and hours only: workdays, with the Saturdays made up for."),
        ),
    ]


def sense_text(sense: CalendarSense) -> str:
    """The name of the sense."""
    return name_of(sense_choices(), sense.value)


def sense_badge(sense: CalendarSense) -> Markup:
    """The name of the sense as a badge."""
    kind = "s-skipped" if sense is CalendarSense.EXCLUDE else "s-dispatched"
    return Markup('<span class="tag {}">{}</span>').format(kind, sense_text(sense))


def size_text(spec: CalendarSpec) -> str:
    """How much a calendar holds, in a line."""
    parts = []
    if spec.dates:
        text = ngettext("%(num)s date", "%(num)s dates", len(spec.dates))
        parts.append(text % {"num": number(len(spec.dates))})
    if spec.yearly:
        parts.append(_("%(n)s every year") % {"n": len(spec.yearly)})
    if spec.month_days:
        parts.append(_("%(n)s every month") % {"n": len(spec.month_days)})
    if spec.weekdays:
        parts.append(_weekdays(spec))
    if spec.windows:
        parts.append(_windows(spec))
    if spec.cron:
        text = ngettext("%(num)s cron expression", "%(num)s cron expressions", len(spec.cron))
        parts.append(text % {"num": len(spec.cron)})
    if spec.base:
        parts.append(_("and what %(name)s takes away") % {"name": spec.base})
    return " · ".join(parts) or _("nothing yet")


def facts(spec: CalendarSpec) -> list[tuple[str, str]]:
    """What a calendar says, as names and texts; its cron expressions and base apart."""
    found = []
    if spec.dates:
        text = ngettext("%(num)s date", "%(num)s dates", len(spec.dates))
        span = f"{spec.dates[0]} – {spec.dates[-1]}"
        found.append((_("Dates"), f"{text % {'num': number(len(spec.dates))}} ({span})"))
    if spec.yearly:
        found.append((_("Every year"), _(", ").join(spec.yearly)))
    if spec.month_days:
        found.append((_("Days of the month"), _(", ").join(map(str, spec.month_days))))
    if spec.weekdays:
        found.append((_("Every week"), _weekdays(spec)))
    if spec.windows:
        found.append((_("Hours of every day"), _windows(spec)))
    return found


def _weekdays(spec: CalendarSpec) -> str:
    # Translators: between the items of a list.
    return _(", ").join(weekday_names()[day - 1][1] for day in spec.weekdays)


def _windows(spec: CalendarSpec) -> str:
    return _(", ").join(
        f"{short_time(seconds_of_time(w.from_time))}–{short_time(seconds_of_time(w.to_time))}"
        for w in spec.windows
    )
