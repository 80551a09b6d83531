"""/api/v1/self-audit: whether everything that should have fired did."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.api.inputs import query_fields
from tickwheel_admin.api.system.shapes import CountsJson, DifferenceJson, SelfAuditJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.system.self_audit import (
    AuditedHour,
    AuditTotals,
    SelfAuditReport,
    StoredDifference,
)
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_FROM = instant_input("from", "The first hour; at most 62 days in all, the last 14 if left out.")
_TO = instant_input("to", "The end.")


@routes.get(
    "/api/v1/self-audit",
    permission=Permission.ADMINISTER,
    api=True,
    query=(_FROM, _TO),
    answers=SelfAuditJson,
)
async def get_self_audit(request: web.Request) -> web.Response:
    """Whether everything that should have fired did."""
    fields = query_fields(request)
    from_at, to_at = _FROM.of(fields), _TO.of(fields)
    raise_if_any(fields.problems)
    report = await request.app[SERVICES].self_audit.report(
        actor_of(request), from_at=from_at, to_at=to_at
    )
    return answer(report_view(report))


def report_view(report: SelfAuditReport) -> SelfAuditJson:
    return {
        "from": instant(report.from_at),
        "to": instant(report.to_at),
        "totals": {"hours": report.totals.hours, **_counts(report.totals)},
        "hours": [
            {
                "hour_at": instant(each.hour_at),
                **_counts(each),
                "audited_at": instant(each.audited_at),
            }
            for each in report.hours
        ],
        "differences": [_difference_view(each) for each in report.differences],
        "more_differences": report.more,
    }


def _counts(counted: AuditedHour | AuditTotals) -> CountsJson:
    return {
        "expected": counted.expected,
        "happened": counted.happened,
        "explained": dict(sorted(counted.explained.items())),
        "missing": counted.missing,
        "doubled": counted.doubled,
        "late": counted.late,
        "unexplained": counted.unexplained,
        "triggers": counted.triggers,
        "audited": counted.audited,
    }


def _difference_view(found: StoredDifference) -> DifferenceJson:
    return {
        "hour_at": instant(found.hour_at),
        "what": found.what,
        "at": instant(found.at),
        "trigger_id": found.trigger_id,
        "job_id": found.job_id,
        "job_name": found.job_name,
        "executor_id": found.executor_id,
        "found_at": instant(found.found_at),
        "closed_at": instant(found.closed_at),
        "seen_at": instant(found.seen_at),
        "seen_by": found.seen_by,
    }
