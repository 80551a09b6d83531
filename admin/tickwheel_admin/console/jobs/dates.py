"""Whether a job fires on a date, and the rules that keep its triggers from it."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from tickwheel_admin.console.frame.formatting import local_date
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.triggers.fire_lines import times_of_day
from tickwheel_admin.domain.errors import InvalidInput, NotFound, Problem
from tickwheel_admin.domain.triggers.trigger import Trigger
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.triggers.service import Explanation
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

SHOWN_TIMES = 8

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerOnDate:
    """What one trigger does on the date."""

    trigger: Trigger
    found: Explanation | None  # None: it cannot be told
    problem: Problem | None
    times: tuple[str, ...]  # of its first fires, on the clocks of its zone
    more: int  # further fires


@routes.get("/jobs/{job_id:[0-9]{1,18}}/dates", permission=Permission.VIEW)
async def explain_date(request: web.Request) -> web.Response:
    actor, services = actor_of(request), request.app[SERVICES]
    detail = await services.jobs.get(actor, int(request.match_info["job_id"]))
    locale = set_locale(request)
    date = request.query.get("date", "").strip()[:20]
    rows = [await _on_date(request, each, date) for each in detail.item.triggers] if date else []
    set_locale(request)
    return await render(
        request,
        "jobs/dates.html",
        {
            "job": detail.item.job,
            "parents": await services.job_parents.of(actor, detail.item.job.id),
            "rows": rows,
            "date": date or local_date(locale.now_at, locale.timezone),
            "asked": bool(date),
        },
    )


async def _on_date(request: web.Request, trigger: Trigger, date: str) -> TriggerOnDate:
    found, problem = None, None
    try:
        found = await request.app[SERVICES].triggers.explain_trigger(
            actor_of(request), trigger.id, date=date
        )
    except InvalidInput as error:
        problem = error.problems[0]
    except NotFound as error:  # it was replaced since
        problem = Problem(field="", code=error.code, template=error.template, params=error.params)
    fires = found.fires if found else ()
    return TriggerOnDate(
        trigger=trigger,
        found=found,
        problem=problem,
        times=times_of_day(trigger.spec, fires[:SHOWN_TIMES]),
        more=len(fires[SHOWN_TIMES:]),
    )
