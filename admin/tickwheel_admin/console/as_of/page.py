"""The console as it was at a past instant, with a slider."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.local_time import instant_of, local_text, local_zone
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.domain.as_of.runs import StandingThen
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.as_of.service import DAY_MS, MAX_DAYS, PastPicture
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
USUAL_BACK_MS = HOUR_MS
SLIDER_MS = 12 * HOUR_MS  # to each side of the instant
STEPS_MS = (-HOUR_MS, -10 * MINUTE_MS, 10 * MINUTE_MS, HOUR_MS)  # by links, also without scripts
SHOWN_STANDINGS = tuple(reversed(StandingThen))

routes = Routes()


@routes.get("/as-of", permission=Permission.VIEW)
async def show_past(request: web.Request) -> web.Response:
    set_locale(request)  # times are those of the reader's zone
    actor, query, services = actor_of(request), request.query, request.app[SERVICES]
    executors = await services.executors.names(actor)
    executor_id = next((e.id for e in executors if str(e.id) == query.get("executor")), None)
    job_id = whole_number(query.get("job"))
    now = await services.time_machine.now()
    at = whole_number(query.get("at"))
    if at is None:
        at = instant_of(query.get("time", ""))
    if at is None:
        at = now - USUAL_BACK_MS
    picture: PastPicture | None = None
    problem: Problem | None = None
    try:
        picture = await services.time_machine.picture(
            actor, at=at, executor_id=executor_id, job_id=job_id
        )
    except InvalidInput as error:
        problem = error.problems[0]
    set_locale(request)
    return await render(
        request,
        "as_of/page.html",
        {
            "at": at,
            "picture": picture,
            "problem": problem,
            "executors": executors,
            "executor_id": executor_id,
            "job_id": job_id,
            "time_local": local_text(at - at % MINUTE_MS),
            "standings": SHOWN_STANDINGS,
            **_places(at, now),
        },
    )


def _places(at: int, now: int) -> dict[str, Any]:
    """Where the slider and the links lead."""
    first = now - MAX_DAYS * DAY_MS + HOUR_MS  # an hour, so that a page can be read for a while
    low, high = max(at - SLIDER_MS, first), min(at + SLIDER_MS, now)
    return {
        "slider": {
            "low": low,
            "minutes": max(0, high - low) // MINUTE_MS,
            "value": max(0, at - low) // MINUTE_MS,
        },
        "steps": [(at + step, step) for step in STEPS_MS if first <= at + step <= now],
        "presets": [(now - back, back) for back in (HOUR_MS, 6 * HOUR_MS)],
        "night_at": _last_night(now),
    }


def _last_night(now: int) -> int:
    """The last time that the reader's clocks showed three."""
    zone = local_zone()
    local = datetime.fromtimestamp(now / 1000, zone)
    shown = local.replace(hour=3, minute=0, second=0, microsecond=0)
    if shown > local:
        shown = (shown.replace(tzinfo=None) - timedelta(days=1)).replace(tzinfo=zone)
    return round(shown.timestamp() * 1000)
