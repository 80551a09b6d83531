"""Alarms: the open ones, the history, one alarm, and what people do about it."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

PER_PAGE = 50
ALARM = "/alarms/{alarm_id:[0-9]{1,18}}"
MUTES = (3_600, 4 * 3_600, 86_400, 7 * 86_400)  # seconds to choose from

routes = Routes()


@routes.get("/alarms", permission=Permission.VIEW)
async def list_alarms(request: web.Request) -> web.Response:
    actor = actor_of(request)
    shows_all = request.query.get("state") == "all"
    kind = request.query.get("kind", "")
    page = await request.app[SERVICES].alarms.page(
        actor,
        only_open=not shows_all,
        executor_id=whole_number(request.query.get("executor")),
        job_id=whole_number(request.query.get("job")),
        kind=AlarmKind(kind) if kind in set(AlarmKind) else None,
        cursor=request.query.get("cursor"),
        limit=PER_PAGE,
    )
    return await render(
        request,
        "alarms/list.html",
        {
            "items": page.items,
            "next_cursor": page.next,
            "shows_all": shows_all,
            "kind": kind,
            "executors": await request.app[SERVICES].executors.names(actor),
            "executor_id": whole_number(request.query.get("executor")),
        },
    )


@routes.get("/alarms/bell", permission=Permission.VIEW)
async def show_bell(request: web.Request) -> web.Response:
    """The bell in the head of every page, with the number of open alarms."""
    count = await request.app[SERVICES].alarms.count_open(actor_of(request))
    return await render(request, "alarms/bell.html", {"open_alarms": count}, block="bell")


@routes.get(ALARM, permission=Permission.VIEW)
async def show_alarm(request: web.Request) -> web.Response:
    return await _page(request)


@routes.post(f"{ALARM}/acknowledge", permission=Permission.OPERATE)
async def acknowledge(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].alarms.acknowledge(actor_of(request), alarm_id_of(request))
    except Conflict as error:
        return await _page(request, error)
    return _done(request, "alarm.acknowledged")


@routes.post(f"{ALARM}/mute", permission=Permission.OPERATE)
async def mute(request: web.Request) -> web.Response:
    """Nothing typed means: tell of it again."""
    form = await read_form(request)
    seconds = whole_number(form.get("seconds")) or None
    try:
        await request.app[SERVICES].alarms.mute(
            actor_of(request), alarm_id_of(request), seconds=seconds
        )
    except (Conflict, InvalidInput) as error:
        return await _page(request, error)
    return _done(request, "alarm.muted" if seconds else "alarm.unmuted")


@routes.post(f"{ALARM}/assign", permission=Permission.OPERATE)
async def assign(request: web.Request) -> web.Response:
    form = await read_form(request)
    try:
        await request.app[SERVICES].alarms.assign(
            actor_of(request), alarm_id_of(request), to=form.get("to", "").strip() or None
        )
    except (Conflict, InvalidInput) as error:
        return await _page(request, error)
    return _done(request, "alarm.assigned")


@routes.post(f"{ALARM}/close", permission=Permission.OPERATE)
async def close(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].alarms.close(actor_of(request), alarm_id_of(request))
    except Conflict as error:
        return await _page(request, error)
    return _done(request, "alarm.closed")


def alarm_id_of(request: web.Request) -> int:
    """From the path."""
    return int(request.match_info["alarm_id"])


def _done(request: web.Request, code: str) -> web.Response:
    address = f"/alarms/{alarm_id_of(request)}"
    return done_or_back(request, address, code, topics=("alarms",))


async def _page(request: web.Request, error: Conflict | InvalidInput | None = None) -> web.Response:
    detail = await request.app[SERVICES].alarms.get(actor_of(request), alarm_id_of(request))
    return await render(
        request,
        "alarms/page.html",
        {"detail": detail, "item": detail.item, "error": error, "mutes": MUTES},
        status=200 if error is None else error.status,
        block=None if error is None else "alarm",
    )
