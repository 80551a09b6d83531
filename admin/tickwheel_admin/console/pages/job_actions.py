"""What can be done with a job besides editing it: pause, resume, run now, delete."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.flash import set_flash
from tickwheel_admin.console.i18n import gettext as _
from tickwheel_admin.console.reader import set_reader
from tickwheel_admin.console.rendering import (
    done_in_place,
    done_or_back,
    go_to,
    is_scripted,
    new_request_key,
    render,
)
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.job_input import parse_parameters
from tickwheel_admin.domain.run import Origin
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import JOBS
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

JOB = "/jobs/{job_id:[0-9]{1,18}}"
TRIGGER = f"{JOB}/triggers/{{trigger_id:[0-9]{{1,18}}}}"

routes = Routes()


@routes.post(f"{JOB}/pause", permission=Permission.OPERATE)
async def pause_job(request: web.Request) -> web.Response:
    await request.app[JOBS].pause(actor_of(request), _job_id(request))
    return await _switched(request, "job.paused")


@routes.post(f"{JOB}/resume", permission=Permission.OPERATE)
async def resume_job(request: web.Request) -> web.Response:
    await request.app[JOBS].resume(actor_of(request), _job_id(request))
    return await _switched(request, "job.resumed")


@routes.post(f"{TRIGGER}/pause", permission=Permission.OPERATE)
async def pause_trigger(request: web.Request) -> web.Response:
    await request.app[JOBS].pause_trigger(actor_of(request), _job_id(request), _trigger_id(request))
    return _trigger_switched(request, "trigger.paused")


@routes.post(f"{TRIGGER}/resume", permission=Permission.OPERATE)
async def resume_trigger(request: web.Request) -> web.Response:
    await request.app[JOBS].resume_trigger(
        actor_of(request), _job_id(request), _trigger_id(request)
    )
    return _trigger_switched(request, "trigger.resumed")


@routes.get(f"{JOB}/run", permission=Permission.OPERATE)
async def ask_parameters(request: web.Request) -> web.Response:
    detail = await request.app[JOBS].get(actor_of(request), _job_id(request))
    return await _run_form(request, parameters=detail.item.job.config.parameters, problem=None)


@routes.post(f"{JOB}/run", permission=Permission.OPERATE)
async def run_now(request: web.Request) -> web.Response:
    form = await read_form(request)
    typed = form.get("parameters")
    try:
        parameters = await _own_parameters(request, typed)
        run_id = await request.app[JOBS].run_now(
            actor_of(request),
            _job_id(request),
            parameters=parameters,
            request_key=form.get("request_key") or None,
            origin=Origin.MANUAL,
        )
    except InvalidInput as error:
        if typed is None:
            raise
        return await _run_form(
            request,
            parameters=typed,
            problem=error.problems[0],
            request_key=form.get("request_key"),
            status=422,
        )
    if typed is None and is_scripted(request):
        set_reader(request)
        return done_in_place(
            _("Run #%(id)s was added.") % {"id": run_id},
            href=f"/runs/{run_id}",
            link=_("Open it"),
            topics=("runs",),
        )
    response = go_to(request, f"/runs/{run_id}")
    set_flash(response, "run.requested")
    return response


@routes.get(f"{JOB}/delete", permission=Permission.DEVELOP)
async def ask_delete(request: web.Request) -> web.Response:
    detail = await request.app[JOBS].get(actor_of(request), _job_id(request))
    return await render(request, "job_delete.html", {"job": detail.item.job})


@routes.post(f"{JOB}/delete", permission=Permission.DEVELOP)
async def delete_job(request: web.Request) -> web.Response:
    await request.app[JOBS].delete(actor_of(request), _job_id(request))
    response = go_to(request, "/jobs")
    set_flash(response, "job.deleted")
    return response


async def _switched(request: web.Request, code: str) -> web.Response:
    form = await read_form(request)
    address = safe_next(form.get("back"), default="/jobs")
    return done_or_back(request, address, code, topics=("jobs", "stats"))


def _trigger_switched(request: web.Request, code: str) -> web.Response:
    return done_or_back(request, f"/jobs/{_job_id(request)}", code, topics=("jobs", "stats"))


async def _own_parameters(request: web.Request, typed: str | None) -> str | None:
    """What was typed, or None when it is what the job has anyway."""
    if typed is None:
        return None
    parameters = parse_parameters(typed.strip() or "{}")
    detail = await request.app[JOBS].get(actor_of(request), _job_id(request))
    return None if parameters == detail.item.job.config.parameters else parameters


async def _run_form(
    request: web.Request,
    *,
    parameters: str,
    problem: Problem | None,
    request_key: str | None = None,
    status: int = 200,
) -> web.Response:
    detail = await request.app[JOBS].get(actor_of(request), _job_id(request))
    return await render(
        request,
        "run_now.html",
        {
            "job": detail.item.job,
            "offered": detail.item.job.config.handler in detail.offered_handlers,
            "parameters": parameters,
            "problem": problem,
            "request_key": request_key or new_request_key(),
        },
        status=status,
        block="dialog",
    )


def _job_id(request: web.Request) -> int:
    return int(request.match_info["job_id"])


def _trigger_id(request: web.Request) -> int:
    return int(request.match_info["trigger_id"])
