"""One message for the next page, where no script can show it: a cookie that holds only a code."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.i18n import gettext as _

_COOKIE = "flash"


def set_flash(response: web.StreamResponse, code: str) -> None:
    """Let the next page say this."""
    response.set_cookie(_COOKIE, code, max_age=60, path="/", httponly=True, samesite="Lax")


def take_flash(request: web.Request, response: web.StreamResponse) -> str | None:
    """What the page before wanted to say; said once. Codes that are not ours say nothing."""
    code = request.cookies.get(_COOKIE)
    if not code:
        return None
    response.del_cookie(_COOKIE, path="/")
    return flash_text(code)


def flash_text(code: str) -> str | None:
    """What a code says; None for codes that are not ours."""
    return {
        "job.created": _("The job was added."),
        "jobs.imported": _("All jobs of the text were added."),
        "job.saved": _("The job was saved."),
        "job.script_saved": _("The script was saved."),
        "job.rolled_back": _("The job was rolled back."),
        "job.deleted": _("The job was deleted."),
        "job.paused": _("The job is paused."),
        "job.resumed": _("The job is on again."),
        "job.state_set": _("The state was set."),
        "job.state_cleared": _("The state was cleared."),
        "trigger.paused": _("The trigger is paused."),
        "trigger.resumed": _("The trigger fires again."),
        "executor.paused": _("The executor is paused."),
        "executor.resumed": _("The executor is on again."),
        "system.paused": _("Everything is paused."),
        "system.resumed": _("Everything is on again."),
        "node.cordoned": _("The node gets no new runs."),
        "node.drained": _("The node is draining."),
        "node.resumed": _("The node gets runs again."),
        "node.slots_set": _("The node has been given other slots."),
        "node.weight_set": _("The node has been given another weight."),
        "executor.token_revoked": _("The former token does not work any more."),
        "run.requested": _("A new run was added."),
        "backfill.created": _("The backfill has begun."),
        "backfill.paused": _("The backfill is paused; what is open goes on."),
        "backfill.resumed": _("The backfill goes on."),
        "backfill.cancelled": _("The backfill is cancelled."),
        "run.cancelled": _("The run is being cancelled."),
        "step.approved": _("The step goes on."),
        "step.skipped": _("The step counts as passed."),
        "step.paused": _("The step waits for you before it begins."),
        "step.resumed": _("The pause is lifted."),
        "step.declined": _("The step is declined."),
        "run.released": _("The run was released."),
        "password.changed": _("Your password was changed."),
        "settings.saved": _("The settings were saved."),
        "user.grants_set": _("The roles were saved."),
        "user.disabled": _("The user is shut out."),
        "user.enabled": _("The user may log in again."),
        "user.deleted": _("The user was deleted."),
        "user.sessions_ended": _("All sessions of the user were ended."),
        "token.revoked": _("The token does not work any more."),
        "session.ended": _("The session was ended."),
        "sessions.ended": _("All your other sessions were ended."),
        "preferences.saved": _("Your preferences were saved."),
        "calendar.created": _("The calendar was added."),
        "calendar.saved": _("The calendar was saved."),
        "calendar.deleted": _("The calendar was deleted."),
        "pool.created": _("The pool was added."),
        "pool.saved": _("The pool was saved."),
        "pool.deleted": _("The pool was deleted."),
        "executor.created": _("The executor was added."),
        "executor.xxl_saved": _("The XXL-JOB settings were saved."),
        "executor.address_removed": _("The address was removed."),
        "executor.deleted": _("The executor was deleted."),
        "executor.scripts_allowed": _("Scripts are allowed on the executor."),
        "executor.scripts_forbidden": _("Scripts are forbidden on the executor."),
        "secret.saved": _("The secret was saved."),
        "secret.deleted": _("The secret was deleted."),
        "alarm.acknowledged": _("You look after the alarm."),
        "alarm.muted": _("Nothing more is told of the alarm for a while."),
        "alarm.unmuted": _("The alarm is told again."),
        "alarm.assigned": _("It was noted who looks after the alarm."),
        "alarm.closed": _("The alarm is closed."),
        "failure_group.retry_started": _(
            "The newest run is being retried; more follow when it succeeds."
        ),
        "failure_group.retry_stopped": _("No further runs are retried."),
        "proof_key.created": _("The key that signs proofs is made."),
        "failure_group.acknowledged": _("You look after the failure."),
        "failure_group.muted": _("No alarm tells of the failure for a while."),
        "failure_group.unmuted": _("Alarms tell of the failure again."),
        "failure_group.resolved": _("The failure is resolved."),
        "failure_group.edited": _("Owner and notes were saved."),
        "alarm.rule_created": _("The rule was added."),
        "alarm.rule_saved": _("The rule was saved."),
        "alarm.rule_on": _("The rule is on."),
        "alarm.rule_off": _("The rule is off."),
        "alarm.rule_deleted": _("The rule was deleted."),
        "alarm.channel_created": _("The channel was added. Send a test before you trust it."),
        "alarm.channel_saved": _("The channel was saved."),
        "alarm.channel_on": _("The channel is on."),
        "alarm.channel_off": _("The channel is off."),
        "alarm.channel_deleted": _("The channel was deleted."),
        "alarm.message_again": _("The message is sent again."),
        "declared.accepted": _("Code manages the job now."),
        "declared.ignored": _("It is ignored."),
        "declared.released": _("People manage the job now."),
        "declared.policy": _("The rule was saved."),
    }.get(code)
