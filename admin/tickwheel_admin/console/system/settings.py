"""Settings of the installation, and how the admin that answers is configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.frame.zone_choices import zone_choices
from tickwheel_admin.console.system.configuration import configured
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.settings import settings_to_raw
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.routes import Routes

_TEXTS = ("instance_name", "default_timezone")
_NUMBERS = ("retention_days", "audit_retention_days")

routes = Routes()


@routes.get("/settings", permission=Permission.ADMINISTER, on_all=True)
async def show_settings(request: web.Request) -> web.Response:
    actor_of(request).require(Permission.ADMINISTER)
    settings = await request.app[SERVICES].settings.get()
    values = {name: value or "" for name, value in settings_to_raw(settings).items()}
    return await _page(request, values)


@routes.post("/settings", permission=Permission.ADMINISTER, on_all=True)
async def save_settings(request: web.Request) -> web.Response:
    form = await read_form(request)
    typed = {name: form.get(name, "").strip() for name in (*_TEXTS, *_NUMBERS)}
    raw: dict[str, Any] = {name: typed[name] or None for name in _TEXTS}
    raw |= {name: _number(typed[name]) for name in _NUMBERS}
    try:
        await request.app[SERVICES].settings.save(actor_of(request), raw)
    except InvalidInput as error:
        return await _page(request, typed, error.problems, status=422)
    response = go_to(request, "/settings")
    set_flash(response, "settings.saved")
    return response


def _number(text: str) -> int | str | None:
    """A whole number; what is none stays as it is, for the refusal."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text or None


async def _page(
    request: web.Request,
    values: Mapping[str, Any],
    problems: tuple[Problem, ...] = (),
    *,
    status: int = 200,
) -> web.Response:
    config = request.app[CONFIG]
    return await render(
        request,
        "system/settings.html",
        {
            "values": values,
            "problems": {problem.field: problem for problem in reversed(problems)},
            "zones": zone_choices(values["default_timezone"] or None),
            "admin_name": config.name,
            "configured_days": config.retention_days,
            "configured": configured(config),
        },
        status=status,
    )
