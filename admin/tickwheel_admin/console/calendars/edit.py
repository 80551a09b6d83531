"""The form of a new calendar and of an edited one, with days from files and a picture of a year."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from tickwheel_admin.console.calendars.form import (
    CalendarForm,
    calendar_form_as_sent,
    calendar_of_form,
    dialects,
    empty_calendar_form,
    form_of_calendar,
)
from tickwheel_admin.console.calendars.list import CALENDAR, calendar_id_of, picture_of
from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.frame.units import problems_at_fields, whole_number
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.input.calendar import parse_calendar
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.calendars.service import CalendarFormat, ImportedDays
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

SHOWN_DAYS = 60  # of an import, one by one

routes = Routes()


@routes.get("/calendars/new", permission=Permission.DEVELOP, on_all=True)
async def show_new(request: web.Request) -> web.Response:
    return await _form_page(request, empty_calendar_form())


@routes.post("/calendars/new", permission=Permission.DEVELOP, on_all=True)
async def create_calendar(request: web.Request) -> web.Response:
    sent = await read_form(request)
    form = calendar_form_as_sent(sent)
    if "do" in sent:
        return await _changed(request, form, sent["do"])
    try:
        raw = calendar_of_form(form)
        calendar_id = await request.app[SERVICES].calendars.create(actor_of(request), raw)
    except (InvalidInput, Conflict) as error:
        return await _form_page(request, form.refused(problems_at_fields(error)), error=error)
    response = go_to(request, f"/calendars/{calendar_id}")
    set_flash(response, "calendar.created")
    return response


@routes.get(f"{CALENDAR}/edit", permission=Permission.DEVELOP, on_all=True)
async def show_edit(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].calendars.get(actor_of(request), calendar_id_of(request))
    item = detail.item
    form = form_of_calendar(item.name, item.description, item.spec, version=item.version)
    return await _form_page(request, form)


@routes.post(f"{CALENDAR}/edit", permission=Permission.DEVELOP, on_all=True)
async def save_calendar(request: web.Request) -> web.Response:
    calendar_id = calendar_id_of(request)
    sent = await read_form(request)
    form = calendar_form_as_sent(sent)
    if "do" in sent:
        return await _changed(request, form, sent["do"])
    try:
        raw = calendar_of_form(form)
        version = whole_number(form["version"]) or 0
        await request.app[SERVICES].calendars.update(
            actor_of(request), calendar_id, raw, version=version
        )
    except (InvalidInput, Conflict) as error:
        return await _form_page(request, form.refused(problems_at_fields(error)), error=error)
    response = go_to(request, f"/calendars/{calendar_id}")
    set_flash(response, "calendar.saved")
    return response


@routes.post("/calendars/picture", permission=Permission.DEVELOP, on_all=True)
async def show_picture(request: web.Request) -> web.Response:
    """A year of the calendar that is being typed; nothing while it breaks a rule."""
    form = calendar_form_as_sent(await read_form(request))
    return await render(request, "calendars/year.html", await _picture(request, form))


async def _changed(request: web.Request, form: CalendarForm, action: str) -> web.Response:
    """The form again: with days of a file, another year, or a further row. Nothing is saved."""
    doing, _, value = action.partition(":")
    if doing == "year":
        return await _form_page(request, form.changed(year=value))
    if doing == "row":
        return await _form_page(request, form)  # which always ends with an empty row
    try:
        found = await _imported(request, form)
    except InvalidInput as error:
        problems = [
            Problem(field="import_text", code=p.code, template=p.template, params=p.params)
            for p in error.problems
        ]
        return await _form_page(request, form.refused(problems), error=error)
    if doing == "take":
        return await _form_page(request, form.with_days(found), taken=found)
    return await _form_page(request, form, found=found)


async def _imported(request: web.Request, form: CalendarForm) -> ImportedDays:
    """The days in what was pasted; raises InvalidInput."""
    text = form["import_text"]
    if not text.strip():
        raise InvalidInput.one("import_text", "required", "This is required.")
    is_ical = "BEGIN:VCALENDAR" in text[:2000].upper()
    return await request.app[SERVICES].calendars.import_preview(
        actor_of(request), text, format=CalendarFormat.ICAL if is_ical else CalendarFormat.CSV
    )


async def _form_page(
    request: web.Request,
    form: CalendarForm,
    *,
    error: InvalidInput | Conflict | None = None,
    found: ImportedDays | None = None,
    taken: ImportedDays | None = None,
) -> web.Response:
    calendar_id = request.match_info.get("calendar_id")
    names = await request.app[SERVICES].calendars.names(actor_of(request))
    return await render(
        request,
        "calendars/form.html",
        {
            "form": form,
            "calendar_id": int(calendar_id) if calendar_id else None,
            "bases": [name for name in names if name != form["name"]],
            "dialects": dialects(),
            "conflict": error if isinstance(error, Conflict) and not form.problems else None,
            "found": found,
            "new_days": _new_days(form, found),
            "taken": taken,
            **await _picture(request, form),
        },
        status=200 if error is None else error.status,
        block="form",
    )


def _new_days(form: CalendarForm, found: ImportedDays | None) -> dict[str, Any]:
    """What an import would add: its days with their names, and how many there are."""
    if found is None:
        return {"count": 0, "shown": [], "known": 0}
    dates, yearly = form.new_days(found)
    days: Sequence[str] = [*dates, *yearly]
    return {
        "count": len(days),
        "shown": [(day, found.names.get(day, "")) for day in days[:SHOWN_DAYS]],
        "known": len(found.dates) + len(found.yearly) - len(days),
    }


async def _picture(request: web.Request, form: CalendarForm) -> dict[str, Any]:
    try:
        raw = {**calendar_of_form(form), "name": form["name"].strip() or "-"}
        _name, _description, spec = parse_calendar(raw)
    except InvalidInput:
        return {"picture": None, "year_links": False}
    return {"picture": await picture_of(request, spec, form["year"]), "year_links": False}
