"""Words for the audit: what was done, to what, and what it changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext

if TYPE_CHECKING:
    from tickwheel_admin.services.system.audit import AuditItem

MAX_TOLD = 10_000  # changes of a bulk action that are counted

# What an action begins with → where its object is shown; what has no page of its own has no place.
_PAGES = {
    "job": "/jobs/{}",
    "trigger": "/jobs/{}",
    "declared": "/jobs/{}",
    "run": "/runs/{}",
    "backfill": "/backfills/{}",
    "executor": "/executors/{}",
    "node": "/nodes/{}",
    "calendar": "/calendars/{}",
    "pool": "/pools/{}",
    "alarm": "/alarms/{}",
    "alarm_rule": "/alarms/rules/{}",
    "failure_group": "/alarms/failures/{}",
    "alarm_channel": "/alarms/channels/{}",
    "notification": "/alarms/messages/{}",
    "user": "/users/{}",
}
_GONE = frozenset(
    {
        "job.deleted",
        "executor.deleted",
        "calendar.deleted",
        "pool.deleted",
        "user.deleted",
        "alarm_rule.deleted",
        "alarm_channel.deleted",
    }
)


def action_labels() -> dict[str, str]:
    """Every action that is written, in words."""
    return {
        "job.created": _("Job added"),
        "job.updated": _("Job edited"),
        "job.rolled_back": _("Job rolled back"),
        "job.deleted": _("Job deleted"),
        "job.paused": _("Job paused"),
        "job.resumed": _("Job resumed"),
        "job.state_set": _("State of a job set"),
        "job.taken_over": _("Job taken over from XXL-JOB"),
        "job.given_back": _("Job given back to XXL-JOB"),
        "jobs.created": _("Jobs added"),
        "jobs.run": _("Jobs run by hand"),
        "jobs.paused": _("Jobs paused"),
        "jobs.resumed": _("Jobs resumed"),
        "jobs.tagged": _("Jobs tagged"),
        "jobs.untagged": _("Tag taken from jobs"),
        "jobs.deleted": _("Jobs deleted"),
        "trigger.paused": _("Trigger paused"),
        "trigger.resumed": _("Trigger resumed"),
        "trigger.placed": _("Trigger placed in its window"),
        "declared.accepted": _("Declared job accepted"),
        "declared.applied": _("Declared job applied"),
        "declared.ignored": _("Declared job ignored"),
        "declared.released": _("Job taken out of code’s hands"),
        "run.requested": _("Run by hand"),
        "run.retried": _("Run retried"),
        "run.script_tried": _("Script tried"),
        "run.cancelled": _("Run cancelled"),
        "run.released": _("Run released"),
        "run.step_answered": _("Step of a workflow answered"),
        "run.step_skipped": _("Step of a workflow skipped"),
        "run.step_paused": _("Pause set before a step of a workflow"),
        "run.step_resumed": _("Pause before a step of a workflow lifted"),
        "runs.cancelled": _("Runs cancelled"),
        "runs.retried": _("Runs retried"),
        "runs.purged": _("Runs purged"),
        "backfill.created": _("Backfill started"),
        "backfill.paused": _("Backfill paused"),
        "backfill.resumed": _("Backfill resumed"),
        "backfill.cancelled": _("Backfill cancelled"),
        "executor.created": _("Executor added"),
        "executor.updated": _("Executor edited"),
        "executor.deleted": _("Executor deleted"),
        "executor.paused": _("Executor paused"),
        "executor.resumed": _("Executor resumed"),
        "executor.xxl_changed": _("XXL-JOB settings of an executor changed"),
        "executor.xxl_address_removed": _("Address of an executor removed"),
        "executor.xxl_refused": _("Request of an XXL-JOB executor refused"),
        "executor.token_rotated": _("Token of an executor rotated"),
        "executor.old_token_revoked": _("Former token of an executor revoked"),
        "executor.secret_added": _("Secret of an executor added"),
        "executor.secret_replaced": _("Secret of an executor replaced"),
        "executor.secret_deleted": _("Secret of an executor deleted"),
        "secret_key.rotated": _("Secrets encrypted with another key"),
        "proof_key.created": _("Key that signs proofs made"),
        "executor.code_jobs_set": _("Rule for declared jobs set"),
        "executor.scripts_allowed": _("Scripts allowed on an executor"),
        "executor.scripts_forbidden": _("Scripts forbidden on an executor"),
        "node.cordoned": _("Node cordoned"),
        "node.drained": _("Node drained"),
        "node.resumed": _("Node resumed"),
        "node.slots_set": _("Slots of a node set"),
        "node.weight_set": _("Weight of a node set"),
        "calendar.created": _("Calendar added"),
        "calendar.updated": _("Calendar edited"),
        "calendar.deleted": _("Calendar deleted"),
        "pool.created": _("Pool added"),
        "pool.updated": _("Pool changed"),
        "pool.deleted": _("Pool deleted"),
        "gitops.applied": _("Files applied (Git)"),
        "alarm.acknowledged": _("Alarm acknowledged"),
        "alarm.muted": _("Alarm muted"),
        "alarm.unmuted": _("Alarm unmuted"),
        "alarm.assigned": _("Alarm assigned"),
        "alarm.closed": _("Alarm closed by hand"),
        "failure_group.acknowledged": _("Failure acknowledged"),
        "failure_group.muted": _("Failure muted"),
        "failure_group.unmuted": _("Failure unmuted"),
        "failure_group.resolved": _("Failure resolved by hand"),
        "failure_group.retry_started": _("Retry of a failure’s runs begun"),
        "failure_group.retry_stopped": _("Retry of a failure’s runs stopped"),
        "failure_group.edited": _("Owner and notes of a failure set"),
        "alarm_rule.created": _("Alarm rule added"),
        "alarm_rule.updated": _("Alarm rule edited"),
        "alarm_rule.deleted": _("Alarm rule deleted"),
        "alarm_channel.created": _("Alarm channel added"),
        "alarm_channel.updated": _("Alarm channel edited"),
        "alarm_channel.enabled": _("Alarm channel switched on"),
        "alarm_channel.disabled": _("Alarm channel switched off"),
        "alarm_channel.tried": _("Alarm channel tried"),
        "alarm_channel.deleted": _("Alarm channel deleted"),
        "notification.sent_again": _("Alarm message sent again"),
        "system.paused": _("Everything paused"),
        "system.resumed": _("Everything resumed"),
        "settings.updated": _("Settings changed"),
        "user.created": _("User added"),
        "user.deleted": _("User deleted"),
        "user.disabled": _("User shut out"),
        "user.enabled": _("User let in again"),
        "user.grants_changed": _("Roles changed"),
        "user.logged_in": _("Logged in"),
        "user.password_changed": _("Own password changed"),
        "user.password_reset": _("One-time password made"),
        "user.preferences_changed": _("Own preferences changed"),
        "user.sessions_ended": _("Sessions ended"),
        "token.created": _("API token made"),
        "token.revoked": _("API token revoked"),
    }


def action_text(action: str) -> str:
    """What was done; an action of a newer admin as it is written."""
    return action_labels().get(action, action)


def action_choices() -> list[tuple[str, str]]:
    """(what actions begin with, its words), for the filter."""
    return [
        ("job", _("Jobs")),
        ("trigger.", _("Triggers")),
        ("declared.", _("Declared jobs")),
        ("run", _("Runs")),
        ("backfill.", _("Backfills")),
        ("executor.", _("Executors")),
        ("node.", _("Nodes")),
        ("calendar.", _("Calendars")),
        ("pool.", _("Pools")),
        ("gitops.", _("Files applied (Git)")),
        ("alarm", _("Alarms, their rules and channels")),
        ("failure_group.", _("Failures")),
        ("user.", _("Users")),
        ("user.logged_in", _("Logins")),
        ("token.", _("API tokens")),
        ("settings.", _("Settings")),
        ("system.", _("Everything paused or resumed")),
    ]


def parts_text(item: AuditItem) -> str:
    """How many changes a bulk action made, as far as they were counted."""
    done = int(item.detail.get("done", 0))
    if done > MAX_TOLD:
        return _("more than %(num)s") % {"num": number(MAX_TOLD)}
    return ngettext("%(num)s change", "%(num)s changes", done) % {"num": number(done)}


def icon_of(action: str) -> tuple[str, str]:
    """(tone of its tile, icon) of an action."""
    noun, _dot, verb = action.partition(".")
    if verb in ("deleted", "purged", "revoked", "disabled"):
        return "bad", "delete" if verb != "disabled" else "s-cancelled"
    if verb == "logged_in":
        return "idle", "user"
    if verb in ("paused", "cordoned", "drained"):
        return "warn", "pause"
    symbols = {
        "job": "jobs",
        "jobs": "jobs",
        "trigger": "clock",
        "declared": "code",
        "gitops": "code",
        "run": "runs",
        "runs": "runs",
        "executor": "executors",
        "node": "connected",
        "calendar": "calendar",
        "user": "user",
        "token": "token",
        "settings": "settings",
        "system": "system",
    }
    return "", symbols.get(noun, "audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditObject:
    """What something was done to."""

    name: str
    href: str | None  # None: it has no page, or is gone
    job: str | None = None  # of a run: the name of its job


def object_of(item: AuditItem) -> AuditObject | None:
    """What the action was done to; None when it was to the installation as a whole."""
    noun = item.action.partition(".")[0]
    name = item.detail.get("name")
    if item.is_bulk:
        return None
    # A run is known by its number, and a whole purge by its job or its executor.
    if noun == "runs":
        job_id = item.detail.get("job")
        job = item.job_name or f"#{job_id}"
        return None if job_id is None else AuditObject(name=job, href=f"/jobs/{job_id}")
    if noun == "token":
        owner = item.detail.get("user")
        shown = f"{owner} / {name}" if owner and owner != item.user_name else name
        return AuditObject(name=str(shown), href=None)
    if item.action in ("user.logged_in", "user.password_changed", "user.preferences_changed"):
        return None  # to oneself
    if item.object_id is None:
        return None if name is None else AuditObject(name=str(name), href=None)
    page = None if item.action in _GONE else _PAGES.get(noun)
    if noun in ("job", "trigger", "declared"):
        name = name or item.job_name
    return AuditObject(
        name=str(name) if name else f"#{item.object_id}",
        href=page.format(item.object_id) if page else None,
        job=item.job_name if noun == "run" else None,
    )
