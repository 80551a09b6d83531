"""The history of a job, any two revisions beside each other, and the way back to one."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.jobs.page import JOB, head_of
from tickwheel_admin.console.workflows.difference import difference_of_revisions
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotFound, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.history import Comparison
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

ROLL_BACK = f"{JOB}/history/{{revision:[0-9]{{1,9}}}}/roll-back"

routes = Routes()


@routes.get(f"{JOB}/history", permission=Permission.VIEW)
async def show_history(request: web.Request) -> web.Response:
    job_id = int(request.match_info["job_id"])
    head = await head_of(request, "history")
    page = await request.app[SERVICES].job_history.page(
        actor_of(request), job_id, cursor=request.query.get("cursor")
    )
    compared, problem = await _compared(request, job_id)
    set_locale(request)
    return await render(
        request,
        "jobs/history.html",
        {
            **head,
            "revisions": page.items,
            "next_cursor": page.next,
            "compared": compared,
            "difference": difference_of_revisions(*compared.workflows) if compared else None,
            "compare_problem": problem,
        },
    )


@routes.get(ROLL_BACK, permission=Permission.DEVELOP)
async def ask_roll_back(request: web.Request) -> web.Response:
    return await _roll_back_page(request)


@routes.post(ROLL_BACK, permission=Permission.DEVELOP)
async def roll_back(request: web.Request) -> web.Response:
    form = await read_form(request)
    job_id, revision = (int(request.match_info[name]) for name in ("job_id", "revision"))
    try:
        await request.app[SERVICES].job_history.roll_back(
            actor_of(request),
            job_id,
            revision,
            expected_revision=whole_number(form.get("expected")) or 0,
        )
    except InvalidInput as error:
        return await _roll_back_page(request, problems=error.problems, status=error.status)
    except Conflict as error:
        return await _roll_back_page(request, conflict=error, status=error.status)
    response = go_to(request, f"/jobs/{job_id}/history")
    set_flash(response, "job.rolled_back")
    return response


async def _compared(request: web.Request, job_id: int) -> tuple[Comparison | None, NotFound | None]:
    """The two revisions that the address names; values that mean nothing are left aside."""
    before = whole_number(request.query.get("from"))
    after = whole_number(request.query.get("to"))
    if not before or not after:
        return None, None
    try:
        compared = await request.app[SERVICES].job_history.compare(
            actor_of(request), job_id, before, after
        )
    except NotFound as error:
        if error.code != "job.revision_unknown":
            raise
        return None, error
    return compared, None


async def _roll_back_page(
    request: web.Request,
    *,
    problems: Sequence[Problem] = (),
    conflict: Conflict | None = None,
    status: int = 200,
) -> web.Response:
    head = await head_of(request, "history")
    revision = int(request.match_info["revision"])
    job = head["job"]
    compared = await request.app[SERVICES].job_history.compare(
        actor_of(request), job.id, job.revision, revision
    )
    set_locale(request)
    return await render(
        request,
        "jobs/roll_back.html",
        {
            **head,
            "revision": revision,
            "compared": compared,
            "problems": problems,
            "conflict": conflict,
        },
        status=status,
        block="dialog",
    )
