"""The words of the past."""

from __future__ import annotations

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.system import audit_labels
from tickwheel_admin.domain.as_of.nodes import NodeEvent
from tickwheel_admin.domain.as_of.runs import StandingThen
from tickwheel_admin.services.as_of.service import ShownChange


def standing_name(standing: StandingThen) -> str:
    """How a run stood."""
    return {
        StandingThen.PLANNED: _("Planned"),
        StandingThen.QUEUED: _("Queued"),
        StandingThen.PARKED: _("Waits for its turn"),
        StandingThen.DISPATCHED: _("Starting"),
        StandingThen.RUNNING: _("Running"),
    }[standing]


def standing_look(standing: StandingThen) -> str:
    """The look of its badge."""
    live = (StandingThen.DISPATCHED, StandingThen.RUNNING)
    return "s-running" if standing in live else "s-queued"


def change_text(change: ShownChange) -> str:
    """What changed."""
    if change.node is None:
        return "" if change.item is None else audit_labels.action_text(change.item.action)
    return {
        NodeEvent.CAME: _("Node came"),
        NodeEvent.CHANGED: _("Node changed"),
        NodeEvent.GONE: _("Node went"),
        NodeEvent.DEAD: _("Node lost"),
    }[change.node.event]


def change_look(change: ShownChange) -> tuple[str, str]:
    """The tone of its tile, and its icon."""
    if change.node is None:
        return ("", "audit") if change.item is None else audit_labels.icon_of(change.item.action)
    tones = {NodeEvent.DEAD: "bad", NodeEvent.GONE: "idle", NodeEvent.CHANGED: "warn"}
    return tones.get(change.node.event, ""), "connected"
