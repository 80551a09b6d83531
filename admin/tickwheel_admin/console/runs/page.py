"""The page of a run, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from tickwheel_admin.config_values import TRACE_ID
from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, set_locale
from tickwheel_admin.console.frame.rendering import (
    BLOCK_HEADER,
    done_or_back,
    go_to,
    new_request_key,
    render,
)
from tickwheel_admin.console.frame.units import pretty, whole_number
from tickwheel_admin.console.parameters.form import (
    form_as_sent,
    is_about_parameters,
    parameter_form,
    switched,
    text_of_form,
)
from tickwheel_admin.console.runs import labels
from tickwheel_admin.console.runs.attempt_timeline import attempt_timeline
from tickwheel_admin.console.runs.labels import shown_state
from tickwheel_admin.console.runs.script import lines_around
from tickwheel_admin.console.runs.shards import shard_overview
from tickwheel_admin.console.workflows.changes import context_of
from tickwheel_admin.console.workflows.retries import step_choice, step_form
from tickwheel_admin.domain.errors import InvalidInput, NotFound, Problem
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.input.job import parse_parameters
from tickwheel_admin.domain.runs.run import FAILURES, FINAL, LIVE, Origin, Run, RunState
from tickwheel_admin.domain.runs.trace import trace_id_of
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.runs.edits import (
    check_no_step,
    check_not_ended,
    check_stopping,
    job_deleted,
    not_ended,
)
from tickwheel_admin.services.runs.service import RetryRevision, RunDetail
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.routes import Routes

RUN = "/runs/{run_id:[0-9]{1,18}}"
SHOWN_DELAY_MS = 1_000  # a shorter one is usual

routes = Routes()


@routes.get(RUN, permission=Permission.VIEW)
async def show_run(request: web.Request) -> web.Response:
    detail = await _detail(request)
    run = detail.item.run
    set_locale(request)
    steps: dict[str, Any] = {"workflow_graph": None}
    if detail.config.workflow is not None and BLOCK_HEADER not in request.headers:
        view = await request.app[SERVICES].workflow_runs.get(actor_of(request), run.id)
        steps = context_of(view, now=REQUEST_LOCALE.get().now_at)
    attempt = whole_number(request.query.get("attempt"))
    archived = [view.attempt.attempt for view in detail.attempts]
    return await render(
        request,
        "runs/page.html",
        {
            "detail": detail,
            "run": run,
            "config": detail.config,
            "state": shown_state(run),
            "is_final": run.state in FINAL,
            "is_live": run.state in LIVE,
            "phases": _phases(run),
            "tries": attempt_timeline(detail, now=REQUEST_LOCALE.get().now_at),
            "shards": shard_overview(detail.shards) if run.is_fire else None,
            "late": _late(detail),
            "shows_delay": _started_late(detail, now=REQUEST_LOCALE.get().now_at),
            "trace_id": trace_id_of(run),
            "trace_url": _trace_url(request, run),
            "excerpt": lines_around(detail),
            "log_attempt": attempt if attempt in archived else None,
            "trigger": None,
            "failure": await _failure(request, run),
            **steps,
        },
    )


def _started_late(detail: RunDetail, *, now: int) -> bool:
    """Whether it is worth telling what its first try waited for, or waits for."""
    run = detail.item.run
    if run.is_fire or run.origin in (Origin.TRY, Origin.BACKFILL):
        return False
    first = detail.attempts[0].attempt if detail.attempts else run
    started_at = first.started_at
    if started_at is None and (run.state in FINAL or run.tries):
        return False  # it never did, or nobody knows
    return (now if started_at is None else started_at) - run.first_due_at >= SHOWN_DELAY_MS


async def _failure(request: web.Request, run: Run) -> FailureGroup | None:
    """The group of runs that failed alike."""
    if run.state not in FAILURES:
        return None
    return await request.app[SERVICES].failures.of_run(actor_of(request), run.id)


@routes.get(f"{RUN}/cancel", permission=Permission.OPERATE)
async def ask_cancel(request: web.Request) -> web.Response:
    detail = await _detail(request)
    check_not_ended(detail.item.run)
    return await render(request, "runs/cancel.html", {"detail": detail, "run": detail.item.run})


@routes.post(f"{RUN}/cancel", permission=Permission.OPERATE)
async def cancel_run(request: web.Request) -> web.Response:
    await request.app[SERVICES].runs.cancel(actor_of(request), _run_id(request))
    return done_or_back(
        request, f"/runs/{_run_id(request)}", "run.cancelled", topics=("runs", "stats")
    )


@routes.get(f"{RUN}/release", permission=Permission.OPERATE)
async def ask_release(request: web.Request) -> web.Response:
    detail = await _detail(request)
    check_stopping(detail.item.run)
    return await render(request, "runs/release.html", {"detail": detail, "run": detail.item.run})


@routes.post(f"{RUN}/release", permission=Permission.OPERATE)
async def release_run(request: web.Request) -> web.Response:
    await request.app[SERVICES].runs.release(actor_of(request), _run_id(request))
    return done_or_back(
        request, f"/runs/{_run_id(request)}", "run.released", topics=("runs", "stats")
    )


@routes.get(f"{RUN}/retry", permission=Permission.OPERATE)
async def ask_retry(request: web.Request) -> web.Response:
    return await _retry_form(request)


@routes.post(f"{RUN}/retry", permission=Permission.OPERATE)
async def retry_run(request: web.Request) -> web.Response:
    form = await read_form(request)
    if "do" in form:
        return await _retry_form(request, sent=form)
    try:
        new_id = await request.app[SERVICES].runs.retry(
            actor_of(request),
            _run_id(request),
            parameters=await _typed_parameters(request, form),
            request_key=form.get("request_key") or None,
            failed_shards_only=form.get("failed_shards_only") == "yes",
            revision=retry_revision(form),
            steps=step_choice(form),
        )
    except InvalidInput as error:
        if "parameters" not in form:
            raise
        return await _retry_form(request, sent=form, problems=error.problems)
    response = go_to(request, f"/runs/{new_id}")
    set_flash(response, "run.requested")
    return response


def _trace_url(request: web.Request, run: Run) -> str | None:
    """Where the run's trace is shown; None: it has none, or nobody said where."""
    template, trace_id = request.app[CONFIG].trace_url, trace_id_of(run)
    if template is None or trace_id is None:
        return None
    return template.replace(TRACE_ID, trace_id)


