"""Asking what a change would bring: of a button that is pressed at once, or of a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from tickwheel_admin.console.calendars.form import calendar_form_as_sent, calendar_of_form
from tickwheel_admin.console.calendars.list import CALENDAR, calendar_id_of
from tickwheel_admin.console.forecast.answer import drawn
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import BLOCK_HEADER, is_scripted, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.job_form.drafts import JobDrafts
from tickwheel_admin.console.job_form.form import form_as_sent
from tickwheel_admin.domain.errors import InvalidInput, TooMany, Unavailable
from tickwheel_admin.domain.pools.pool import MAX_SLOTS as MAX_POOL_SLOTS
from tickwheel_admin.domain.pools.pool import SlotPool
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.forecast.proposed import MAX_SLOTS
from tickwheel_admin.services.services import Services
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.client import while_present
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

HOURS = (24, 72, 168)  # to choose from, the usual one first
ANSWER = "answer"  # the block that fetches itself

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuestion:
    """A change that somebody thinks of."""

    text: str
    change: Mapping[str, Any]  # as the API names it
    name: str  # of what it is about
    back: str  # address of it
    slots: int | None = None  # to choose, if it is about slots
    of_pool: SlotPool | None = None  # whose slots they are; None: a node's
    posts_to: str | None = None  # of a form: where it is sent to be asked about


@routes.get("/what-if", permission=Permission.VIEW)
async def ask(request: web.Request) -> web.Response:
    """The page, which fetches its answer; without a script, `now` asks for both at once."""
    set_locale(request)
    actor, services = actor_of(request), request.app[SERVICES]
    question = await _question(services, actor, request.query)
    hours = _hours(request.query.get("hours"))
    is_asked = question is not None and (
        request.headers.get(BLOCK_HEADER) == ANSWER or "now" in request.query
    )
    if question is None or not is_asked:
        return await _page(request, question, hours)
    return await _answered(request, actor, question, hours)


@routes.post("/jobs/{job_id:[0-9]{1,18}}/what-if", permission=Permission.DEVELOP)
async def ask_of_job(request: web.Request) -> web.Response:
    """What the form of a job would bring. Nothing is saved."""
    sent = await read_form(request)
    set_locale(request)
    actor, services = actor_of(request), request.app[SERVICES]
    job_id = int(request.match_info["job_id"])
    name = (await services.jobs.get(actor, job_id)).item.job.config.name
    problem: InvalidInput | None = None
    raw: Mapping[str, Any] = {}
    try:
        raw, noted = await JobDrafts(services, actor).draft_job(form_as_sent(sent))
        if noted:
            raise InvalidInput(noted)
    except InvalidInput as error:
        problem = error
    question = WhatIfQuestion(
        text=_("What if %(name)s is saved like this?") % {"name": name},
        change={"kind": "job", "job_id": job_id, "config": raw},
        name=name,
        back=f"/jobs/{job_id}/edit",
        posts_to=request.path,
    )
    return await _answered(request, actor, question, _hours(sent.get("what_if_hours")), problem)


@routes.post("/jobs/new/what-if", permission=Permission.DEVELOP)
async def ask_of_new_job(request: web.Request) -> web.Response:
    """What the form of a job that is not there yet would bring. Nothing is saved."""
    sent = await read_form(request)
    set_locale(request)
    actor, services = actor_of(request), request.app[SERVICES]
    form = form_as_sent(sent)
    executor_id = whole_number(form["executor_id"])
    problem: InvalidInput | None = None
    raw: Mapping[str, Any] = {}
    try:
        if executor_id is None:
            raise InvalidInput.one("executor_id", "required", "Choose an executor.")
        raw, noted = await JobDrafts(services, actor).draft_job(form)
        if noted:
            raise InvalidInput(noted)
    except InvalidInput as error:
        problem = error
    name = str(raw.get("name") or _("New job"))
    question = WhatIfQuestion(
        text=_("What if %(name)s is added?") % {"name": name},
        change={"kind": "new_job", "executor_id": executor_id, "config": raw},
        name=name,
        back="/jobs/new",
        posts_to=request.path,
    )
    return await _answered(request, actor, question, _hours(sent.get("what_if_hours")), problem)


@routes.post(f"{CALENDAR}/what-if", permission=Permission.DEVELOP, on_all=True)
async def ask_of_calendar(request: web.Request) -> web.Response:
    """What the form of a calendar would bring. Nothing is saved."""
    sent = await read_form(request)
    set_locale(request)
    actor, calendar_id = actor_of(request), calendar_id_of(request)
    name = (await request.app[SERVICES].calendars.get(actor, calendar_id)).item.name
    problem: InvalidInput | None = None
    raw: Mapping[str, Any] = {}
    try:
        # Another name changes no fire, and the triggers know it by its own.
        raw = {**calendar_of_form(calendar_form_as_sent(sent)), "name": name}
    except InvalidInput as error:
        problem = error
    question = WhatIfQuestion(
        text=_("What if %(name)s is saved like this?") % {"name": name},
        change={"kind": "calendar", "calendar": raw},
        name=name,
        back=f"/calendars/{calendar_id}/edit",
        posts_to=request.path,
    )
    return await _answered(request, actor, question, _hours(sent.get("what_if_hours")), problem)


async def _answered(
    request: web.Request,
    actor: Actor,
    question: WhatIfQuestion,
    hours: int,
    problem: InvalidInput | None = None,
) -> web.Response:
    """The answer, or why there is none; the work ends when its reader leaves."""
    refused: InvalidInput | TooMany | Unavailable | None = problem
    found = None
    if refused is None:
        try:
            asked = request.app[SERVICES].forecasts.what_if(actor, [question.change], hours=hours)
            found = await while_present(request, asked)
        except (InvalidInput, TooMany, Unavailable) as error:
            refused = error
    set_locale(request)
    more: dict[str, Any] = {"problems": [], "refused": refused}
    if isinstance(refused, InvalidInput):
        more["problems"] = [replace(each, field=_own_name(each.field)) for each in refused.problems]
    if found is not None:
        more |= drawn(found)
    # A refusal stands where the answer would: it is no error of the page.
    is_part = is_scripted(request) or BLOCK_HEADER in request.headers
    status = 200 if refused is None or is_part else refused.status
    return await _page(request, question, hours, status=status, found=found, **more)


async def _page(
    request: web.Request,
    question: WhatIfQuestion | None,
    hours: int,
    *,
    status: int = 200,
    **more: Any,
) -> web.Response:
    context: dict[str, Any] = {
        "question": question,
        "hours": hours,
        "all_hours": HOURS,
        "max_slots": MAX_POOL_SLOTS if question and question.of_pool else MAX_SLOTS,
        "found": None,
        "refused": None,
        "problems": [],
    }
    return await render(request, "forecast/page.html", context | more, status=status, block=ANSWER)


async def _question(
    services: Services, actor: Actor, query: Mapping[str, str]
) -> WhatIfQuestion | None:
    """What the address asks; None: nothing.

    Raises:
        NotFound: it is about something that is not there, or not to be seen.
    """
    change, found_id = query.get("change", ""), whole_number(query.get("of"))
    if found_id is None:
        return None
    match change:
        case "pause" | "resume":
            job = (await services.jobs.get(actor, found_id)).item.job
            return WhatIfQuestion(
                text=_paused_text(change, job.config.name),
                change={"kind": "job_pause", "job_id": found_id, "paused": change == "pause"},
                name=job.config.name,
                back=f"/jobs/{found_id}",
            )
        case "pause-executor" | "resume-executor":
            executor = (await services.executors.get(actor, found_id)).item
            doing = change.removesuffix("-executor")
            return WhatIfQuestion(
                text=_paused_text(doing, executor.name),
                change={
                    "kind": "executor_pause",
                    "executor_id": found_id,
                    "paused": doing == "pause",
                },
                name=executor.name,
                back=f"/executors/{found_id}",
            )
        case "drain" | "undrain" | "slots":
            node = (await services.nodes.get(actor, found_id)).node
            if change == "slots":
                asked = whole_number(query.get("slots")) or node.slots
                slots = min(max(asked, 1), MAX_SLOTS)
                return WhatIfQuestion(
                    text=_("What if %(name)s has other slots?") % {"name": node.name},
                    change={"kind": "node", "node_id": found_id, "slots": slots},
                    name=node.name,
                    back=f"/nodes/{found_id}",
                    slots=slots,
                )
            text = (
                _("What if %(name)s is drained?") % {"name": node.name}
                if change == "drain"
                else _paused_text("resume", node.name)
            )
            return WhatIfQuestion(
                text=text,
                change={"kind": "node", "node_id": found_id, "drain": change == "drain"},
                name=node.name,
                back=f"/nodes/{found_id}",
            )
        case "pool":
            pool = (await services.pools.get(actor, found_id)).item.pool
            typed = whole_number(query.get("slots"))
            slots = pool.slots if typed is None else min(max(typed, 0), MAX_POOL_SLOTS)
            return WhatIfQuestion(
                text=_("What if %(name)s has other slots?") % {"name": pool.name},
                change={"kind": "pool", "pool_id": found_id, "slots": slots},
                name=pool.name,
                back=f"/pools/{found_id}",
                slots=slots,
                of_pool=pool,
            )
    return None


def _paused_text(doing: str, name: str) -> str:
    if doing == "pause":
        return _("What if %(name)s is paused?") % {"name": name}
    return _("What if %(name)s is resumed?") % {"name": name}


def _hours(text: str | None) -> int:
    asked = whole_number(text)
    return asked if asked in HOURS else HOURS[0]


def _own_name(field: str) -> str:
    """The field of a form, without its place among the changes."""
    for part in ("changes[0].config.", "changes[0].calendar.", "changes[0]."):
        field = field.removeprefix(part)
    return field
