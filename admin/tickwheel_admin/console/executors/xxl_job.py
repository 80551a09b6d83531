"""Executors of XXL-JOB's protocol: adding them, and changing what they have besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import done_or_back, go_to, render
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.xxl_job.service import XxlExecutorView
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

XXL_JOB = "/executors/{executor_id:[0-9]{1,18}}/xxl-job"
_FIELD_OF_CODE = {"executor.name_taken": "name", "executor.app_name_taken": "xxl_job.app_name"}

routes = Routes()


async def create_xxl_executor(request: web.Request, form: Mapping[str, str]) -> web.Response:
    """Add one as the form says, and go to its page.

    Raises:
        InvalidInput: with every problem found.
    """
    try:
        executor_id = await request.app[SERVICES].xxl_executors.create(
            actor_of(request),
            name=form.get("name", ""),
            description=form.get("description", ""),
            app_name=form.get("app_name", ""),
            token=form.get("token", ""),
            addresses=_addresses(form),
        )
    except (InvalidInput, Conflict) as error:
        raise InvalidInput(_problems(error)) from None
    response = go_to(request, f"/executors/{executor_id}")
    set_flash(response, "executor.created")
    return response


@routes.get(XXL_JOB, permission=Permission.ADMINISTER)
async def ask_settings(request: web.Request) -> web.Response:
    view = await _view(request)
    values = {"app_name": view.app_name, "addresses": "\n".join(view.addresses or ())}
    return await _form(request, values=values)


@routes.post(XXL_JOB, permission=Permission.ADMINISTER)
async def save_settings(request: web.Request) -> web.Response:
    form = await read_form(request)
    addresses = _addresses(form)
    try:
        await request.app[SERVICES].xxl_executors.change(
            actor_of(request),
            _executor_id(request),
            app_name=form.get("app_name", ""),
            token=form.get("token") or None,
            addresses=addresses,
            registers=addresses is None,
        )
    except (InvalidInput, Conflict) as error:
        values = {name: form.get(name, "") for name in ("app_name", "addresses")}
        return await _form(request, values=values, problems=_problems(error), status=error.status)
    return _done(request, "executor.xxl_saved")


@routes.post(f"{XXL_JOB}/remove", permission=Permission.ADMINISTER)
async def remove_address(request: web.Request) -> web.Response:
    form = await read_form(request)
    await request.app[SERVICES].xxl_executors.remove_address(
        actor_of(request), _executor_id(request), form.get("address", "")
    )
    return _done(request, "executor.address_removed")


async def _view(request: web.Request) -> XxlExecutorView:
    return await request.app[SERVICES].xxl_executors.get(actor_of(request), _executor_id(request))


async def _form(
    request: web.Request,
    *,
    values: Mapping[str, str],
    problems: Sequence[Problem] = (),
    status: int = 200,
) -> web.Response:
    await _view(request)  # none of another protocol
    detail = await request.app[SERVICES].executors.get(actor_of(request), _executor_id(request))
    return await render(
        request,
        "executors/xxl_job_edit.html",
        {
            "executor": detail.item,
            "values": values,
            "problems": {problem.field: problem for problem in reversed(problems)},
        },
        status=status,
        block="dialog",
    )


def _problems(error: InvalidInput | Conflict) -> list[Problem]:
    """At their fields: all addresses are typed into one."""
    if isinstance(error, Conflict):
        field = _FIELD_OF_CODE.get(error.code, "")
        params, template = error.params, error.template
        return [Problem(field=field, code=error.code, template=template, params=params)]
    return [replace(each, field=each.field.partition("[")[0]) for each in error.problems]


def _addresses(form: Mapping[str, str]) -> list[str] | None:
    """One on each line; None: processes register themselves."""
    return form.get("addresses", "").replace(",", " ").split() or None


def _done(request: web.Request, code: str) -> web.Response:
    address = f"/executors/{_executor_id(request)}"
    return done_or_back(request, address, code, topics=("nodes",))


def _executor_id(request: web.Request) -> int:
    return int(request.match_info["executor_id"])
