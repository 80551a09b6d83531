"""The steps of a run that changed since a page was made, for pages that stay open.

A page with a thousand steps must not draw all of them again each second. It says what it shows, a
few letters for each step, and is told of those that differ by now. So no admin remembers what any
page shows, and a page that missed something catches up.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any
from zlib import crc32

import msgspec
from aiohttp import web

from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.workflows.graph import graph_of_run
from tickwheel_admin.console.workflows.rows import rows_of
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.workflows.steps import StepView, WorkflowView
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

HAVE_HEADER = "X-Have"  # what a page shows: `versions` of the steps, one behind the other
LETTERS = 4  # of each

routes = Routes()


@routes.get("/runs/{workflow_run_id:[0-9]{1,18}}/steps", permission=Permission.VIEW)
async def show_changes(request: web.Request) -> web.Response:
    run_id = int(request.match_info["workflow_run_id"])
    view = await request.app[SERVICES].workflow_runs.get(actor_of(request), run_id)
    set_locale(request)
    shown = context_of(view, now=REQUEST_LOCALE.get().now_at)
    have, rows = shown["have"], shown["steps"].rows
    had = request.headers.get(HAVE_HEADER, "")
    if len(had) != len(have):
        had = " " * len(have)  # what it shows is of something else
    parts = [slice(n * LETTERS, (n + 1) * LETTERS) for n in range(len(rows))]
    changed = [row for row, part in zip(rows, parts, strict=True) if had[part] != have[part]]
    return await render(
        request,
        "workflows/changes.html",
        {**shown, "changed": changed, "graph": shown["workflow_graph"], "run": view.run},
    )


def context_of(view: WorkflowView, *, now: int) -> dict[str, Any]:
    """What the section of a run's steps is drawn from.

    Args:
        now: until when what goes on is drawn.
    """
    return {
        "workflow_graph": graph_of_run(view),
        "steps": rows_of(view, now=now),
        "have": "".join(_version(step, view) for step in view.steps),
        "is_final": view.run.state in FINAL,
    }


def _version(step: StepView, view: WorkflowView) -> str:
    """Letters that differ when a step is drawn in another way, but for its bars' growing.

    What may be done with a step also depends on the state of the whole.
    """
    drawn = (
        step.status, step.run, step.waits_for, step.is_critical, step.tries, step.work_began_at,
        step.message, view.run.state.value,
    )  # fmt: skip
    number = crc32(msgspec.json.encode(drawn)) & 0xFFFFFF
    return urlsafe_b64encode(number.to_bytes(3)).decode()
