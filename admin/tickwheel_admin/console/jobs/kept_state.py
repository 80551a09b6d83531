"""What a job keeps from run to run: edited or cleared by people."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

STATE = "/jobs/{job_id:[0-9]{1,18}}/state"

routes = Routes()


@routes.get(STATE, permission=Permission.DEVELOP)
async def ask_state(request: web.Request) -> web.Response:
    return await _form(request)


@routes.post(STATE, permission=Permission.DEVELOP)
async def set_state(request: web.Request) -> web.Response:
    """Refused when a run, or somebody else, wrote another state since the form was opened."""
    form = await read_form(request)
    typed = form.get("state", "")
    try:
        await request.app[SERVICES].job_states.set(
            actor_of(request),
            _job_id(request),
            typed.strip() or "{}",
            seen_at=whole_number(form.get("seen_at")),
        )
    except (Conflict, InvalidInput) as error:
        return await _form(request, typed=typed, seen_at=form.get("seen_at"), error=error)
    return _done(request, "job.state_set")


@routes.get(f"{STATE}/clear", permission=Permission.DEVELOP)
async def ask_clear(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].jobs.get(actor_of(request), _job_id(request))
    return await render(request, "jobs/kept_state_clear.html", {"job": detail.item.job})


@routes.post(f"{STATE}/clear", permission=Permission.DEVELOP)
async def clear_state(request: web.Request) -> web.Response:
    await request.app[SERVICES].job_states.clear(actor_of(request), _job_id(request))
    return _done(request, "job.state_cleared")


async def _form(
    request: web.Request,
    *,
    typed: str | None = None,
    seen_at: str | None = None,
    error: Conflict | InvalidInput | None = None,
) -> web.Response:
    actor, job_id = actor_of(request), _job_id(request)
    detail = await request.app[SERVICES].jobs.get(actor, job_id)
    kept = await request.app[SERVICES].job_states.get(actor, job_id)
    return await render(
        request,
        "jobs/kept_state_edit.html",
        {
            "job": detail.item.job,
            "kept": kept,
            "typed": typed,
            "seen_at": kept.updated_at or "" if typed is None else seen_at or "",
            "conflict": error if isinstance(error, Conflict) else None,
            "problem": error.problems[0] if isinstance(error, InvalidInput) else None,
        },
        status=200 if error is None else error.status,
        block="dialog",
    )


def _done(request: web.Request, code: str) -> web.Response:
    response = go_to(request, f"/jobs/{_job_id(request)}")
    set_flash(response, code)
    return response


def _job_id(request: web.Request) -> int:
    return int(request.match_info["job_id"])
