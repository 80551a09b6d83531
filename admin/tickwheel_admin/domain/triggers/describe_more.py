"""What a trigger says beside when it fires: bounds, calendar, jitter, and what clocks do to it."""

from __future__ import annotations

from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.describe.words import Translate, length, moment
from tickwheel_admin.domain.triggers.spec import TriggerSpec, WallTimeSpec


def describe_more(spec: TriggerSpec, _: Translate) -> list[str]:
    """A sentence for each thing that differs from the default; empty for most triggers."""
    found = spec.describe_own(_)
    if spec.start_at is not None:
        found.append(_("Not before %(moment)s UTC") % {"moment": moment(spec.start_at)})
    if spec.end_at is not None:
        found.append(_("Not after %(moment)s UTC") % {"moment": moment(spec.end_at)})
    if spec.repeat_count == 1:
        found.append(_("One time only"))
    elif spec.repeat_count is not None:
        found.append(_("%(n)s times at most") % {"n": f"{spec.repeat_count:,}"})
    if spec.calendar is not None:
        found.append(
            _("Without what the calendar “%(calendar)s” takes away") % {"calendar": spec.calendar}
        )
    if spec.jitter_ms:
        found.append(_("Spread over %(length)s") % {"length": length(spec.jitter_ms, _)})
    if isinstance(spec, WallTimeSpec) and spec.gap is Gap.SKIP:
        found.append(_("Times that the clocks skip do not fire"))
    if isinstance(spec, WallTimeSpec) and spec.overlap is not Overlap.AUTO:
        found.append(_overlap(spec.overlap, _))
    return found


def _overlap(overlap: Overlap, _: Translate) -> str:
    match overlap:
        case Overlap.FIRST:
            return _("Times that the clocks show twice fire the first time")
        case Overlap.SECOND:
            return _("Times that the clocks show twice fire the second time")
        case Overlap.BOTH | Overlap.AUTO:
            return _("Times that the clocks show twice fire both times")
