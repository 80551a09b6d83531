"""Secrets of an executor: their names, who uses them; values are set and never shown."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotFound, Problem
from tickwheel_admin.domain.executors.secret import MAX_VALUE_BYTES
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

SECRETS = "/executors/{executor_id:[0-9]{1,18}}/secrets"
ONE = f"{SECRETS}/{{name:[A-Za-z0-9_]{{1,64}}}}"

routes = Routes()


@routes.get(SECRETS, permission=Permission.DEVELOP)
async def list_secrets(request: web.Request) -> web.Response:
    actor, executor_id = actor_of(request), _executor_id(request)
    items = await request.app[SERVICES].secrets.list(actor, executor_id)
    detail = await request.app[SERVICES].executors.get(actor, executor_id)
    return await render(
        request, "executors/secrets.html", {"executor": detail.item, "secrets": items}
    )


@routes.get(f"{SECRETS}/set", permission=Permission.ADMINISTER)
async def ask_value(request: web.Request) -> web.Response:
    return await _form(request, name=request.query.get("name", "")[:64])


@routes.post(f"{SECRETS}/set", permission=Permission.ADMINISTER)
async def set_value(request: web.Request) -> web.Response:
    form = await read_form(request)
    name = form.get("name", "").strip()
    # A browser sends the line ends of a text area in its own way.
    value = form.get("value", "") or form.get("lines", "").replace("\r\n", "\n")
    try:
        await request.app[SERVICES].secrets.put(
            actor_of(request), _executor_id(request), name, value
        )
    except InvalidInput as error:
        return await _form(request, name=name, problems=error.problems, status=422)
    except Conflict as error:
        problem = Problem(field="", code=error.code, template=error.template, params=error.params)
        return await _form(request, name=name, problems=[problem], status=error.status)
    return _done(request, "secret.saved")


@routes.get(f"{ONE}/delete", permission=Permission.ADMINISTER)
async def ask_delete(request: web.Request) -> web.Response:
    return await _delete_form(request)


@routes.post(f"{ONE}/delete", permission=Permission.ADMINISTER)
async def delete_secret(request: web.Request) -> web.Response:
    try:
        await request.app[SERVICES].secrets.delete(
            actor_of(request), _executor_id(request), request.match_info["name"]
        )
    except Conflict as error:
        return await _delete_form(request, conflict=error)
    return _done(request, "secret.deleted")


async def _form(
    request: web.Request, *, name: str, problems: Sequence[Problem] = (), status: int = 200
) -> web.Response:
    """The value is never in it, not even one that was just refused."""
    detail = await request.app[SERVICES].executors.get(actor_of(request), _executor_id(request))
    return await render(
        request,
        "executors/secret_set.html",
        {
            "executor": detail.item,
            "name": name,
            "is_set": bool(request.query.get("name")),
            "limit": MAX_VALUE_BYTES,
            "problems": {problem.field: problem for problem in reversed(problems)},
        },
        status=status,
        block="dialog",
    )


async def _delete_form(request: web.Request, *, conflict: Conflict | None = None) -> web.Response:
    actor, executor_id = actor_of(request), _executor_id(request)
    items = await request.app[SERVICES].secrets.list(actor, executor_id)
    found = [each for each in items if each.name == request.match_info["name"] and each.exists]
    if not found:
        raise NotFound("not_found", "There is nothing here, or you may not see it.")
    detail = await request.app[SERVICES].executors.get(actor, executor_id)
    return await render(
        request,
        "executors/secret_delete.html",
        {"executor": detail.item, "secret": found[0], "conflict": conflict},
        status=200 if conflict is None else conflict.status,
        block=None if conflict is None else "dialog",
    )


def _done(request: web.Request, code: str) -> web.Response:
    address = f"/executors/{_executor_id(request)}/secrets"
    return done_or_back(request, address, code, topics=("jobs",))


def _executor_id(request: web.Request) -> int:
    return int(request.match_info["executor_id"])
