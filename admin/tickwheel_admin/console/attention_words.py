"""Words for what needs attention: what it is about, what is the matter, and where to look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwheel_admin.console.i18n import gettext as _
from tickwheel_admin.console.labels import waiting_text
from tickwheel_admin.console.reader import duration
from tickwheel_admin.services.attention import Concern, ConcernKind, Severity
from tickwheel_admin.services.job_concerns import STREAK_MARKS

SHOWN = 4  # the others are folded

_ICONS = {
    ConcernKind.FAILING_STREAK: "s-failed",
    ConcernKind.LATE: "clock",
    ConcernKind.SLOW: "s-timed_out",
    ConcernKind.TRIGGER_ERROR: "warning",
    ConcernKind.NO_NODES: "offline",
    ConcernKind.FULL: "executors",
    ConcernKind.DECLARED_WAITING: "code",
    ConcernKind.DECLARED_BROKEN: "code",
    ConcernKind.ADMIN_BEHIND: "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One concern as the overview tells it."""

    key: str  # of its row, the same as long as it is the same matter
    icon: str
    look: str  # class of the icon
    subject: str
    text: str
    href: str
    since: int | None
    executor_id: int | None
    retries: int | None  # the run that a click does again


def told(concerns: Sequence[Concern]) -> list[Told]:
    """Every concern with its words."""
    return [
        Told(
            key="-".join(str(part) for part in _identity(each)),
            icon=_ICONS[each.kind],
            look="bad" if each.severity is Severity.ERROR else "warn",
            subject=each.job_name or each.executor_name or each.admin_name or _("Planning"),
            text=_text(each),
            href=_href(each),
            since=each.since,
            executor_id=each.executor_id,
            retries=each.run_id if each.kind is ConcernKind.FAILING_STREAK else None,
        )
        for each in concerns
    ]


def _identity(concern: Concern) -> tuple[object, ...]:
    """What tells it from others; a job may have several broken triggers."""
    return (
        concern.kind.value,
        concern.executor_id or 0,
        concern.job_id or 0,
        concern.trigger_id or concern.admin_id or 0,
    )


def _text(concern: Concern) -> str:
    params = concern.params
    match concern.kind:
        case ConcernKind.FAILING_STREAK:
            count = int(params["count"])
            shown = f"{count}+" if count >= STREAK_MARKS else str(count)
            return _("%(n)s failures in a row") % {"n": shown}
        case ConcernKind.SLOW:
            return _("Run #%(run)s has been running for %(time)s; usual is %(usual)s") % {
                "run": params["run"],
                "time": duration(float(params["seconds"]) * 1000),
                "usual": duration(float(params["usual"]) * 1000),
            }
        case ConcernKind.TRIGGER_ERROR:
            return _("A trigger does not fire: %(reason)s") % {"reason": _(str(params["reason"]))}
        case ConcernKind.NO_NODES:
            return _("It has jobs, but no live node")
        case ConcernKind.LATE if concern.why is not None and concern.why.code == "starting":
            return _("Due runs that wait although slots are free: %(waiting)s") % params
        case ConcernKind.FULL | ConcernKind.LATE if concern.why is not None:
            return f"{_('Due runs that wait:')} {params['waiting']} · {waiting_text(concern.why)}"
        case ConcernKind.FULL:
            return _("All %(slots)s slots are taken; %(waiting)s runs wait") % params
        case ConcernKind.LATE:
            return _("Triggers that are overdue: %(count)s") % params
        case ConcernKind.DECLARED_WAITING:
            return _("Jobs declared in code that wait for a decision: %(names)s") % params
        case ConcernKind.DECLARED_BROKEN:
            return _("Jobs declared in code that break a rule: %(names)s") % params
        case ConcernKind.ADMIN_BEHIND:
            return _admin_text(concern)


def _admin_text(concern: Concern) -> str:
    params = concern.params
    if "seconds" in params:
        return _("Its clock differs from the database’s by %(seconds)s s") % params
    if "loop" not in params:
        return _("It does not renew its lease")
    told = {"loop": _(str(params["loop"]))}
    if concern.since is None:  # it runs, and fails each time
        return _("“%(loop)s” fails") % told
    return _("“%(loop)s” stands still") % told


def _href(concern: Concern) -> str:
    match concern.kind:
        case ConcernKind.SLOW | ConcernKind.LATE | ConcernKind.FULL if concern.run_id is not None:
            return f"/runs/{concern.run_id}"
        case ConcernKind.DECLARED_WAITING | ConcernKind.DECLARED_BROKEN:
            return f"/executors/{concern.executor_id}/declared-jobs"
        case ConcernKind.ADMIN_BEHIND:
            return f"/admins#h-admin-{concern.admin_id}"
        case _ if concern.job_id is not None:
            return f"/jobs/{concern.job_id}"
        case _ if concern.executor_id is not None:
            return f"/executors/{concern.executor_id}"
        case _:
            return "/admins"
