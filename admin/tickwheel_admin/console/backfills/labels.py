"""Words for backfills."""

from __future__ import annotations

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.runs.labels import state_name
from tickwheel_admin.domain.backfills.backfill import (
    Backfill,
    BackfillState,
    FillOutcome,
    backfill_of,
)
from tickwheel_admin.domain.runs.run import RunState

__all__ = [
    "backfill_of",
    "order_title",
    "outcome_title",
    "outcomes",
    "reason_text",
    "state_badge",
    "state_title",
]


def state_title(state: BackfillState) -> str:
    """How a backfill stands."""
    return {
        BackfillState.RUNNING: _("Running"),
        BackfillState.PAUSED: _("Paused"),
        BackfillState.CANCELLED: _("Cancelled"),
        BackfillState.DONE: _("Done"),
    }[state]


def state_badge(state: BackfillState) -> tuple[str, str]:
    """(class, icon) of its badge."""
    return {
        BackfillState.RUNNING: ("s-running", "s-running"),
        BackfillState.PAUSED: ("s-paused", "pause"),
        BackfillState.CANCELLED: ("s-cancelled", "s-cancelled"),
        BackfillState.DONE: ("s-succeeded", "s-succeeded"),
    }[state]


def outcome_title(outcome: FillOutcome) -> str:
    """What became of an instant."""
    if outcome is FillOutcome.OPEN:
        return _("Waiting or running")
    if outcome is FillOutcome.EXISTING:
        return _("Had a run already")
    return state_name(RunState(outcome.value))


def outcomes(backfill: Backfill) -> list[tuple[FillOutcome, int]]:
    """What there is to look at, with how many of each: what is open, then what has ended."""
    counts = {FillOutcome.OPEN: backfill.open, **backfill.counts()}
    counts[FillOutcome.EXISTING] = backfill.existing
    return [
        (outcome, count)
        for outcome, count in counts.items()
        if count or outcome in (FillOutcome.OPEN, FillOutcome.SUCCEEDED, FillOutcome.FAILED)
    ]


def reason_text(reason: str | None) -> str | None:
    """Why it ended by itself."""
    return _("The job was deleted.") if reason == "job_deleted" else reason


def order_title(newest_first: bool) -> str:
    """Which instants come first."""
    return _("Newest first") if newest_first else _("Oldest first")
