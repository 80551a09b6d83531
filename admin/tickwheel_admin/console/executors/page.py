"""Executors and their nodes: lists and pages; adding, pausing and deleting them."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.executors.tokens import token_page
from tickwheel_admin.console.executors.xxl_job import create_xxl_executor
from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import done_or_back, go_to, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.service import NodeView
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.routes import Routes

EXECUTOR = "/executors/{executor_id:[0-9]{1,18}}"

NODES_PER_PAGE = 100
ENDED_SHOWN = 20  # of those that ended lately

routes = Routes()


@routes.get("/executors", permission=Permission.VIEW)
async def list_executors(request: web.Request) -> web.Response:
    executors = await request.app[SERVICES].executors.list(actor_of(request))
    return await render(
        request,
        "executors/list.html",
        {"executors": executors, "admin_url": request.app[CONFIG].public_url},
    )


@routes.get("/executors/new", permission=Permission.ADMINISTER, on_all=True)
async def show_new(request: web.Request) -> web.Response:
    return await _new_form(request, values={"protocol": request.query.get("protocol", "")})


@routes.post("/executors/new", permission=Permission.ADMINISTER, on_all=True)
async def create_executor(request: web.Request) -> web.Response:
    form = await read_form(request)
    name = form.get("name", "").strip()
    try:
        if form.get("protocol") == Protocol.XXL_JOB:
            return await create_xxl_executor(request, form)
        made = await request.app[SERVICES].executors.create(
            actor_of(request), name=name, description=form.get("description", "")
        )
    except InvalidInput as error:
        return await _new_form(request, values=dict(form), problems=error.problems, status=422)
    except Conflict as error:
        problem = Problem(
            field="name", code=error.code, template=error.template, params=error.params
        )
        return await _new_form(request, values=dict(form), problems=(problem,), status=error.status)
    return await token_page(request, made, is_new=True)


@routes.get(EXECUTOR, permission=Permission.VIEW)
async def show_executor(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].executors.get(actor_of(request), _executor_id(request))
    xxl = None
    if detail.item.protocol is Protocol.XXL_JOB:
        xxl = await request.app[SERVICES].xxl_executors.get(
            actor_of(request), _executor_id(request)
        )
    live = [view for view in detail.nodes if view.node.state is NodeState.LIVE]
    ended = [view for view in detail.nodes if view.node.state is not NodeState.LIVE]
    text = request.query.get("q", "").strip()[:100]
    found = [view for view in live if _has(view, text.casefold())]
    pages = max(1, -(-len(found) // NODES_PER_PAGE))
    page = min(max(whole_number(request.query.get("page")) or 1, 1), pages)
    first = (page - 1) * NODES_PER_PAGE
    return await render(
        request,
        "executors/page.html",
        {
            "detail": detail,
            "executor": detail.item,
            "xxl": xxl,
            "live": live,
            "live_ids": {view.node.id for view in live},
            "found": len(found),
            "shown": found[first : first + NODES_PER_PAGE],
            "first": first,
            "page": page,
            "pages": pages,
            "text": text,
            "is_long": len(live) > NODES_PER_PAGE,
            "ended": ended[:ENDED_SHOWN],
            "all_ended": len(ended),
            "admin_url": request.app[CONFIG].public_url,
        },
    )


def _has(view: NodeView, text: str) -> bool:
    """Whether a node is what somebody looks for: by name, address or label."""
    labels = (f"{key}={value}" for key, value in view.node.labels.items())
    return any(text in each.casefold() for each in (view.node.name, view.address, *labels))


@routes.post(f"{EXECUTOR}/pause", permission=Permission.OPERATE)
async def pause_executor(request: web.Request) -> web.Response:
    await request.app[SERVICES].executors.pause(actor_of(request), _executor_id(request))
    return _switched(request, "executor.paused")


@routes.post(f"{EXECUTOR}/resume", permission=Permission.OPERATE)
async def resume_executor(request: web.Request) -> web.Response:
    await request.app[SERVICES].executors.resume(actor_of(request), _executor_id(request))
    return _switched(request, "executor.resumed")


@routes.get(f"{EXECUTOR}/first-node", permission=Permission.VIEW)
async def show_first_node(request: web.Request) -> web.Response:
    """A part of the page that shows a new executor's token, which is shown only once."""
    detail = await request.app[SERVICES].executors.get(actor_of(request), _executor_id(request))
    live = [view.node for view in detail.nodes if view.node.state is NodeState.LIVE]
    return await render(request, "executors/first_node.html", {"nodes": live})


@routes.get(f"{EXECUTOR}/delete", permission=Permission.ADMINISTER)
async def ask_delete(request: web.Request) -> web.Response:
    return await _delete_form(request)


@routes.post(f"{EXECUTOR}/delete", permission=Permission.ADMINISTER)
async def delete_executor(request: web.Request) -> web.Response:
    """With its jobs only when that was ticked and its name was typed."""
    actor, executor_id = actor_of(request), _executor_id(request)
    form = await read_form(request)
    with_jobs = form.get("with_jobs") == "yes"
    typed = form.get("name", "").strip()
    try:
        if with_jobs:
            detail = await request.app[SERVICES].executors.get(actor, executor_id)
            if typed != detail.item.name:
                raise InvalidInput.one(
                    "name",
                    "executor.name_differs",
                    "This is not its name: type “%(name)s”.",
                    name=detail.item.name,
                )
        await request.app[SERVICES].executors.delete(actor, executor_id, with_jobs=with_jobs)
    except (Conflict, InvalidInput) as error:
        return await _delete_form(request, error=error, with_jobs=with_jobs, typed=typed)
    response = go_to(request, "/executors")
    set_flash(response, "executor.deleted")
    return response


async def _delete_form(
    request: web.Request,
    *,
    error: Conflict | InvalidInput | None = None,
    with_jobs: bool = False,
    typed: str = "",
) -> web.Response:
    actor, services = actor_of(request), request.app[SERVICES]
    detail = await services.executors.get(actor, _executor_id(request))
    return await render(
        request,
        "executors/delete.html",
        {
            "executor": detail.item,
            "uses": await services.workflow_uses.of_executor(actor, _executor_id(request)),
            "conflict": error if isinstance(error, Conflict) else None,
            "problem": error.problems[0] if isinstance(error, InvalidInput) else None,
            "with_jobs": with_jobs,
            "typed": typed,
        },
        status=200 if error is None else error.status,
        block="dialog",
    )


def _switched(request: web.Request, code: str) -> web.Response:
    address = f"/executors/{_executor_id(request)}"
    return done_or_back(request, address, code, topics=("nodes", "jobs", "stats"))


async def _new_form(
    request: web.Request,
    *,
    values: dict[str, str],
    problems: tuple[Problem, ...] = (),
    status: int = 200,
) -> web.Response:
    return await render(
        request,
        "executors/new.html",
        {
            "values": {name: text for name, text in values.items() if name != "token"},
            "protocol": Protocol.XXL_JOB.value
            if values.get("protocol") == Protocol.XXL_JOB
            else Protocol.TICKWHEEL.value,
            "problems": {problem.field: problem for problem in reversed(problems)},
        },
        status=status,
    )


def _executor_id(request: web.Request) -> int:
    return int(request.match_info["executor_id"])
