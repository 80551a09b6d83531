"""The calendar of what comes: how many fires in which hour, of whom, and the fullest minutes."""

from __future__ import annotations

from datetime import date, timedelta

from aiohttp import web

from tickwheel_admin.console.calendars.heat_map import clock_table, midnight_of, row_table
from tickwheel_admin.console.frame.formatting import local_date
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.domain.schedule.wall_clock import MAX_YEAR
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

SHOWN_EXECUTORS = 12
SHOWN_JOBS = 15
DAYS = {"day": 1, "week": 7}

routes = Routes()


@routes.get("/calendar", permission=Permission.VIEW)
async def show_calendar(request: web.Request) -> web.Response:
    actor = actor_of(request)
    executors = await request.app[SERVICES].executors.names(actor)
    locale = set_locale(request)
    # Values that mean nothing are left aside: a bookmark may be older than what it filters by.
    asked = request.query.get("executor", "")
    executor_id = next((e.id for e in executors if str(e.id) == asked), None)
    view = request.query.get("view", "week")
    days = DAYS.get(view, 7)
    frequent = request.query.get("frequent") == "1"
    today = date.fromisoformat(local_date(locale.now_at, locale.timezone))
    first = max(_date(request.query.get("from", "")) or today, today)
    heat = await request.app[SERVICES].triggers.upcoming(
        actor,
        executor_id,
        start=midnight_of(first),
        days=days,
        zone=locale.timezone,
        frequent=frequent,
    )
    set_locale(request)
    return await render(
        request,
        "calendars/month.html",
        {
            "heat": heat,
            "view": "day" if days == 1 else "week",
            "executors": executors,
            "executor_id": executor_id,
            "clock": clock_table(heat, executor_id=executor_id),
            "frequent": frequent,
            "by_executor": row_table(heat, heat.executors, limit=SHOWN_EXECUTORS),
            "by_job": row_table(heat, heat.jobs, limit=SHOWN_JOBS),
            "first": first,
            "today": today,
            "earlier": max(first - timedelta(days=days), today) if first > today else None,
            "later": first + timedelta(days=days) if first.year < MAX_YEAR else None,
        },
    )


def _date(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if found.year <= MAX_YEAR else None
