"""/api/v1/what-if: what changes would bring before they are saved."""

from __future__ import annotations

from typing import Annotated, TypedDict

from aiohttp import web
from msgspec import Meta

from tickwheel_admin.api.answers import answer, instant, instants
from tickwheel_admin.api.forecast.shapes import (
    ChangeWhatIf,
    ForecastHourJson,
    ForecastJobJson,
    ForecastSideJson,
    JobDifferenceJson,
    WhatIfJson,
)
from tickwheel_admin.api.inputs import body_fields
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.forecast.proposed import MAX_CHANGES
from tickwheel_admin.services.forecast.service import (
    MAX_HOURS,
    ForecastHour,
    ForecastJobFigures,
    ForecastSide,
    JobDifference,
    WhatIf,
)
from tickwheel_admin.web.client import while_present
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given, integer
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_CHANGES = given(
    "changes",
    "What would be saved, one after the other.",
    Annotated[list[ChangeWhatIf], Meta(min_length=1, max_length=MAX_CHANGES)],
    required=True,
)
_HOURS = integer("hours", "How far to look.", low=1, high=MAX_HOURS, default=24)


@routes.post(
    "/api/v1/what-if",
    permission=Permission.VIEW,
    api=True,
    body=(_CHANGES, _HOURS),
    answers=WhatIfJson,
)
async def what_if(request: web.Request) -> web.Response:
    """Simulate the next hours with and without some changes. Changes nothing."""
    fields = await body_fields(request)
    changes, hours = _CHANGES.of(fields), _HOURS.of(fields)
    raise_if_any(fields.problems)
    asked = request.app[SERVICES].forecasts.what_if(actor_of(request), changes, hours=hours)
    return answer(what_if_view(await while_present(request, asked)))


def what_if_view(found: WhatIf) -> WhatIfJson:
    """The answer as JSON."""
    compared = found.comparison
    basis = compared.basis
    return {
        "start": instant(compared.start),
        "end": instant(compared.end),
        "truncated": compared.truncated,
        "fires_gone": compared.fires_gone,
        "fires_new": compared.fires_new,
        "before": _side(compared.before),
        "after": _side(compared.after),
        "jobs": [_difference(each, found) for each in compared.jobs],
        "more_jobs": compared.more_jobs,
        "spread": [
            {
                **_named(each.job_id, found),
                "trigger": each.trigger,
                "minute": each.minute,
                "new_minute": each.new_minute,
                "expression": each.expression,
                "busy_share": round(each.busy_share, 3),
                "new_busy_share": round(each.new_busy_share, 3),
            }
            for each in compared.spread
        ],
        "with_spread": None if compared.with_spread is None else _side(compared.with_spread),
        "basis": {
            "jobs": basis.jobs,
            "measured_jobs": basis.measured_jobs,
            "measured_runs": basis.measured_runs,
            "measured_since": instant(basis.measured_since),
            "assumed_jobs": basis.assumed_jobs,
            "assumed_seconds": basis.assumed_ms / 1000,
            "workflows": basis.workflows,
            "assumed_workflows": basis.assumed_workflows,
            "nodes": basis.nodes,
            "open_runs": basis.open_runs,
            "more_open_runs": found.more_open_runs,
            "executors": list(found.executor_ids),
            "executors_left_out": found.left_out,
        },
    }


def _side(side: ForecastSide) -> ForecastSideJson:
    return {
        "slots": side.slots,
        "runs": side.runs,
        "fires": side.fires,
        "start_delay_p50_seconds": _seconds(side.delay_p50_ms),
        "start_delay_p95_seconds": _seconds(side.delay_p95_ms),
        "late": side.late,
        "full_seconds": side.full_ms / 1000,
        "most_waiting": side.most_waiting,
        "skipped": side.skipped,
        "failed": side.failed,
        "missed_deadlines": side.missed,
        "slow_start_delay_p95_seconds": _seconds(side.slow_delay_p95_ms),
        "slow_missed_deadlines": side.slow_missed,
        "slow_skipped": side.slow_skipped,
        "hours": [_hour(each) for each in side.hours],
    }


def _hour(hour: ForecastHour) -> ForecastHourJson:
    return {
        "at": instant(hour.at),
        "fires": hour.fires,
        "waiting": hour.waiting,
        "busy": hour.busy,
        "busy_share": round(hour.busy_share, 3),
        "full_seconds": hour.full_ms / 1000,
        "start_delay_p50_seconds": _seconds(hour.delay_p50_ms),
        "start_delay_p95_seconds": _seconds(hour.delay_p95_ms),
        "late": hour.late,
        "skipped": hour.skipped,
    }


class _JobNameJson(TypedDict):
    job_id: int | None
    job_name: str | None


def _named(job_id: int, found: WhatIf) -> _JobNameJson:
    """A job that is not saved has no id that anybody could use."""
    return {
        "job_id": None if job_id in found.new_jobs else job_id,
        "job_name": found.job_names.get(job_id),
    }


def _difference(each: JobDifference, found: WhatIf) -> JobDifferenceJson:
    return {
        **_named(each.job_id, found),
        "before": _job(each.before),
        "after": _job(each.after),
        "fires_gone": each.fires_gone,
        "fires_new": each.fires_new,
        "first_gone": instants(each.first_gone),
        "first_new": instants(each.first_new),
        "starves": each.starves,
        "measured_runs": each.measured_runs,
        "duration_p50_seconds": _seconds(each.duration_p50_ms),
        "duration_p95_seconds": _seconds(each.duration_p95_ms),
    }


def _job(job: ForecastJobFigures | None) -> ForecastJobJson | None:
    if job is None:
        return None
    return {
        "runs": job.runs,
        "started": job.started,
        "waiting": job.waiting,
        "skipped": job.skipped,
        "failed": job.failed,
        "start_delay_p50_seconds": _seconds(job.delay_p50_ms),
        "start_delay_p95_seconds": _seconds(job.delay_p95_ms),
        "missed_deadlines": instants(job.missed),
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
