"""/api/v1/trends: how runs went over weeks, days or hours."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.api.inputs import query_fields
from tickwheel_admin.api.overview.shapes import TrendBucketJson, TrendsJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.runs.trend import TrendBucket, TrendStep
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.input_fields import member, optional_id, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_STEP = member(
    "step", "The length of a bucket; weeks begin on Monday.", TrendStep, default=TrendStep.WEEK
)
_EXECUTOR = optional_id("executor_id", "Runs of this executor; of all that you see.")
_JOB = optional_id("job_id", "Runs of this job only, as far back as the ledger has them.")
_TAG = text("tag", "Runs of the jobs that have this tag now, of those that you see.", max_chars=50)
_FROM = instant_input("from", "In the first bucket; 12 weeks, 28 days or 2 days of hours ago.")
_TO = instant_input("to", "The end of the last bucket; now.")
_ZONE = text("timezone", "IANA name; `UTC`.", max_chars=100)


@routes.get(
    "/api/v1/trends",
    permission=Permission.VIEW,
    api=True,
    query=(_STEP, _EXECUTOR, _JOB, _TAG, _FROM, _TO, _ZONE),
    answers=TrendsJson,
)
async def get_trends(request: web.Request) -> web.Response:
    """Runs, failures, durations and start delays by week, day or hour, within your roles."""
    fields = query_fields(request)
    step, executor_id, job_id = _STEP.of(fields), _EXECUTOR.of(fields), _JOB.of(fields)
    tag = _TAG.of(fields)
    from_at, to_at, zone = _FROM.of(fields), _TO.of(fields), _ZONE.of(fields)
    raise_if_any(fields.problems)
    found = await request.app[SERVICES].trends.get(
        actor_of(request),
        step=step,
        executor_id=executor_id,
        job_id=job_id,
        tag=tag or None,
        from_at=from_at,
        to_at=to_at,
        zone=zone or "UTC",
    )
    return answer(
        {
            "step": found.step,
            "timezone": found.zone,
            "buckets": [_bucket_view(each) for each in found.buckets],
            "whole": _bucket_view(found.whole),
            "week": None
            if found.week is None
            else [
                [{"runs": each.runs, "failures": each.failures} for each in day]
                for day in found.week
            ],
        }
    )


def _bucket_view(bucket: TrendBucket) -> TrendBucketJson:
    return {
        "start": instant(bucket.start_at),
        "end": instant(bucket.end_at),
        "succeeded": bucket.succeeded,
        "failed": bucket.failed,
        "timed_out": bucket.timed_out,
        "cancelled": bucket.cancelled,
        "failure_rate": bucket.failure_rate,
        "duration_p50_ms": bucket.durations.quantile(0.5),
        "duration_p95_ms": bucket.durations.quantile(0.95),
        "start_delay_p50_ms": bucket.delays.quantile(0.5),
        "start_delay_p95_ms": bucket.delays.quantile(0.95),
        "is_estimated": bucket.is_estimated,
    }
