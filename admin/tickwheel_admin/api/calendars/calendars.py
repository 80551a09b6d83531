"""/api/v1/calendars"""

from __future__ import annotations

from typing import cast

from aiohttp import web

from tickwheel_admin.api.answers import NewVersionJson, PageJson, answer, instant, page_view
from tickwheel_admin.api.calendars.shapes import (
    CalendarChangeJson,
    CalendarConfigJson,
    CalendarDetailJson,
    CalendarJson,
    ImportedDaysJson,
)
from tickwheel_admin.api.inputs import (
    ID,
    PAGING,
    body_fields,
    page_of,
    path_id,
    query_fields,
    taken_id,
)
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.calendar import calendar_to_raw
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.calendars.service import (
    CalendarDetail,
    CalendarFormat,
    CalendarItem,
    ImportedDays,
)
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.i18n import language_of, translate
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given, member, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/calendars"
_TEXT = text("text", "A part of the name, in any case.", max_chars=1_000)
_FORMAT = member(
    "format", "Of the content.", CalendarFormat, default=CalendarFormat.CSV, required=True
)
_CONTENT = given("content", "The text of the file.", str, required=True)
_ONE = f"{_ALL}/{{calendar_id:{ID}}}"


@routes.get(
    _ALL,
    permission=Permission.LOGGED_IN,
    api=True,
    query=(_TEXT, *PAGING),
    answers=PageJson[CalendarJson],
)
async def list_calendars(request: web.Request) -> web.Response:
    """A page of calendars, by name."""
    fields = query_fields(request)
    found = _TEXT.of(fields)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].calendars.page(
        actor_of(request), text=found[:200], cursor=cursor, limit=limit
    )
    return answer(page_view(page, calendar_view))


@routes.post(
    _ALL,
    permission=Permission.DEVELOP,
    api=True,
    on_all=True,
    body=CalendarConfigJson,
    answers=NewVersionJson,
    status=201,
    conflicts=("calendar.name_taken",),
)
async def create_calendar(request: web.Request) -> web.Response:
    """Add a calendar."""
    calendars, actor = request.app[SERVICES].calendars, actor_of(request)
    calendar_id = await calendars.create(actor, await read_json(request))
    detail = await calendars.get(actor, calendar_id)
    new = {"id": calendar_id, "version": detail.item.version}
    return answer(new, status=201, location=f"{_ALL}/{calendar_id}")


@routes.get(_ONE, permission=Permission.LOGGED_IN, api=True, answers=CalendarDetailJson)
async def get_calendar(request: web.Request) -> web.Response:
    """One calendar, with what uses it."""
    calendar_id = path_id(request, "calendar_id")
    detail = await request.app[SERVICES].calendars.get(actor_of(request), calendar_id)
    return answer(calendar_detail_view(detail))


@routes.put(
    _ONE,
    permission=Permission.DEVELOP,
    api=True,
    on_all=True,
    body=CalendarChangeJson,
    answers=NewVersionJson,
    conflicts=("calendar.changed", "calendar.name_taken"),
)
async def update_calendar(request: web.Request) -> web.Response:
    """Replace what a calendar says."""
    calendar_id = path_id(request, "calendar_id")
    raw = await read_json(request)
    if "id" in raw and taken_id(raw, "id") != calendar_id:
        fields = Fields({}, "", [])
        fields.refuse("id", "id.differs", "This differs from the id in the address.")
        raise_if_any(fields.problems)
    version = taken_id(raw, "version")
    version = await request.app[SERVICES].calendars.update(
        actor_of(request), calendar_id, raw, version=version
    )
    return answer({"id": calendar_id, "version": version})


@routes.delete(
    _ONE,
    permission=Permission.DEVELOP,
    api=True,
    on_all=True,
    answers=NoContent,
    conflicts=(
        "calendar.in_use",
        "calendar.in_use_by_rules",
        "calendar.in_use_unseen",
        "calendar.is_base",
    ),
)
async def delete_calendar(request: web.Request) -> web.Response:
    """Delete a calendar that nothing uses."""
    await request.app[SERVICES].calendars.delete(actor_of(request), path_id(request, "calendar_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ALL}/import",
    permission=Permission.LOGGED_IN,
    api=True,
    body=(_FORMAT, _CONTENT),
    answers=ImportedDaysJson,
)
async def import_days(request: web.Request) -> web.Response:
    """The days in a file, for a calendar that is saved afterwards. Changes nothing."""
    fields = await body_fields(request)
    wanted = _FORMAT.of(fields)
    content = _CONTENT.of(fields)
    if content is not None and not isinstance(content, str):
        fields.refuse("content", "wrong_type", "This must be text.")
    raise_if_any(fields.problems)
    found = await request.app[SERVICES].calendars.import_preview(
        actor_of(request), str(content), format=wanted
    )
    return answer(_imported_view(found, language_of(request)))


def calendar_view(item: CalendarItem) -> CalendarJson:
    return {
        "id": item.id,
        "version": item.version,
        "changed_at": instant(item.changed_at),
        "created_at": instant(item.created_at),
        "used_by_triggers": item.triggers,
        "config": cast(
            "CalendarConfigJson", calendar_to_raw(item.name, item.description, item.spec)
        ),
    }


def calendar_detail_view(detail: CalendarDetail) -> CalendarDetailJson:
    return {
        **calendar_view(detail.item),
        "used_by": [
            {
                "job_id": user.job_id,
                "job_name": user.job_name,
                "executor_id": user.executor_id,
                "executor_name": user.executor_name,
                "triggers": user.triggers,
            }
            for user in detail.users
        ],
        "based_on_it": [{"id": id_, "name": name} for id_, name in detail.based_on_it],
    }


def _imported_view(found: ImportedDays, language: str) -> ImportedDaysJson:
    return {
        "dates": found.dates,
        "yearly": found.yearly,
        "names": found.names,
        "problems": [
            {
                "line": problem.line,
                "message": translate(problem.template, problem.params, language),
            }
            for problem in found.problems
        ],
        "more_problems": found.more_problems,
    }
