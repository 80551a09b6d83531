"""/api/v1/runs"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import PageJson, answer, page_view
from tickwheel_admin.api.inputs import (
    ID,
    IDEMPOTENCY_KEY,
    PAGING,
    PARAMETERS,
    TRACE,
    body_fields,
    caller_trace_of,
    no_fields,
    page_of,
    parameters_of,
    path_id,
    query_fields,
    request_key_of,
)
from tickwheel_admin.api.runs.queries import (
    FILTER,
    REVISION,
    STEP_CHOICE,
    run_query_of,
    step_choice_of,
)
from tickwheel_admin.api.runs.shapes import (
    LogJson,
    MatchingJson,
    NewRunJson,
    RunDetailJson,
    RunJson,
    RunScriptJson,
)
from tickwheel_admin.api.runs.views import log_view, matching_view, run_detail_view, run_view
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.script import script_to_raw
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.i18n import language_of
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import boolean, integer, optional_integer
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/runs"
_ONE = f"{_ALL}/{{run_id:{ID}}}"
MAX_LOG_LINES = 5_000
MAX_SEQ = 2**31 - 1

RETRY_CONFLICTS = (
    "job.deleted",
    "run.is_step",
    "run.is_try",
    "run.job_busy",
    "run.no_failed_shards",
    "run.no_failed_steps",
    "run.nodes_gone",
    "run.not_ended",
    "run.not_sharded",
    "run.not_workflow",
    "run.retry_goes_on",
    "run.retry_succeeded",
    "run.steps_go_on",
    "step.approved_otherwise",
    "step.taken_over",
    "workflow.results_gone",
    "workflow.steps_differ",
)
FAILED_SHARDS_ONLY = boolean(
    "failed_shards_only", "Repeat only the failed shards of a run with shards."
)
_ATTEMPT = optional_integer("attempt", "Of this attempt; the last one.", low=1, high=MAX_SEQ)
_AFTER = integer("after", "Lines after this `seq`.", low=0, high=MAX_SEQ, default=0)
_LINES = integer("limit", "Lines at once.", low=1, high=MAX_LOG_LINES, default=1_000)


@routes.get(
    _ALL,
    permission=Permission.VIEW,
    api=True,
    query=(*FILTER, *PAGING),
    answers=PageJson[RunJson],
)
async def list_runs(request: web.Request) -> web.Response:
    """A page of runs, newest first."""
    fields = query_fields(request)
    query = run_query_of(fields)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].runs.page(
        actor_of(request), query, cursor=cursor, limit=limit
    )
    language = language_of(request)
    return answer(page_view(page, lambda item: run_view(item, language)))


@routes.get(
    f"{_ALL}/count",
    permission=Permission.VIEW,
    api=True,
    query=FILTER,
    answers=MatchingJson,
)
async def count_runs(request: web.Request) -> web.Response:
    """How many runs match, up to 10,000."""
    fields = query_fields(request)
    query = run_query_of(fields)
    raise_if_any(fields.problems)
    return answer(
        matching_view(await request.app[SERVICES].runs.count_matching(actor_of(request), query))
    )


@routes.get(_ONE, permission=Permission.VIEW, api=True, answers=RunDetailJson)
async def get_run(request: web.Request) -> web.Response:
    """One run, with parameters, result and attempts."""
    detail = await request.app[SERVICES].runs.get(actor_of(request), path_id(request, "run_id"))
    return answer(run_detail_view(detail, language_of(request)))


@routes.get(f"{_ONE}/script", permission=Permission.VIEW, api=True, answers=RunScriptJson)
async def get_script(request: web.Request) -> web.Response:
    """The script that it ran, and the line that failed where that is known."""
    detail = await request.app[SERVICES].runs.get(actor_of(request), path_id(request, "run_id"))
    script = script_to_raw(detail.config.script)  # as RunScriptJson tells it
    return answer({"script": script, "failing_line": detail.failing_line})


@routes.post(
    f"{_ONE}/cancel",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NewRunJson,
    status=202,
    conflicts=("run.ended",),
)
async def cancel_run(request: web.Request) -> web.Response:
    """Stop a run."""
    await no_fields(request)
    run_id = path_id(request, "run_id")
    await request.app[SERVICES].runs.cancel(actor_of(request), run_id)
    # Accepted, not done: the node still has to stop the attempt.
    return answer({"run_id": run_id}, status=202, location=f"{_ALL}/{run_id}")


@routes.post(
    f"{_ONE}/release",
    permission=Permission.OPERATE,
    api=True,
    body=(),
    answers=NoContent,
    conflicts=("run.ended", "run.not_stopping"),
)
async def release_run(request: web.Request) -> web.Response:
    """Stop waiting for its node to confirm the end."""
    await no_fields(request)
    await request.app[SERVICES].runs.release(actor_of(request), path_id(request, "run_id"))
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/retry",
    permission=Permission.OPERATE,
    api=True,
    body=(PARAMETERS, FAILED_SHARDS_ONLY, REVISION, *STEP_CHOICE),
    headers=(IDEMPOTENCY_KEY, *TRACE),
    answers=NewRunJson,
    status=202,
    conflicts=RETRY_CONFLICTS,
)
async def retry_run(request: web.Request) -> web.Response:
    """A new run with the same or other parameters."""
    fields = await body_fields(request)
    failed_shards_only = FAILED_SHARDS_ONLY.of(fields)
    revision = REVISION.of(fields)
    steps = step_choice_of(fields)
    run_id = await request.app[SERVICES].runs.retry(
        actor_of(request),
        path_id(request, "run_id"),
        parameters=parameters_of(fields.raw),
        request_key=request_key_of(request),
        failed_shards_only=failed_shards_only,
        revision=revision,
        steps=steps,
        trace=caller_trace_of(request),
    )
    return answer({"run_id": run_id}, status=202, location=f"{_ALL}/{run_id}")


@routes.get(
    f"{_ONE}/log",
    permission=Permission.VIEW,
    api=True,
    query=(_ATTEMPT, _AFTER, _LINES),
    answers=LogJson,
)
async def get_log(request: web.Request) -> web.Response:
    """Lines of its log."""
    fields = query_fields(request)
    attempt, after, limit = _ATTEMPT.of(fields), _AFTER.of(fields), _LINES.of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].runs.log(
        actor_of(request),
        path_id(request, "run_id"),
        attempt=attempt,
        after=after,
        limit=limit,
    )
    return answer(log_view(page))
