"""/api/v1/jobs/{job_id}/coverage: whether each interval of a job was processed once."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.api.backfills.shapes import CoverageJson, CoverageSegmentJson
from tickwheel_admin.api.inputs import ID, path_id, query_fields
from tickwheel_admin.domain.backfills.coverage import CoverageSegment, IntervalState, segments_of
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.backfills.coverage import CoverageRequest, TriggerCoverage
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.input_fields import optional_id
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_FROM = instant_input(
    "from", "The first instant; 30 days back, and no earlier than the job, if left out."
)
_UNTIL = instant_input("until", "The first instant that is not wanted; now if left out.")
_TRIGGER = optional_id("trigger_id", "Whose intervals; needed where the job has several triggers.")


@routes.get(
    f"/api/v1/jobs/{{job_id:{ID}}}/coverage",
    permission=Permission.VIEW,
    api=True,
    query=(_FROM, _UNTIL, _TRIGGER),
    answers=CoverageJson,
)
async def get_coverage(request: web.Request) -> web.Response:
    """Whether each interval was processed once: up to 10,000 intervals, oldest first."""
    fields = query_fields(request)
    wanted = CoverageRequest(
        from_at=_FROM.of(fields), until_at=_UNTIL.of(fields), trigger_id=_TRIGGER.of(fields)
    )
    raise_if_any(fields.problems)
    found = await request.app[SERVICES].backfills.coverage(
        actor_of(request), path_id(request, "job_id"), wanted
    )
    return answer(_view(found))


def _view(found: TriggerCoverage) -> CoverageJson:
    coverage = found.coverage
    return {
        "trigger_id": found.trigger.trigger.id,
        "start_at": instant(coverage.from_at),
        "end_at": instant(coverage.until_at),
        "next": instant(coverage.until_at) if coverage.more else None,
        "is_whole": coverage.is_whole,
        "holes": coverage.holes,
        "counts": {each.value: coverage.counts[each] for each in IntervalState},
        "segments": [_segment(each) for each in segments_of(coverage.intervals)],
    }


def _segment(segment: CoverageSegment) -> CoverageSegmentJson:
    return {
        "start_at": instant(segment.start_at),
        "first_at": instant(segment.first_at),
        "last_at": instant(segment.last_at),
        "state": segment.state,
        "reason": segment.reason,
        "intervals": segment.intervals,
        "run_ids": list(segment.run_ids),
    }
