"""The renderer of the console: what each noun lets templates use, put together."""

from __future__ import annotations

from tickwheel_admin.console.alarms import labels as alarm_labels
from tickwheel_admin.console.as_of import labels as as_of_labels
from tickwheel_admin.console.backfills import coverage_labels
from tickwheel_admin.console.backfills import labels as backfill_labels
from tickwheel_admin.console.calendars import labels as calendar_labels
from tickwheel_admin.console.delays import labels as delay_labels
from tickwheel_admin.console.executors import xxl_labels
from tickwheel_admin.console.executors.snippets import node_program, xxl_job_snippets
from tickwheel_admin.console.failures import labels as failure_labels
from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.frame.rendering import Renderer
from tickwheel_admin.console.jobs import declared_labels, policy_labels, routing_labels
from tickwheel_admin.console.jobs import labels as job_labels
from tickwheel_admin.console.proof import labels as proof_labels
from tickwheel_admin.console.runs import labels as run_labels
from tickwheel_admin.console.runs.estimates import end_by_progress
from tickwheel_admin.console.system import audit_labels, self_audit_labels
from tickwheel_admin.console.system import labels as system_labels
from tickwheel_admin.console.triggers import labels as trigger_labels
from tickwheel_admin.console.users import labels as user_labels
from tickwheel_admin.console.workflows import labels as workflow_labels
from tickwheel_admin.domain.runs.error import alike

_NAMES = {
    "run_labels": run_labels,
    "workflow_labels": workflow_labels,
    "job_labels": job_labels,
    "policy_labels": policy_labels,
    "routing_labels": routing_labels,
    "declared_labels": declared_labels,
    "trigger_labels": trigger_labels,
    "calendar_labels": calendar_labels,
    "user_labels": user_labels,
    "audit_labels": audit_labels,
    "alarm_labels": alarm_labels,
    "failure_labels": failure_labels,
    "backfill_labels": backfill_labels,
    "coverage_labels": coverage_labels,
    "system_labels": system_labels,
    "proof_labels": proof_labels,
    "delay_labels": delay_labels,
    "as_of_labels": as_of_labels,
    "self_audit_labels": self_audit_labels,
    "node_program": node_program,
    "xxl_job_snippets": xxl_job_snippets,
    "xxl_labels": xxl_labels,
    "alike": alike,
    "end_by_progress": end_by_progress,
}
_MACROS = {  # later ones may use those before
    "ui": "frame/macros.html",
    "macros": "frame/form_macros.html",
    "graphs": "frame/graph_macros.html",
    "step_macros": "workflows/step_macros.html",
    "trigger_macros": "triggers/inputs.html",
    "calendar_macros": "calendars/macros.html",
    "heat_macros": "frame/heat_macros.html",
    "chart_macros": "frame/chart_macros.html",
    "delay_macros": "delays/macros.html",
}


def new_renderer(assets: Assets) -> Renderer:
    """A renderer whose templates may use the labels and macros of every noun."""
    return Renderer(assets, _NAMES, _MACROS)
