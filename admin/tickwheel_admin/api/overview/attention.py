"""/api/v1/attention: what somebody should look at."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.api.overview.shapes import AlarmOfConcernJson, AttentionJson, ConcernJson
from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.overview.attention.service import Concern
from tickwheel_admin.web.i18n import language_of, translate
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get("/api/v1/attention", permission=Permission.VIEW, api=True, answers=AttentionJson)
async def list_concerns(request: web.Request) -> web.Response:
    """What needs attention, within your roles."""
    looked = await request.app[SERVICES].attention.look(actor_of(request))
    language = language_of(request)
    return answer(
        {
            "items": [_concern_view(each, language) for each in looked.concerns],
            "looked_at": instant(looked.at),
            "runs_since": instant(looked.since),
            "succeeded": looked.succeeded,
            "failed": looked.failed,
            "open_alarms": looked.open_alarms,
        }
    )


def _concern_view(concern: Concern, language: str) -> ConcernJson:
    why = concern.why
    return {
        "kind": concern.kind,
        "severity": concern.severity,
        "message": translate(concern.template, concern.params, language),
        "since": instant(concern.since),
        "last_at": instant(concern.last_at),
        "executor_id": concern.executor_id,
        "executor_name": concern.executor_name,
        "job_id": concern.job_id,
        "job_name": concern.job_name,
        "run_id": concern.run_id,
        "trigger_id": concern.trigger_id,
        "admin_id": concern.admin_id,
        "admin_name": concern.admin_name,
        "failure_group_id": None if concern.failure is None else concern.failure.id,
        "alarm": None if concern.alarm is None else _alarm_view(concern.alarm),
        "alarms": concern.alarms,
        "waiting_for": None if why is None else why.code,
        "why": None if why is None else translate(why.template, why.params, language),
    }


def _alarm_view(alarm: Alarm) -> AlarmOfConcernJson:
    return {
        "id": alarm.id,
        "kind": alarm.kind,
        "since": instant(alarm.since),
        "acknowledged_at": instant(alarm.acknowledged_at),
        "acknowledged_by": alarm.acknowledged_by,
        "assigned_to": alarm.assigned_to,
        "muted_until": instant(alarm.muted_until),
    }