def _late(detail: RunDetail) -> dict[int, str]:
    """What came of attempts after the next one had begun, by attempt."""
    began = {view.attempt.attempt: view.attempt.dispatched_at for view in detail.attempts}
    began[detail.item.run.attempt] = detail.item.run.dispatched_at
    return {
        number: labels.late_text(view, began.get(number + 1))
        for view in detail.attempts
        if view.late_at is not None and (number := view.attempt.attempt)
    }


async def _typed_parameters(request: web.Request, form: MultiMapping[str]) -> str | None:
    """The parameters that were filled in; None: the form had none.

    Raises:
        InvalidInput: they cannot be read.
    """
    if "parameters" not in form:
        return None
    _, schema = await _job_now(request, await _detail(request))
    text, problems = text_of_form(schema, form, over=True)
    if problems:
        raise InvalidInput(problems)
    return parse_parameters(text)


async def _job_now(request: web.Request, detail: RunDetail) -> tuple[int | None, str | None]:
    """The revision that the job has now, and what its handler takes; None: it is gone; anything."""
    try:
        job = await request.app[SERVICES].jobs.get(actor_of(request), detail.item.run.job_id)
    except NotFound:
        return None, None
    return job.item.job.revision, job.schema


def retry_revision(form: MultiMapping[str]) -> RetryRevision | None:
    """The revision of the job that a form asks for; None: it does not say."""
    word = form.get("revision", "")
    return RetryRevision(word) if word in list(RetryRevision) else None


async def _retry_form(
    request: web.Request,
    *,
    sent: MultiMapping[str] | None = None,
    problems: Sequence[Problem] = (),
) -> web.Response:
    """The form as somebody filled it in; None: nobody did yet."""
    set_locale(request)
    detail = await _detail(request)
    check_no_step(detail.item.run)
    if detail.job_deleted:
        raise job_deleted()
    if detail.item.run.state not in FINAL:
        raise not_ended()
    steps = None
    if detail.item.run.is_workflow:
        view = await request.app[SERVICES].workflow_runs.get(actor_of(request), _run_id(request))
        steps = step_form(view, request.query if sent is None else sent)
    revision, schema = await _job_now(request, detail)
    if sent is None:
        parameters = parameter_form(schema, pretty(detail.parameters))
    elif "do" in sent:
        parameters = switched(schema, sent, over=True)
    else:
        parameters = form_as_sent(schema, sent, problems=problems)
    return await render(
        request,
        "runs/again.html",
        {
            "detail": detail,
            "run": detail.item.run,
            "parameters": parameters.of_handler(detail.config.handler),
            "revision_now": revision,
            "asks_for": None if sent is None else retry_revision(sent),
            "steps": steps,
            "other_problems": [each for each in problems if not is_about_parameters(each)],
            "request_key": (sent and sent.get("request_key")) or new_request_key(),
        },
        status=422 if problems else 200,
        block="dialog",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One step on a run's way."""

    key: str
    look: str = ""  # class: done, current, waiting, or how the run ended; "": not reached
    at: int | None = None  # when it was reached
    ms: int | None = None  # how long it took
    since: int | None = None  # it is going on since


def _phases(run: Run) -> list[Phase]:
    """Scheduled, queued, sent, running, finished: what each took and which one it is in."""
    waits = run.state is RunState.QUEUED
    final = run.state in FINAL
    sent = None if waits else run.dispatched_at
    started = None if waits else run.started_at
    queued_until = sent if sent is not None else (run.ended_at if final else None)
    end_look = "done" if run.state is RunState.SUCCEEDED else run.state.value
    return [
        Phase(key="scheduled", look="done", at=run.scheduled_at),
        Phase(
            key="queued",
            look="waiting" if waits else "done",
            ms=_between(run.scheduled_at, queued_until),
            since=run.scheduled_at if waits else None,
        ),
        Phase(
            key="dispatched",
            look=_look(sent is not None, run.state is RunState.DISPATCHED),
            ms=_between(sent, started),
        ),
        Phase(
            key="running",
            look=_look(started is not None, run.state is RunState.RUNNING),
            ms=_between(started, run.ended_at),
            since=started if run.state is RunState.RUNNING else None,
        ),
        Phase(key="finished", look=end_look if final else "", at=run.ended_at if final else None),
    ]


def _look(reached: bool, current: bool) -> str:
    if current:
        return "current"
    return "done" if reached else ""


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else max(end - start, 0)


async def _detail(request: web.Request) -> RunDetail:
    return await request.app[SERVICES].runs.get(actor_of(request), _run_id(request))


def _run_id(request: web.Request) -> int:
    return int(request.match_info["run_id"])
