"""The list of runs, the page of one, and what can be done with it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.console.flash import set_flash
from tickwheel_admin.console.i18n import gettext as _
from tickwheel_admin.console.labels import shown_state
from tickwheel_admin.console.reader import set_reader
from tickwheel_admin.console.rendering import (
    done_in_place,
    go_to,
    is_scripted,
    new_request_key,
    render,
)
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.job_input import parse_parameters
from tickwheel_admin.domain.run import FINAL, LIVE, Run, RunState
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.runs import RunDetail, RunGroup, RunQuery
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import EXECUTORS, JOBS, RUNS
from tickwheel_admin.web.routes import Routes

RUN = "/runs/{run_id:[0-9]{1,18}}"
TABS = (
    RunGroup.ACTIVE, RunState.QUEUED, RunState.RUNNING, RunState.SUCCEEDED, RunGroup.FAILED_ANY,
    RunState.CANCELLED, RunState.SKIPPED,
)  # fmt: skip
_STATES = frozenset((*RunState, *RunGroup))

routes = Routes()


@routes.get("/runs", permission=Permission.VIEW)
async def list_runs(request: web.Request) -> web.Response:
    actor = actor_of(request)
    executors = await request.app[EXECUTORS].list(actor)
    state = request.query.get("state", "")
    query = RunQuery(
        state=state if state in _STATES else None,
        job_id=_number(request.query.get("job")),
        executor_id=_number(request.query.get("executor")),
        from_at=_number(request.query.get("from")),
        to_at=_number(request.query.get("to")),
    )
    page = await request.app[RUNS].page(actor, query, cursor=request.query.get("cursor"))
    job_name = None
    if query.job_id is not None:
        job_name = (await request.app[JOBS].get(actor, query.job_id)).item.job.config.name
    return await render(
        request,
        "runs.html",
        {
            "runs": page.items,
            "next_cursor": page.next,
            "tabs": TABS,
            "state": state if query.state is not None else "",
            "query_values": query,
            "executors": executors,
            "job_name": job_name,
            "is_filtered": query != RunQuery(),
        },
    )


@routes.get(RUN, permission=Permission.VIEW)
async def show_run(request: web.Request) -> web.Response:
    detail = await _detail(request)
    run = detail.item.run
    set_reader(request)
    attempt = _number(request.query.get("attempt"))
    archived = [view.attempt.attempt for view in detail.attempts]
    return await render(
        request,
        "run.html",
        {
            "detail": detail,
            "run": run,
            "config": detail.config,
            "state": shown_state(run),
            "is_final": run.state in FINAL,
            "is_live": run.state in LIVE,
            "phases": _phases(run),
            "log_attempt": attempt if attempt in archived else None,
            "trigger": None,
        },
    )


@routes.get(f"{RUN}/cancel", permission=Permission.OPERATE)
async def ask_cancel(request: web.Request) -> web.Response:
    detail = await _detail(request)
    return await render(request, "run_cancel.html", {"detail": detail, "run": detail.item.run})


@routes.post(f"{RUN}/cancel", permission=Permission.OPERATE)
async def cancel_run(request: web.Request) -> web.Response:
    await request.app[RUNS].cancel(actor_of(request), _run_id(request))
    if is_scripted(request):
        set_reader(request)
        return done_in_place(_("The run is being cancelled."), topics=("runs", "stats"))
    response = go_to(request, f"/runs/{_run_id(request)}")
    set_flash(response, "run.cancelled")
    return response


@routes.get(f"{RUN}/retry", permission=Permission.OPERATE)
async def ask_retry(request: web.Request) -> web.Response:
    return await _retry_form(request, await _detail(request))


@routes.post(f"{RUN}/retry", permission=Permission.OPERATE)
async def retry_run(request: web.Request) -> web.Response:
    form = await read_form(request)
    typed = form.get("parameters")
    try:
        new_id = await request.app[RUNS].retry(
            actor_of(request),
            _run_id(request),
            parameters=None if typed is None else parse_parameters(typed.strip() or "{}"),
            request_key=form.get("request_key") or None,
        )
    except InvalidInput as error:
        if typed is None:
            raise
        return await _retry_form(
            request,
            await _detail(request),
            parameters=typed,
            problem=error.problems[0],
            request_key=form.get("request_key"),
            status=422,
        )
    response = go_to(request, f"/runs/{new_id}")
    set_flash(response, "run.requested")
    return response


async def _retry_form(
    request: web.Request,
    detail: RunDetail,
    *,
    parameters: str | None = None,
    problem: Problem | None = None,
    request_key: str | None = None,
    status: int = 200,
) -> web.Response:
    return await render(
        request,
        "run_again.html",
        {
            "detail": detail,
            "run": detail.item.run,
            "parameters": detail.parameters if parameters is None else parameters,
            "problem": problem,
            "request_key": request_key or new_request_key(),
        },
        status=status,
        block="dialog",
    )


def _phases(run: Run) -> list[dict[str, Any]]:
    """Scheduled, queued, dispatched, running, finished: what each took and which one it is in."""
    was_sent = run.dispatched_at is not None and run.attempt > 0
    waits = run.state is RunState.QUEUED
    ended = run.state if run.state in FINAL else None
    started = run.started_at if not waits else None
    sent = run.dispatched_at if was_sent and not waits else None
    return [
        {"key": "scheduled", "is": "done", "at": run.scheduled_at},
        {
            "key": "queued",
            "is": "waiting" if waits else "done",
            "ms": None if sent is None else max(sent - run.scheduled_at, 0),
            "since": run.scheduled_at if waits else None,
        },
        {
            "key": "dispatched",
            "is": _is(sent is not None, run.state is RunState.DISPATCHED),
            "ms": None if sent is None or started is None else max(started - sent, 0),
            "since": None,
        },
        {
            "key": "running",
            "is": _is(started is not None, run.state is RunState.RUNNING),
            "ms": None if started is None or run.ended_at is None else run.ended_at - started,
            "since": started if run.state is RunState.RUNNING else None,
        },
        {
            "key": "finished",
            "is": "" if ended is None else ("done" if ended is RunState.SUCCEEDED else ended.value),
            "at": run.ended_at if ended is not None else None,
        },
    ]


def _is(reached: bool, current: bool) -> str:
    if current:
        return "current"
    return "done" if reached else ""


async def _detail(request: web.Request) -> RunDetail:
    return await request.app[RUNS].get(actor_of(request), _run_id(request))


def _run_id(request: web.Request) -> int:
    return int(request.match_info["run_id"])


def _number(text: str | None) -> int | None:
    """A whole number from a query; None also for what is none."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 18 else None
