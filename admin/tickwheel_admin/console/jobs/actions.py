"""What can be done with a job besides editing and running it: pause, resume, delete."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import done_or_back, go_to, render
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

JOB = "/jobs/{job_id:[0-9]{1,18}}"
TRIGGER = f"{JOB}/triggers/{{trigger_id:[0-9]{{1,18}}}}"

routes = Routes()


@routes.post(f"{JOB}/pause", permission=Permission.OPERATE)
async def pause_job(request: web.Request) -> web.Response:
    await request.app[SERVICES].jobs.pause(actor_of(request), _job_id(request))
    return await _switched(request, "job.paused")


@routes.post(f"{JOB}/resume", permission=Permission.OPERATE)
async def resume_job(request: web.Request) -> web.Response:
    await request.app[SERVICES].jobs.resume(actor_of(request), _job_id(request))
    return await _switched(request, "job.resumed")


@routes.post(f"{TRIGGER}/pause", permission=Permission.OPERATE)
async def pause_trigger(request: web.Request) -> web.Response:
    await request.app[SERVICES].jobs.pause_trigger(
        actor_of(request), _job_id(request), _trigger_id(request)
    )
    return _trigger_switched(request, "trigger.paused")


@routes.post(f"{TRIGGER}/resume", permission=Permission.OPERATE)
async def resume_trigger(request: web.Request) -> web.Response:
    await request.app[SERVICES].jobs.resume_trigger(
        actor_of(request), _job_id(request), _trigger_id(request)
    )
    return _trigger_switched(request, "trigger.resumed")


@routes.get(f"{JOB}/delete", permission=Permission.DEVELOP)
async def ask_delete(request: web.Request) -> web.Response:
    actor, services = actor_of(request), request.app[SERVICES]
    detail = await services.jobs.get(actor, _job_id(request))
    uses = await services.workflow_uses.of_job(actor, _job_id(request))
    return await render(
        request,
        "jobs/delete.html",
        {"job": detail.item.job, "managed": detail.managed, "uses": uses},
    )


@routes.post(f"{JOB}/delete", permission=Permission.DEVELOP)
async def delete_job(request: web.Request) -> web.Response:
    await request.app[SERVICES].jobs.delete(actor_of(request), _job_id(request))
    response = go_to(request, "/jobs")
    set_flash(response, "job.deleted")
    return response


async def _switched(request: web.Request, code: str) -> web.Response:
    form = await read_form(request)
    address = safe_next(form.get("back"), default="/jobs")
    return done_or_back(request, address, code, topics=("jobs", "stats"))


def _trigger_switched(request: web.Request, code: str) -> web.Response:
    return done_or_back(request, f"/jobs/{_job_id(request)}", code, topics=("jobs", "stats"))


def _job_id(request: web.Request) -> int:
    return int(request.match_info["job_id"])


def _trigger_id(request: web.Request) -> int:
    return int(request.match_info["trigger_id"])
