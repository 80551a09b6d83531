"""The script that a run used, with the line that failed."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.runs.service import RunDetail
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

AROUND = 3  # lines before and after the failing one, on the page of the run
routes = Routes()


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a script."""

    number: int
    text: str
    failed: bool


@routes.get("/runs/{run_id:[0-9]{1,18}}/script", permission=Permission.VIEW)
async def show_script(request: web.Request) -> web.Response:
    run_id = int(request.match_info["run_id"])
    detail = await request.app[SERVICES].runs.get(actor_of(request), run_id)
    return await render(
        request,
        "runs/script.html",
        {
            "detail": detail,
            "run": detail.item.run,
            "config": detail.config,
            "script": detail.config.script,
            "lines": source_lines(detail),
        },
    )


def source_lines(detail: RunDetail) -> list[SourceLine]:
    """Every line of the script; none when its source is not there."""
    script = detail.config.script
    if script is None or script.source is None:
        return []
    failed = detail.failing_line
    return [
        SourceLine(number, text, number == failed)
        for number, text in enumerate(script.source.splitlines(), start=1)
    ]


def lines_around(detail: RunDetail) -> list[SourceLine]:
    """Those about the failing one; none when no line is known to have failed."""
    failed = detail.failing_line
    if failed is None:
        return []
    return source_lines(detail)[max(0, failed - 1 - AROUND) : failed + AROUND]
