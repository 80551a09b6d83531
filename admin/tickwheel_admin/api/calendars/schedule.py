"""/api/v1/schedule: what schedules mean, before a job has them, and how full the next days are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant, instants
from tickwheel_admin.api.calendars.schedule_shapes import (
    ExplanationJson,
    HeatRowJson,
    ReasonJson,
    ScheduleInWordsJson,
    SchedulePreviewJson,
    SecondOpinionJson,
    UpcomingJson,
)
from tickwheel_admin.api.inputs import body_fields, query_fields
from tickwheel_admin.api.trigger_types import Trigger
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.triggers.service import (
    Disagreement,
    Heat,
    HeatRow,
    PreviewFire,
    Reason,
    SchedulePreview,
)
from tickwheel_admin.web.i18n import language_of, translate
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given, integer, optional_id, text
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_SCHEDULE = "/api/v1/schedule"
MAX_COUNT = 100
_TRIGGER = given("trigger", "A trigger, as a job has it.", Trigger, required=True)
_GIVEN_TRIGGER = given("trigger", "A trigger, as a job has it; this or `trigger_id`.", Trigger)
_TRIGGER_ID = optional_id("trigger_id", "A trigger that is saved.")
_DATE = text("date", "A date, such as `2027-01-31`.", max_chars=10, required=True)
_COUNT = integer("count", "Fires to tell.", low=1, high=MAX_COUNT, default=5)
_AFTER = instant_input("after", "Fires after this instant; now.")
_EXECUTOR = optional_id("executor_id", "Fires of this executor's jobs.")
_START = instant_input("start", "The begin; now.")
_DAYS = integer("days", "1 or 7.", low=1, high=7, default=1)
_ZONE = text("zone", "IANA name; `UTC`.", max_chars=100)


@routes.post(
    f"{_SCHEDULE}/preview",
    permission=Permission.LOGGED_IN,
    api=True,
    body=(_TRIGGER, _COUNT, _AFTER),
    answers=SchedulePreviewJson,
)
async def preview(request: web.Request) -> web.Response:
    """The trigger in words and its next fires. Changes nothing."""
    fields = await body_fields(request)
    count, after, trigger = _COUNT.of(fields), _AFTER.of(fields), _TRIGGER.of(fields)
    raise_if_any(fields.problems)
    found = await request.app[SERVICES].triggers.preview(
        trigger, n=count, after=after, translate=_translator(request)
    )
    return answer(_preview_view(found, language_of(request)))


@routes.post(
    f"{_SCHEDULE}/describe",
    permission=Permission.LOGGED_IN,
    api=True,
    body=(_TRIGGER,),
    answers=ScheduleInWordsJson,
)
async def describe(request: web.Request) -> web.Response:
    """The trigger in words. Changes nothing."""
    fields = await body_fields(request)
    trigger = _TRIGGER.of(fields)
    raise_if_any(fields.problems)
    found = request.app[SERVICES].triggers.describe(trigger, translate=_translator(request))
    return answer({"description": found.text, "details": list(found.details)})


@routes.post(
    f"{_SCHEDULE}/explain",
    permission=Permission.LOGGED_IN,
    api=True,
    body=(_GIVEN_TRIGGER, _TRIGGER_ID, _DATE),
    answers=ExplanationJson,
)
async def explain(request: web.Request) -> web.Response:
    """What a trigger does on a date, and why not. Changes nothing."""
    fields = await body_fields(request)
    date, trigger_id = _DATE.of(fields), _TRIGGER_ID.of(fields)
    if (trigger_id is None) == (not fields.has("trigger")):
        fields.refuse("trigger", "required", "Give either a trigger or the trigger_id of one.")
    raise_if_any(fields.problems)
    schedules = request.app[SERVICES].triggers
    if trigger_id is None:
        found = await schedules.explain(fields.raw["trigger"], date=date)
    else:
        found = await schedules.explain_trigger(actor_of(request), trigger_id, date=date)
    language = language_of(request)
    return answer(
        {
            "fires": instants(found.fires),
            "reasons": [_reason_view(reason, language) for reason in found.reasons],
        }
    )


@routes.get(
    f"{_SCHEDULE}/coming",
    permission=Permission.VIEW,
    api=True,
    query=(_EXECUTOR, _START, _DAYS, _ZONE),
    answers=UpcomingJson,
)
async def upcoming(request: web.Request) -> web.Response:
    """How many fires come, by cell, executor and job."""
    fields = query_fields(request)
    executor_id, start = _EXECUTOR.of(fields), _START.of(fields)
    days, zone = _DAYS.of(fields), _ZONE.of(fields) or "UTC"
    raise_if_any(fields.problems)
    heat = await request.app[SERVICES].triggers.upcoming(
        actor_of(request), executor_id, start=start, days=days, zone=zone
    )
    return answer(_heat_view(heat))


def _translator(request: web.Request) -> Callable[[str], str]:
    language = language_of(request)
    return lambda text: translate(text, {}, language)


def _preview_view(found: SchedulePreview, language: str) -> SchedulePreviewJson:
    return {
        "description": found.description,
        "details": list(found.details),
        "fires": instants(fire.at for fire in found.fires),
        "local_fires": [{"at": _local(fire), "mark": fire.mark} for fire in found.fires],
        "removed": [{"date": day.date, "calendar": day.calendar} for day in found.removed],
        "second_opinion": _disagreement_view(found.disagreement, language),
    }


def _local(fire: PreviewFire) -> str:
    """ISO 8601 with the offset of the trigger's zone."""
    zone = timezone(timedelta(minutes=fire.offset_minutes))
    moment = datetime.fromtimestamp(fire.at // 1000, UTC).astimezone(zone)
    moment = moment.replace(microsecond=fire.at % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds" if fire.at % 1000 else "seconds")


def _disagreement_view(found: Disagreement | None, language: str) -> SecondOpinionJson | None:
    """Wall times: clocks that change are left out of the comparison."""
    if found is None:
        return None

    def wall(at: int | None) -> str | None:
        return None if at is None else (instant(at) or "").removesuffix("Z")

    return {
        "message": translate(found.why, {}, language),
        "ours": wall(found.ours),
        "theirs": wall(found.theirs),
    }


def _reason_view(reason: Reason, language: str) -> ReasonJson:
    return {
        "code": reason.code,
        "message": translate(reason.template, reason.params, language),
    }


def _heat_view(heat: Heat) -> UpcomingJson:
    return {
        "start": instant(heat.start),
        "end": instant(heat.end),
        "zone": heat.zone,
        "cell_minutes": heat.cell_minutes,
        "cells": list(heat.cells),
        "total": heat.total,
        "executors": [_row_view(row) for row in heat.executors],
        "jobs": [
            {"job_id": row.job_id, "job_name": row.job_name, **_row_view(row)} for row in heat.jobs
        ],
        "busiest": [
            {
                "at": instant(minute.at),
                "count": minute.count,
                "jobs": [
                    {"job_id": job_id, "job_name": name, "count": count}
                    for job_id, name, count in minute.jobs
                ],
            }
            for minute in heat.busiest
        ],
        "approximate": heat.approximate,
        "truncated": heat.truncated,
        "all_paused": heat.all_paused,
    }


def _row_view(row: HeatRow) -> HeatRowJson:
    return {
        "executor_id": row.executor_id,
        "executor_name": row.executor_name,
        "count": row.count,
        "cells": list(row.cells),
    }
