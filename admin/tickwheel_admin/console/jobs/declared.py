"""The jobs that an executor's code declares: what would change, and what is to become of each."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.jobs import declared_labels
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

DECLARED = "/executors/{executor_id:[0-9]{1,18}}/declared-jobs"
_TOPICS = ("jobs", "nodes", "stats")

routes = Routes()


@routes.get(DECLARED, permission=Permission.VIEW)
async def list_declared(request: web.Request) -> web.Response:
    actor, executor_id = actor_of(request), _executor_id(request)
    detail = await request.app[SERVICES].executors.get(actor, executor_id)
    items = await request.app[SERVICES].declared_jobs.list(actor, executor_id)
    return await render(
        request,
        "jobs/declared.html",
        {
            "executor": detail.item,
            "items": declared_labels.in_order(items),
            "has_live_node": bool(detail.item.live_nodes),
        },
    )


# The names of jobs are of any kind, so they come in the form and not in the address.


@routes.post(f"{DECLARED}/accept", permission=Permission.DEVELOP)
async def accept_declared(request: web.Request) -> web.Response:
    """With `rename_from`: as the new name of that job; `declared_at`: if it is what was shown."""
    form = await read_form(request)
    await request.app[SERVICES].declared_jobs.accept(
        actor_of(request),
        _executor_id(request),
        form.get("name", ""),
        rename_from=form.get("rename_from") or None,
        declared_at=whole_number(form.get("declared_at")),
    )
    return _done(request, "declared.accepted")


@routes.post(f"{DECLARED}/ignore", permission=Permission.DEVELOP)
async def ignore_declared(request: web.Request) -> web.Response:
    form = await read_form(request)
    await request.app[SERVICES].declared_jobs.ignore(
        actor_of(request), _executor_id(request), form.get("name", "")
    )
    return _done(request, "declared.ignored")


@routes.post(f"{DECLARED}/release", permission=Permission.DEVELOP)
async def release_declared(request: web.Request) -> web.Response:
    form = await read_form(request)
    await request.app[SERVICES].declared_jobs.release(
        actor_of(request), _executor_id(request), form.get("name", "")
    )
    return _done(request, "declared.released")


@routes.post(f"{DECLARED}/policy", permission=Permission.ADMINISTER)
async def set_policy(request: web.Request) -> web.Response:
    form = await read_form(request)
    await request.app[SERVICES].declared_jobs.set_policy(
        actor_of(request), _executor_id(request), form.get("policy", "")
    )
    return _done(request, "declared.policy")


def _done(request: web.Request, code: str) -> web.Response:
    address = f"/executors/{_executor_id(request)}/declared-jobs"
    return done_or_back(request, address, code, topics=_TOPICS)


def _executor_id(request: web.Request) -> int:
    return int(request.match_info["executor_id"])
