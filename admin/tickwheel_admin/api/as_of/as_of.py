"""/api/v1/as-of: how it was at a past instant; and why a job did or did not run."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant, instants
from tickwheel_admin.api.as_of.shapes import (
    ChangeThenJson,
    MinuteOfJobJson,
    MinuteReasonJson,
    NodeThenJson,
    PastFailureJson,
    PauseThenJson,
    PictureJson,
    RevisionThenJson,
    RunMinuteJson,
    RunThenJson,
    TriggerMinuteJson,
    TriggerThenJson,
)
from tickwheel_admin.api.inputs import path_id, query_fields
from tickwheel_admin.domain.as_of.runs import StandingThen
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.triggers.reason import Reason
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.as_of.service import (
    PastPicture,
    RevisionThen,
    ShownChange,
    ShownFailure,
    ShownNode,
    ShownPause,
    ShownRun,
    ShownTrigger,
)
from tickwheel_admin.services.as_of.why import MinuteOfJob, RunInMinute, TriggerInMinute
from tickwheel_admin.web.i18n import language_of, translate
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.input_fields import optional_id
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_AT = instant_input("at", "The instant, at most seven days back.", required=True)
_EXECUTOR = optional_id("executor_id", "Of this executor.")
_JOB = optional_id("job_id", "Of this job.")


@routes.get(
    "/api/v1/as-of",
    permission=Permission.VIEW,
    api=True,
    query=(_AT, _EXECUTOR, _JOB),
    answers=PictureJson,
)
async def get_past(request: web.Request) -> web.Response:
    """How everything was at a past instant, or an executor, or a job."""
    fields = query_fields(request)
    at, executor_id, job_id = _instant(fields), _EXECUTOR.of(fields), _JOB.of(fields)
    raise_if_any(fields.problems)
    picture = await request.app[SERVICES].time_machine.picture(
        actor_of(request), at=at, executor_id=executor_id, job_id=job_id
    )
    return answer(_picture_view(picture, language_of(request)))


@routes.get(
    "/api/v1/jobs/{job_id:[0-9]{1,18}}/why",
    permission=Permission.VIEW,
    api=True,
    query=(_AT,),
    answers=MinuteOfJobJson,
)
async def get_why(request: web.Request) -> web.Response:
    """Why a job did or did not run in a past minute, by what was the case then."""
    fields = query_fields(request)
    at = _instant(fields)
    raise_if_any(fields.problems)
    found = await request.app[SERVICES].why_then.why(
        actor_of(request), path_id(request, "job_id"), at=at
    )
    return answer(_minute_view(found, language_of(request)))


def _instant(fields: Fields) -> int:
    return _AT.of(fields) or 0  # without it, the request is refused


def _picture_view(picture: PastPicture, language: str) -> PictureJson:
    counts = picture.counts
    return {
        "at": instant(picture.at),
        "is_kept": picture.is_kept,
        "counts": {
            "planned": counts.get(StandingThen.PLANNED, 0),
            "queued": counts.get(StandingThen.QUEUED, 0),
            "parked": counts.get(StandingThen.PARKED, 0),
            "dispatched": counts.get(StandingThen.DISPATCHED, 0),
            "running": counts.get(StandingThen.RUNNING, 0),
        },
        "counts_are_cut": picture.is_cut,
        "runs": [_run_view(each) for each in picture.runs],
        "failures": [_failure_view(each) for each in picture.failures],
        "failure_count": picture.failure_count,
        "failures_are_cut": picture.failures_are_cut,
        "pauses": [_pause_view(each) for each in picture.pauses],
        "nodes": [_node_view(each) for each in picture.nodes],
        "node_count": picture.node_count,
        "slots": picture.slots,
        "slots_in_use": picture.in_use,
        "changes": [_change_view(each) for each in picture.changes],
        "changes_are_cut": picture.changes_are_cut,
        "revision": _revision_view(picture.revision),
        "triggers": [_trigger_view(each, language) for each in picture.triggers],
    }


def _run_view(shown: ShownRun) -> RunThenJson:
    then, run = shown.then, shown.then.run
    return {
        "run_id": run.id,
        "standing": then.standing,
        "since": instant(then.since),
        "attempt": then.attempt,
        "node_id": then.node_id,
        "node_name": shown.node_name,
        "executor_id": run.executor_id,
        "executor_name": shown.executor_name,
        "job_id": run.job_id,
        "job_name": shown.job_name,
        "job_revision": run.job_revision,
        "trigger_id": run.trigger_id,
        "scheduled_at": instant(run.scheduled_at),
        "state": run.state,
        "ended_at": instant(run.ended_at),
    }


def _failure_view(shown: ShownFailure) -> PastFailureJson:
    run = shown.run
    return {
        "run_id": run.id,
        "state": run.state,
        "ended_at": instant(run.ended_at),
        "executor_id": run.executor_id,
        "executor_name": shown.executor_name,
        "job_id": run.job_id,
        "job_name": shown.job_name,
        "job_revision": run.job_revision,
        "node_id": run.node_id,
        "message": shown.message,
    }


def _node_view(shown: ShownNode) -> NodeThenJson:
    period = shown.period
    return {
        "node_id": period.node_id,
        "name": period.name,
        "executor_id": period.executor_id,
        "executor_name": shown.executor_name,
        "slots": period.slots,
        "in_use": shown.in_use,
        "takes_runs": period.takes_runs,
        "since": instant(period.from_at),
    }


def _pause_view(shown: ShownPause) -> PauseThenJson:
    pause = shown.pause
    return {
        "executor_id": pause.executor_id or None,
        "executor_name": shown.executor_name,
        "paused_at": instant(pause.paused_at),
        "resumed_at": instant(pause.resumed_at),
    }


def _change_view(shown: ShownChange) -> ChangeThenJson:
    node, item = shown.node, shown.item
    if node is not None:
        return {
            "at": instant(shown.at),
            "change": f"node.{node.event.value}",
            "name": node.name,
            "object_id": node.node_id,
            "executor_id": node.executor_id,
            "executor_name": shown.executor_name,
            "job_name": None,
            "by": None,
        }
    name = None if item is None else item.detail.get("name")
    return {
        "at": instant(shown.at),
        "change": "" if item is None else item.action,
        "name": None if name is None else str(name),
        "object_id": None if item is None else item.object_id,
        "executor_id": None if item is None else item.executor_id,
        "executor_name": None if item is None else item.executor_name,
        "job_name": None if item is None else item.job_name,
        "by": (item.user_name or None) if item is not None else None,
    }


def _revision_view(revision: RevisionThen | None) -> RevisionThenJson | None:
    if revision is None:
        return None
    return {
        "revision": revision.number,
        "made_at": instant(revision.made_at),
        "made_by": revision.made_by,
    }


def _trigger_view(shown: ShownTrigger, language: str) -> TriggerThenJson:
    period = shown.period
    return {
        "trigger_id": period.trigger_id,
        "version": period.version,
        "description": _described(period.spec, language),
        "paused": period.is_idle,
        "next_fire_at": instant(shown.next_fire_at),
    }


def _described(spec: TriggerSpec, language: str) -> str:
    return spec.describe(lambda text: translate(text, {}, language))


def _minute_view(found: MinuteOfJob, language: str) -> MinuteOfJobJson:
    return {
        "job_id": found.job.id,
        "job_name": found.job.config.name,
        "from": instant(found.from_at),
        "until": instant(found.until_at),
        "revision": _revision_view(found.revision),
        "triggers": [_trigger_minute_view(each, language) for each in found.triggers],
        "runs": [_run_minute_view(each, language) for each in found.runs],
        "node_count": found.nodes,
        "slots": found.slots,
        "slots_in_use": found.in_use,
    }


def _trigger_minute_view(told: TriggerInMinute, language: str) -> TriggerMinuteJson:
    minute = told.minute
    reasons = [*minute.reasons, *([] if told.why_without is None else [told.why_without])]
    return {
        "trigger_id": minute.period.trigger_id,
        "version": minute.period.version,
        "description": _described(minute.period.spec, language),
        "fires": instants(minute.fires),
        "without_run": instants(told.without_run),
        "next_fire_at": instant(minute.next_at),
        "reasons": [_reason_view(each, language) for each in reasons],
    }


def _run_minute_view(told: RunInMinute, language: str) -> RunMinuteJson:
    run, then, waited = told.run, told.then, told.waited_for
    return {
        "run_id": run.id,
        "scheduled_at": instant(run.scheduled_at),
        "standing": None if then is None else then.standing,
        "since": None if then is None else instant(then.since),
        "node_id": run.node_id if then is None else then.node_id,
        "node_name": told.node_name,
        "state": run.state,
        "started_at": instant(run.started_at),
        "ended_at": instant(run.ended_at),
        "reason": run.reason,
        "message": told.message,
        "waited_for": None if waited is None else _reason_view(waited.reason, language),
        "waited_for_runs": [] if waited is None else list(waited.runs),
    }


def _reason_view(reason: Reason, language: str) -> MinuteReasonJson:
    return {"code": reason.code, "text": translate(reason.template, reason.params, language)}
