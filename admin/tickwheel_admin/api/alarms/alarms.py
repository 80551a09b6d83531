"""/api/v1/alarms: what is or was the matter, and what people do about it."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.alarms.shapes import AlarmDetailJson, AlarmJson
from tickwheel_admin.api.answers import PageJson, answer, instant, page_view
from tickwheel_admin.api.inputs import (
    ID,
    PAGING,
    body_fields,
    no_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.alarms.alarms import MAX_MUTE_S, AlarmDetail, AlarmItem
from tickwheel_admin.web.i18n import language_of, translate
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import (
    choice,
    optional_id,
    optional_integer,
    optional_member,
    text,
)
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/alarms"
_ONE = f"{_ALL}/{{alarm_id:{ID}}}"
_MAX_NAME_CHARS = 100
_STATE = choice("state", "Open alarms, or all.", of=("open", "all"), default="open")
_KIND = optional_member("kind", "Alarms of this kind.", AlarmKind)
_EXECUTOR = optional_id("executor_id", "Alarms about this executor.")
_JOB = optional_id("job_id", "Alarms about this job.")
_SECONDS = optional_integer("seconds", "Null: tell of it again.", low=1, high=MAX_MUTE_S)
_TO = text("to", "The name of a user; null: nobody.", max_chars=_MAX_NAME_CHARS)


@routes.get(
    _ALL,
    permission=Permission.VIEW,
    api=True,
    query=(_STATE, _KIND, _EXECUTOR, _JOB, *PAGING),
    answers=PageJson[AlarmJson],
)
async def list_alarms(request: web.Request) -> web.Response:
    """A page of alarms; those that happened last come first."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    state, kind = _STATE.of(fields), _KIND.of(fields)
    executor_id, job_id = _EXECUTOR.of(fields), _JOB.of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].alarms.page(
        actor_of(request),
        only_open=state == "open",
        executor_id=executor_id,
        job_id=job_id,
        kind=kind,
        cursor=cursor,
        limit=limit,
    )
    language = language_of(request)
    return answer(page_view(page, lambda item: alarm_view(item, language)))


@routes.get(_ONE, permission=Permission.VIEW, api=True, answers=AlarmDetailJson)
async def get_alarm(request: web.Request) -> web.Response:
    """One alarm, with the messages that told of it."""
    detail = await request.app[SERVICES].alarms.get(actor_of(request), path_id(request, "alarm_id"))
    return answer(_detail_view(detail, language_of(request)))


@routes.post(
    f"{_ONE}/acknowledge",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("alarm.acknowledged", "alarm.closed"),
)
async def acknowledge_alarm(request: web.Request) -> web.Response:
    """Look after an alarm."""
    await no_fields(request)
    await request.app[SERVICES].alarms.acknowledge(actor_of(request), path_id(request, "alarm_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/mute",
    permission=Permission.OPERATE,
    api=True,
    body=(_SECONDS,),
    answers=NoContent,
    conflicts=("alarm.closed",),
)
async def mute_alarm(request: web.Request) -> web.Response:
    """Tell nothing more of it for a while."""
    fields = await body_fields(request)
    fields.require("seconds") if "seconds" not in fields.raw else None
    seconds = _SECONDS.of(fields)
    raise_if_any(fields.problems)
    await request.app[SERVICES].alarms.mute(
        actor_of(request), path_id(request, "alarm_id"), seconds=seconds
    )
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/assign",
    permission=Permission.OPERATE,
    api=True,
    body=(_TO,),
    answers=NoContent,
    conflicts=("alarm.closed",),
)
async def assign_alarm(request: web.Request) -> web.Response:
    """Say who looks after it."""
    fields = await body_fields(request)
    fields.require("to") if "to" not in fields.raw else None
    to = _TO.of(fields) or None
    raise_if_any(fields.problems)
    await request.app[SERVICES].alarms.assign(
        actor_of(request), path_id(request, "alarm_id"), to=to
    )
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/close",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("alarm.closed",),
)
async def close_alarm(request: web.Request) -> web.Response:
    """End an alarm by hand."""
    await no_fields(request)
    await request.app[SERVICES].alarms.close(actor_of(request), path_id(request, "alarm_id"))
    return web.Response(status=204)


def alarm_view(item: AlarmItem, language: str) -> AlarmJson:
    alarm = item.alarm
    return {
        "id": alarm.id,
        "kind": alarm.kind,
        "severity": alarm.severity,
        "text": translate(alarm.told.template, alarm.told.params, language),
        "rule_id": alarm.rule_id,
        "rule_name": item.rule_name,
        "executor_id": alarm.executor_id,
        "executor_name": item.executor_name,
        "job_id": alarm.job_id,
        "job_name": item.job_name,
        "failure_group_id": alarm.failure_group_id,
        "run_id": alarm.run_id,
        "count": alarm.count,
        "since": instant(alarm.since),
        "last_at": instant(alarm.last_at),
        "acknowledged_at": instant(alarm.acknowledged_at),
        "acknowledged_by": alarm.acknowledged_by,
        "assigned_to": alarm.assigned_to,
        "muted_until": instant(alarm.muted_until),
        "escalated_at": instant(alarm.escalated_at),
        "closed_at": instant(alarm.closed_at),
        "closed_by": alarm.closed_by,
    }


def _detail_view(detail: AlarmDetail, language: str) -> AlarmDetailJson:
    return {
        **alarm_view(detail.item, language),
        "assignees": list(detail.assignees),
        "messages": [
            {
                "id": each.id,
                "channel_id": each.channel_id,
                "channel_name": detail.channel_names.get(each.channel_id),
                "state": each.state,
                "alarms": each.items,
                "written_at": instant(each.written_at),
                "ended_at": instant(each.ended_at),
                "error": each.error,
            }
            for each in detail.notifications
        ],
    }
