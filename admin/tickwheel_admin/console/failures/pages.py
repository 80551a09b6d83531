"""Failure groups: the list, one group, and what people do about it."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.failures.group import MAX_NOTES_CHARS, MAX_OWNER_CHARS
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

PER_PAGE = 50
LIST = "/alarms/failures"
FAILURE = f"{LIST}/{{failure_id:[0-9]{{1,18}}}}"
MUTES = (3_600, 4 * 3_600, 86_400, 7 * 86_400)  # seconds to choose from

routes = Routes()


@routes.get(LIST, permission=Permission.VIEW)
async def list_failures(request: web.Request) -> web.Response:
    actor = actor_of(request)
    shows_all = request.query.get("state") == "all"
    executor_id = whole_number(request.query.get("executor"))
    page = await request.app[SERVICES].failures.page(
        actor,
        only_standing=not shows_all,
        executor_id=executor_id,
        cursor=request.query.get("cursor"),
        limit=PER_PAGE,
    )
    return await render(
        request,
        "failures/list.html",
        {
            "items": page.items,
            "next_cursor": page.next,
            "shows_all": shows_all,
            "executors": await request.app[SERVICES].executors.names(actor),
            "executor_id": executor_id,
        },
    )


@routes.get(FAILURE, permission=Permission.VIEW)
async def show_failure(request: web.Request) -> web.Response:
    return await _page(request)


@routes.get("/runs/{run_id:[0-9]{1,18}}/why", permission=Permission.VIEW)
async def explain_run(request: web.Request) -> web.Response:
    """A failed run held against the last good one; the page of the run has it as a part."""
    run_id = int(request.match_info["run_id"])
    found = await request.app[SERVICES].failures.why(actor_of(request), run_id)
    return await render(request, "failures/why.html", {"found": found, "run": found.failed.run})


@routes.post(f"{FAILURE}/acknowledge", permission=Permission.OPERATE)
async def acknowledge(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].failures.acknowledge(actor_of(request), _id_of(request))
    except Conflict as error:
        return await _page(request, error)
    return _done(request, "failure_group.acknowledged")


@routes.post(f"{FAILURE}/mute", permission=Permission.OPERATE)
async def mute(request: web.Request) -> web.Response:
    """Nothing typed means: alarms tell of it again."""
    form = await read_form(request)
    seconds = whole_number(form.get("seconds")) or None
    try:
        await request.app[SERVICES].failures.mute(
            actor_of(request), _id_of(request), seconds=seconds
        )
    except (Conflict, InvalidInput) as error:
        return await _page(request, error)
    return _done(request, "failure_group.muted" if seconds else "failure_group.unmuted")


@routes.post(f"{FAILURE}/resolve", permission=Permission.OPERATE)
async def resolve(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].failures.resolve(actor_of(request), _id_of(request))
    except Conflict as error:
        return await _page(request, error)
    return _done(request, "failure_group.resolved")


@routes.post(f"{FAILURE}/retry", permission=Permission.OPERATE)
async def retry(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].failures.retry(actor_of(request), _id_of(request))
    except Conflict as error:
        return await _page(request, error)
    return _done(request, "failure_group.retry_started")


@routes.post(f"{FAILURE}/retry/stop", permission=Permission.OPERATE)
async def stop_retry(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].failures.stop_retry(actor_of(request), _id_of(request))
    except Conflict as error:
        return await _page(request, error)
    return _done(request, "failure_group.retry_stopped")


@routes.post(f"{FAILURE}/notes", permission=Permission.OPERATE)
async def edit(request: web.Request) -> web.Response:
    form = await read_form(request)
    try:
        await request.app[SERVICES].failures.edit(
            actor_of(request),
            _id_of(request),
            owner=form.get("owner"),
            notes=form.get("notes", "").replace("\r\n", "\n"),
            version=whole_number(form.get("version")) or 0,
        )
    except (Conflict, InvalidInput) as error:
        return await _page(request, error, typed=form)
    return _done(request, "failure_group.edited")


def _id_of(request: web.Request) -> int:
    return int(request.match_info["failure_id"])


def _done(request: web.Request, code: str) -> web.Response:
    return done_or_back(request, f"{LIST}/{_id_of(request)}", code, topics=("alarms",))


async def _page(
    request: web.Request,
    error: Conflict | InvalidInput | None = None,
    *,
    typed: Mapping[str, str] | None = None,
) -> web.Response:
    detail = await request.app[SERVICES].failures.get(actor_of(request), _id_of(request))
    return await render(
        request,
        "failures/page.html",
        {
            "detail": detail,
            "item": detail.item,
            "error": error,
            "mutes": MUTES,
            # What was typed is not lost when somebody else was faster.
            "typed": typed,
            "max_owner_chars": MAX_OWNER_CHARS,
            "max_notes_chars": MAX_NOTES_CHARS,
        },
        status=200 if error is None else error.status,
        block=None if error is None else "failure",
    )
