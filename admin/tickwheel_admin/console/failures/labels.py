"""Words and icons for failure groups."""

from __future__ import annotations

from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.domain.failures.canary import CanaryReason, CanaryRetry, CanaryState
from tickwheel_admin.domain.failures.comparison import PhaseLengths
from tickwheel_admin.domain.failures.group import FailureGroup, GroupState


def state_badge(state: GroupState) -> tuple[str, str, str]:
    """(class, icon, words) of what people did about a group."""
    return {
        GroupState.OPEN: ("s-failed", "warning", _("open")),
        GroupState.ACKNOWLEDGED: ("s-running", "user", _("acknowledged")),
        GroupState.MUTED: ("s-idle", "bell", _("muted")),
        GroupState.RESOLVED: ("s-ok", "check", _("resolved")),
    }[state]


def canary_badge(canary: CanaryRetry) -> tuple[str, str, str]:
    """(class, icon, words) of whether a canary retry goes on, or why not."""
    if canary.reason is CanaryReason.FAILED:
        return "s-failed", "warning", _("stopped: a run did not succeed")
    if canary.reason is CanaryReason.NOT_ALLOWED:
        told = _("stopped: %(name)s may not retry runs any more") % {"name": canary.started_by}
        return "s-failed", "warning", told
    return {
        CanaryState.RUNNING: ("s-running", "retry", _("goes on")),
        CanaryState.STOPPED: (
            "s-idle",
            "close",
            _("stopped by %(name)s") % {"name": canary.stopped_by or ""},
        ),
        CanaryState.DONE: ("s-ok", "check", _("done")),
    }[canary.state]


def phase_name(phase: PhaseLengths) -> str:
    """What was done meanwhile."""
    return {
        "waiting": _("Waiting"),
        "sending": _("Sending"),
        "running": _("Running"),
    }[phase.name]


def extent(group: FailureGroup) -> str:
    """How many runs of how many jobs."""
    runs = ngettext("%(num)s run", "%(num)s runs", group.runs) % {"num": number(group.runs)}
    jobs = ngettext("%(num)s job", "%(num)s jobs", group.jobs) % {"num": number(group.jobs)}
    return _("%(runs)s of %(jobs)s") % {"runs": runs, "jobs": jobs}
