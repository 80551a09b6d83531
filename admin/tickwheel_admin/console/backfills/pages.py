"""Backfills: those of a job, a new one with its preview, one with its progress, stopping it."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.backfills.form import FIELDS, BackfillForm, read_form_of
from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import done_or_back, go_to, new_request_key, render
from tickwheel_admin.console.jobs.page import head_of
from tickwheel_admin.domain.backfills.backfill import FillOutcome
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.backfills.requests import no_instant
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

OF_JOB = "/jobs/{job_id:[0-9]{1,18}}/backfills"
BACKFILL = "/backfills/{backfill_id:[0-9]{1,18}}"
PER_PAGE = 50

routes = Routes()


@routes.get(OF_JOB, permission=Permission.VIEW)
async def list_of_job(request: web.Request) -> web.Response:
    page = await request.app[SERVICES].backfills.page(
        actor_of(request),
        job_id=_job_id(request),
        cursor=request.query.get("cursor"),
        limit=PER_PAGE,
    )
    head = await head_of(request, "backfills")
    set_locale(request)
    return await render(
        request,
        "backfills/of_job.html",
        {**head, "items": page.items, "next_cursor": page.next},
    )


@routes.get(f"{OF_JOB}/new", permission=Permission.OPERATE)
async def ask_backfill(request: web.Request) -> web.Response:
    values = FIELDS | {name: request.query[name] for name in FIELDS if name in request.query}
    zone = set_locale(request).timezone
    return await _form(request, read_form_of(values, zone=zone, is_sent=False))


@routes.post(OF_JOB, permission=Permission.OPERATE)
async def start_backfill(request: web.Request) -> web.Response:
    sent = await read_form(request)
    values = {name: sent.get(name, default) for name, default in FIELDS.items()}
    form = read_form_of(values, zone=set_locale(request).timezone, is_sent=True)
    if form.wish is None:
        return await _form(request, form)
    try:
        backfill_id = await request.app[SERVICES].backfills.create(
            actor_of(request),
            _job_id(request),
            form.wish,
            request_key=sent.get("request_key") or None,
        )
    except InvalidInput as error:
        return await _form(request, form.refused(error))
    except Conflict as error:
        return await _form(request, form, conflict=error)
    response = go_to(request, f"/backfills/{backfill_id}")
    set_flash(response, "backfill.created")
    return response


@routes.get(BACKFILL, permission=Permission.VIEW)
async def show_backfill(request: web.Request) -> web.Response:
    actor = actor_of(request)
    item = await request.app[SERVICES].backfills.get(actor, _id(request))
    asked = request.query.get("outcome", "")
    outcome = FillOutcome(asked) if asked in set(FillOutcome) else FillOutcome.OPEN
    page = await request.app[SERVICES].backfills.instants(
        actor,
        _id(request),
        outcome=outcome,
        cursor=request.query.get("cursor"),
        limit=PER_PAGE,
    )
    return await render(
        request,
        "backfills/page.html",
        {
            "item": item,
            "backfill": item.backfill,
            "instants": page.items,
            "outcome": outcome,
            "next_cursor": page.next,
        },
    )


@routes.post(f"{BACKFILL}/pause", permission=Permission.OPERATE)
async def pause_backfill(request: web.Request) -> web.Response:
    await request.app[SERVICES].backfills.pause(actor_of(request), _id(request))
    return _switched(request, "backfill.paused")


@routes.post(f"{BACKFILL}/resume", permission=Permission.OPERATE)
async def resume_backfill(request: web.Request) -> web.Response:
    await request.app[SERVICES].backfills.resume(actor_of(request), _id(request))
    return _switched(request, "backfill.resumed")


@routes.get(f"{BACKFILL}/cancel", permission=Permission.OPERATE)
async def ask_cancel(request: web.Request) -> web.Response:
    return await _cancel_form(request)


@routes.post(f"{BACKFILL}/cancel", permission=Permission.OPERATE)
async def cancel_backfill(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].backfills.cancel(actor_of(request), _id(request))
    except Conflict as error:
        return await _cancel_form(request, error=error)
    response = go_to(request, f"/backfills/{_id(request)}")
    set_flash(response, "backfill.cancelled")
    return response


async def _cancel_form(request: web.Request, *, error: Conflict | None = None) -> web.Response:
    item = await request.app[SERVICES].backfills.get(actor_of(request), _id(request))
    return await render(
        request,
        "backfills/cancel.html",
        {"item": item, "backfill": item.backfill, "error": error},
        status=200 if error is None else error.status,
        block="dialog",
    )


async def _form(
    request: web.Request, form: BackfillForm, *, conflict: Conflict | None = None
) -> web.Response:
    """The form as it is filled in, with what it would do."""
    actor = actor_of(request)
    detail = await request.app[SERVICES].jobs.get(actor, _job_id(request))
    preview = None
    if form.wish is not None:
        try:
            preview = await request.app[SERVICES].backfills.preview(
                actor, _job_id(request), form.wish
            )
            if preview.total == 0:
                form = form.refused(no_instant(preview))
        except InvalidInput as error:
            form = form.refused(error)
    zone = set_locale(request).timezone
    is_refused = bool(form.problems) and request.method == "POST"
    status = 422 if is_refused else 200 if conflict is None else conflict.status
    return await render(
        request,
        "backfills/new.html",
        {
            "job": detail.item.job,
            "triggers": [each for each in detail.item.triggers if not each.spec.follows_runs],
            "form": form,
            "preview": preview,
            "conflict": conflict,
            "zone": zone,
            "request_key": new_request_key(),
        },
        status=status,
        block="content",
    )


def _switched(request: web.Request, code: str) -> web.Response:
    return done_or_back(request, f"/backfills/{_id(request)}", code, topics=("runs",))


def _job_id(request: web.Request) -> int:
    return int(request.match_info["job_id"])


def _id(request: web.Request) -> int:
    return int(request.match_info["backfill_id"])
