"""Calendars of holidays and workdays: the list, the page of one, and removing one."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.calendars.year import YearPicture, year_picture
from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.formatting import local_date
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, set_locale
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

CALENDAR = "/calendars/{calendar_id:[0-9]{1,18}}"
MAX_BASES = 10

routes = Routes()


@routes.get("/calendars", permission=Permission.VIEW)
async def list_calendars(request: web.Request) -> web.Response:
    text = request.query.get("q", "").strip()[:200]
    page = await request.app[SERVICES].calendars.page(
        actor_of(request), text=text, cursor=request.query.get("cursor")
    )
    return await render(
        request,
        "calendars/list.html",
        {"calendars": page.items, "next_cursor": page.next, "text": text},
    )


@routes.get(CALENDAR, permission=Permission.VIEW)
async def show_calendar(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].calendars.get(actor_of(request), calendar_id_of(request))
    picture = await picture_of(request, detail.item.spec, request.query.get("year", ""))
    return await render(
        request,
        "calendars/page.html",
        {"detail": detail, "calendar": detail.item, "spec": detail.item.spec, "picture": picture},
    )


@routes.get(f"{CALENDAR}/delete", permission=Permission.DEVELOP, on_all=True)
async def ask_delete(request: web.Request) -> web.Response:
    return await _delete_form(request)


@routes.post(f"{CALENDAR}/delete", permission=Permission.DEVELOP, on_all=True)
async def delete_calendar(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].calendars.delete(actor_of(request), calendar_id_of(request))
    except Conflict as error:
        return await _delete_form(request, error=error)
    response = go_to(request, "/calendars")
    set_flash(response, "calendar.deleted")
    return response


async def _delete_form(request: web.Request, *, error: Conflict | None = None) -> web.Response:
    detail = await request.app[SERVICES].calendars.get(actor_of(request), calendar_id_of(request))
    return await render(
        request,
        "calendars/delete.html",
        {"calendar": detail.item, "error": error},
        status=200 if error is None else error.status,
        block="dialog",
    )


async def picture_of(request: web.Request, spec: CalendarSpec, year: str) -> YearPicture | None:
    """The picture of a year, this one when none was asked for."""
    locale = set_locale(request)
    this_year = int(local_date(locale.now_at, locale.timezone)[:4])
    asked = int(year) if year.isascii() and year.isdecimal() and len(year) == 4 else this_year
    bases: list[tuple[str, CalendarSpec]] = []
    name = spec.base
    while name is not None and len(bases) < MAX_BASES:
        found = await _calendar_named(request, name)
        if found is None or name in dict(bases):
            break
        bases.append((name, found))
        name = found.base
    REQUEST_LOCALE.set(locale)
    return year_picture(spec, bases, asked)


async def _calendar_named(request: web.Request, name: str) -> CalendarSpec | None:
    page = await request.app[SERVICES].calendars.page(actor_of(request), text=name, limit=200)
    return next((item.spec for item in page.items if item.name == name), None)


def calendar_id_of(request: web.Request) -> int:
    """From the address."""
    return int(request.match_info["calendar_id"])
