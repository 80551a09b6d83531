"""Words for the coverage of a job."""

from __future__ import annotations

from collections.abc import Mapping

from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.domain.backfills.coverage import IntervalState


def state_title(state: IntervalState) -> str:
    """What became of an interval."""
    return {
        IntervalState.DONE: _("Done once"),
        IntervalState.TWICE: _("Done more than once"),
        IntervalState.PARTLY: _("Done in part"),
        IntervalState.RUNNING: _("Running"),
        IntervalState.WAITING: _("Waiting"),
        IntervalState.FAILED: _("Failed"),
        IntervalState.SKIPPED: _("Skipped"),
        IntervalState.NO_RUN: _("No run"),
        IntervalState.UNKNOWN: _("Not known any more"),
    }[state]


def state_badge(state: IntervalState) -> str:
    """Class of its badge."""
    return {
        IntervalState.DONE: "s-succeeded",
        IntervalState.TWICE: "s-retrying",
        IntervalState.PARTLY: "s-timed_out",
        IntervalState.RUNNING: "s-running",
        IntervalState.WAITING: "s-queued",
        IntervalState.FAILED: "s-failed",
        IntervalState.SKIPPED: "s-skipped",
        IntervalState.NO_RUN: "s-failed",
        IntervalState.UNKNOWN: "s-idle",
    }[state]


def counts_text(counts: Mapping[IntervalState, int]) -> str:
    """Intervals by what became of them, in a line."""
    return _(", ").join(
        f"{state_title(each)} {number(counts[each])}" for each in IntervalState if counts[each]
    )


# Of a strip 22 high: what differs in colour differs in height and place as well.
_BARS: Mapping[IntervalState, tuple[tuple[int, int], ...]] = {
    IntervalState.DONE: ((2, 18),),
    IntervalState.TWICE: ((2, 8), (12, 8)),
    IntervalState.PARTLY: ((2, 5), (16, 4)),
    IntervalState.RUNNING: ((7, 8),),
    IntervalState.WAITING: ((9, 4),),
    IntervalState.FAILED: ((12, 8),),
    IntervalState.SKIPPED: ((16, 4),),
    IntervalState.NO_RUN: (),
    IntervalState.UNKNOWN: ((10, 2),),
}


def bars(state: IntervalState) -> tuple[tuple[int, int], ...]:
    """(y, height) of what is drawn for an interval, beside its frame."""
    return _BARS[state]
