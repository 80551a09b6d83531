"""Words for what needs attention: what it is about, what is the matter, and where to look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwheel_admin.console.alarms.labels import alarm_text, answer_page
from tickwheel_admin.console.frame.formatting import duration, number, percent
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import message_text
from tickwheel_admin.console.runs.labels import waiting_text
from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.labels import KIND_TITLES
from tickwheel_admin.services.overview.attention.failures import STREAK_MARKS
from tickwheel_admin.services.overview.attention.service import AlarmKind, Concern, Severity

SHOWN = 4  # the others are folded
NAMED = 3  # nodes, of all that were lost
# Of these, somebody may want the newest run once more.
_RETRIED = frozenset({AlarmKind.FAILING_STREAK, AlarmKind.RETRY_FAILED, AlarmKind.LAST_FAILED})
_ONCE = frozenset({AlarmKind.RETRY_FAILED})  # happened once, so there is no last time of it

_ICONS = {
    AlarmKind.FAILED: "s-failed",
    AlarmKind.FAILING_STREAK: "s-failed",
    AlarmKind.RETRY_FAILED: "retry",
    AlarmKind.LAST_FAILED: "s-failed",
    AlarmKind.FAILURE_RATE: "s-failed",
    AlarmKind.LOW_SUCCESS: "s-failed",
    AlarmKind.NODES_LOST: "offline",
    AlarmKind.LATE: "clock",
    AlarmKind.SLOW: "s-timed_out",
    AlarmKind.TRIGGER_ERROR: "warning",
    AlarmKind.DEADLINE_WARNING: "clock",
    AlarmKind.COVERAGE_GAP: "calendar",
    AlarmKind.NO_NODES: "offline",
    AlarmKind.FULL: "executors",
    AlarmKind.DECLARED_WAITING: "code",
    AlarmKind.DECLARED_BROKEN: "code",
    AlarmKind.ADMIN_BEHIND: "system",
    AlarmKind.DATABASE_SLOW: "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcernRow:
    """One concern as the overview tells it."""

    key: str  # of its row, the same as long as it is the same matter
    icon: str
    look: str  # class of the icon
    subject: str
    text: str
    href: str
    since: int | None  # when it began, or the only time that it happened
    last_at: int | None  # of what happened more than once, the last time
    next_at: int | None  # when the job fires next, where that says how long nobody will know more
    executor_id: int | None
    retries: int | None  # the run that a click does again
    alarm: Alarm | None  # an open one about it
    alarms: int  # how many open ones


def concern_rows(concerns: Sequence[Concern]) -> list[ConcernRow]:
    """Every concern with its words."""
    return [
        ConcernRow(
            key="-".join(str(part) for part in _identity(each)),
            icon=_ICONS.get(each.kind, "warning"),
            look="bad" if each.severity is Severity.ERROR else "warn",
            subject=each.job_name or each.executor_name or each.admin_name or _whole(each),
            text=_text(each),
            href=_href(each),
            since=each.last_at if _is_once(each) else each.since,
            last_at=None if _is_once(each) else each.last_at,
            next_at=each.params.get("next_at"),
            executor_id=each.executor_id,
            retries=each.run_id if each.kind in _RETRIED and not each.is_told_by_alarm else None,
            alarm=each.alarm,
            alarms=each.alarms,
        )
        for each in concerns
    ]


def _whole(concern: Concern) -> str:
    """What a concern is about that names nothing of its own."""
    if concern.is_told_by_alarm:
        return _(KIND_TITLES[concern.kind])
    match concern.kind:
        case AlarmKind.LOW_SUCCESS:
            return _("All runs")
        case AlarmKind.DATABASE_SLOW:
            return _("Database")
        case _:
            return _("Planning")


def _is_once(concern: Concern) -> bool:
    return concern.kind in _ONCE or concern.params.get("count") == 1


def _identity(concern: Concern) -> tuple[object, ...]:
    """What tells it from others; a job may have several broken triggers."""
    return (
        concern.kind.value,
        concern.executor_id or 0,
        concern.job_id or 0,
        concern.trigger_id or concern.admin_id or 0,
        concern.failure.id if concern.failure is not None else 0,
        concern.alarm.id if concern.alarm is not None and concern.is_told_by_alarm else 0,
    )


def _text(concern: Concern) -> str:
    params = concern.params
    if concern.is_told_by_alarm:
        return _of_alarms(concern)
    match concern.kind:
        case AlarmKind.FAILING_STREAK:
            count = int(params["count"])
            shown = f"{count}+" if count >= STREAK_MARKS else str(count)
            return _("%(n)s failures in a row") % {"n": shown}
        case AlarmKind.LAST_FAILED:
            count = int(params["count"])
            if count == 1:
                return _("Its last run failed")
            return _("%(n)s failures in a row") % {"n": count}
        case AlarmKind.RETRY_FAILED:
            return _("Run #%(original)s was retried, and run #%(run)s failed as well") % params
        case AlarmKind.FAILURE_RATE | AlarmKind.LOW_SUCCESS:
            return _share_text(concern)
        case AlarmKind.FAILED if concern.failure is not None:
            error = message_text(concern.failure.text)
            # A sentence of its own, before a colon.
            return _(concern.template) % {**params, "error": error.rstrip(".。")}
        case AlarmKind.NODES_LOST:
            return _lost_text(concern)
        case AlarmKind.NO_NODES if params.get("waiting"):
            return _("No live node; due runs that wait: %(waiting)s") % params
        case AlarmKind.SLOW:
            return _("Run #%(run)s has been running for %(time)s; usual is %(usual)s") % {
                "run": params["run"],
                "time": duration(float(params["seconds"]) * 1000),
                "usual": duration(float(params["usual"]) * 1000),
            }
        case AlarmKind.DEADLINE_WARNING if "minutes" in params:
            return (
                _("Will probably miss its deadline at %(by)s (%(zone)s) by %(minutes)s min")
                % params
            )
        case AlarmKind.DEADLINE_WARNING:
            return _("Will probably not have succeeded by %(by)s (%(zone)s)") % params
        case AlarmKind.COVERAGE_GAP:
            return _("Intervals of data that were not processed: %(holes)s") % params
        case AlarmKind.TRIGGER_ERROR:
            return _("A trigger does not fire: %(reason)s") % {"reason": _(str(params["reason"]))}
        case AlarmKind.NO_NODES:
            return _("It has jobs, but no live node")
        case AlarmKind.LATE if concern.why is not None and concern.why.code == "starting":
            return _("Due runs that wait although slots are free: %(waiting)s") % params
        case AlarmKind.FULL | AlarmKind.LATE if concern.why is not None:
            return f"{_('Due runs that wait:')} {params['waiting']} · {waiting_text(concern.why)}"
        case AlarmKind.FULL:
            return _("All %(slots)s slots are taken; %(waiting)s runs wait") % params
        case AlarmKind.LATE:
            return _("Triggers that are overdue: %(count)s") % params
        case AlarmKind.DECLARED_WAITING:
            return _("Jobs declared in code that wait for a decision: %(names)s") % params
        case AlarmKind.DECLARED_BROKEN:
            return _("Jobs declared in code that break a rule: %(names)s") % params
        case AlarmKind.ADMIN_BEHIND:
            return _admin_text(concern)
        case _:
            return _(concern.template) % params


def _of_alarms(concern: Concern) -> str:
    """Told by the alarm, or how many there are."""
    if concern.alarm is not None:
        return alarm_text(concern.alarm)
    title, params = _(KIND_TITLES[concern.kind]), concern.params
    if "executors" in params:
        text = _("%(count)s open alarms of %(executors)s executors") % params
    else:
        text = _("%(count)s open alarms") % params
    return text if concern.executor_name is None else f"{title} · {text}"


def _share_text(concern: Concern) -> str:
    params = concern.params
    runs, usual = int(params["runs"]), params["usual"]
    if concern.kind is AlarmKind.FAILURE_RATE:
        text = _("%(failures)s of the last %(runs)s runs failed") % params
    else:
        text = _("%(share)s of %(runs)s runs of the last %(time)s succeeded") % {
            "share": percent(int(params["succeeded"]), runs),
            "runs": number(runs),
            "time": duration(float(params["seconds"]) * 1000),
        }
    if usual is None:
        return text
    return f"{text} ({_('usual: %(share)s') % {'share': percent(round(usual * 1000), 1000)}})"


def _lost_text(concern: Concern) -> str:
    names, runs = concern.params["names"], int(concern.params["runs"])
    more = f" +{len(names) - NAMED}" if len(names) > NAMED else ""
    text = _("Lost nodes: %(names)s") % {"names": ", ".join(names[:NAMED]) + more}
    if runs:
        text += " · " + _("lost runs: %(n)s") % {"n": number(runs)}
    return text


def _admin_text(concern: Concern) -> str:
    params = concern.params
    if "seconds" in params:
        return _("Its clock differs from the database’s by %(seconds)s s") % params
    if "stalled_ms" in params and not params["place"]:
        return (
            _("Its event loop was blocked for %(stalled_ms)s ms: its process got no processor time")
            % params
        )
    if "stalled_ms" in params:
        return _("Its event loop was blocked for %(stalled_ms)s ms: %(place)s") % params
    if "loop" not in params:
        return _("It does not renew its lease")
    told = {"loop": _(str(params["loop"]))}
    if concern.since is None:  # it runs, and fails each time
        return _("“%(loop)s” fails") % told
    return _("“%(loop)s” stands still") % told


def _href(concern: Concern) -> str:
    if concern.is_told_by_alarm:
        if concern.alarm is not None:
            return answer_page(concern.alarm) or f"/alarms/{concern.alarm.id}"
        of = f"&executor={concern.executor_id}" if concern.executor_id else ""
        return f"/alarms?kind={concern.kind.value}{of}"
    if concern.failure is not None:
        return f"/alarms/failures/{concern.failure.id}"
    match concern.kind:
        case AlarmKind.SLOW | AlarmKind.LATE | AlarmKind.FULL if concern.run_id is not None:
            return f"/runs/{concern.run_id}"
        case AlarmKind.DECLARED_WAITING | AlarmKind.DECLARED_BROKEN:
            return f"/executors/{concern.executor_id}/declared-jobs"
        case AlarmKind.RETRY_FAILED:
            return f"/runs/{concern.run_id}"
        case AlarmKind.DEADLINE_WARNING:
            return f"/night-plan?executor={concern.executor_id}"
        case AlarmKind.COVERAGE_GAP:
            return f"/jobs/{concern.job_id}/coverage?trigger={concern.trigger_id}"
        case AlarmKind.LOW_SUCCESS:
            of = f"executor={concern.executor_id}&" if concern.executor_id else ""
            return f"/runs?{of}state=failed_any&from={concern.since}"
        case AlarmKind.ADMIN_BEHIND:
            return f"/admins#h-admin-{concern.admin_id}"
        case _ if concern.job_id is not None:
            return f"/jobs/{concern.job_id}"
        case _ if concern.executor_id is not None:
            return f"/executors/{concern.executor_id}"
        case _:
            return "/admins"
