"""/api/v1/runs/{run_id}/delay and /api/v1/executors/{executor_id}/delays: who delays whom."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.api.delays.shapes import (
    CausingJobJson,
    DelayedJobJson,
    DelayMatrixJson,
    DelayPartJson,
    RunDelayJson,
)
from tickwheel_admin.api.inputs import ID, path_id, query_fields
from tickwheel_admin.domain.delays.matrix import CausingJob, DelayedJob
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.delays.service import (
    MAX_HOURS,
    ExecutorDelays,
    RunDelay,
    ShownJob,
    ShownPart,
)
from tickwheel_admin.web.client import while_present
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_FROM = instant_input("from", "What was waited from here on; a day before the end if left out.")
_UNTIL = instant_input("until", f"At most {MAX_HOURS} hours later; else the present.")


@routes.get(
    "/api/v1/runs/{run_id:[0-9]{1,18}}/delay",
    permission=Permission.VIEW,
    api=True,
    answers=RunDelayJson,
)
async def get_run_delay(request: web.Request) -> web.Response:
    """What a run waited for before it started, charged to the runs that caused it."""
    asked = request.app[SERVICES].delays.of_run(actor_of(request), path_id(request, "run_id"))
    return answer(run_delay_view(await while_present(request, asked)))


@routes.get(
    f"/api/v1/executors/{{executor_id:{ID}}}/delays",
    permission=Permission.VIEW,
    api=True,
    query=(_FROM, _UNTIL),
    answers=DelayMatrixJson,
)
async def get_executor_delays(request: web.Request) -> web.Response:
    """Whose runs started late at an executor, and whose runs caused it."""
    fields = query_fields(request)
    from_at, until_at = _FROM.of(fields), _UNTIL.of(fields)
    raise_if_any(fields.problems)
    asked = request.app[SERVICES].delays.matrix(
        actor_of(request), path_id(request, "executor_id"), from_at=from_at, until_at=until_at
    )
    return answer(matrix_view(await while_present(request, asked)))


def run_delay_view(found: RunDelay) -> RunDelayJson:
    """The delay of a run as JSON."""
    return {
        "run_id": found.run_id,
        "due_at": instant(found.due_at),
        "started_at": instant(found.started_at),
        "measured": found.is_measured,
        "delay_ms": found.ms,
        "parts": [_part(each) for each in found.parts],
        "unknown_before": instant(found.unknown_before),
    }


def _part(part: ShownPart) -> DelayPartJson:
    return {
        "kind": part.kind,
        "ms": part.ms,
        "causes": [
            {
                "run_id": cause.run_id,
                "job_id": cause.job_id,
                "job_name": cause.job_name,
                "ms": cause.ms,
            }
            for cause in part.causes
        ],
        "more_causes": part.more_causes,
        "more_ms": part.more_ms,
    }


def matrix_view(found: ExecutorDelays) -> DelayMatrixJson:
    """A matrix as JSON."""
    matrix = found.matrix
    return {
        "executor_id": found.executor_id,
        "executor_name": found.executor_name,
        "from": instant(found.from_at),
        "until": instant(found.until_at),
        "cut_at": instant(found.cut_at),
        "runs": matrix.runs,
        "delay_ms": sum(matrix.kinds.values()),
        "kinds": matrix.kinds,
        "causes": [
            _cause(cause, job) for cause, job in zip(matrix.causes, found.causes, strict=True)
        ],
        "other_causes": matrix.other_causes,
        "by_others_ms": matrix.others_ms,
        "rows": [_row(row, job) for row, job in zip(matrix.rows, found.rows, strict=True)],
    }


def _cause(cause: CausingJob, job: ShownJob) -> CausingJobJson:
    return {
        "job_id": job.job_id,
        "job_name": job.name,
        "caused_ms": cause.ms,
        "to_itself_ms": cause.to_itself,
    }


def _row(row: DelayedJob, job: ShownJob | None) -> DelayedJobJson:
    return {
        "job_id": None if job is None else job.job_id,
        "job_name": None if job is None else job.name,
        "jobs": row.jobs,
        "runs": row.runs,
        "delay_ms": row.ms,
        "kinds": row.kinds,
        "caused_by_ms": list(row.caused_by),
        "by_others_ms": row.by_others,
        "uncharged_ms": row.uncharged,
    }
