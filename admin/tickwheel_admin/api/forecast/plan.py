"""/api/v1/night-plan: what runs, what will, and which deadlines will be met."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.api.forecast.plan_shapes import (
    DeadlineForecastJson,
    ForecastScoreJson,
    NightPlanJson,
    PathStepJson,
    PlanRunJson,
    PlanSumJson,
    RemedyJson,
)
from tickwheel_admin.api.inputs import query_fields
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.forecast.plan import (
    MAX_HOURS,
    DeadlineForecast,
    ExecutorPlan,
    ForecastScore,
    PathStep,
    PlanBar,
    PlanSum,
    RemedyOutcome,
)
from tickwheel_admin.web.client import while_present
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import boolean, integer, optional_id, required_id
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

Names = Mapping[int, str]

routes = Routes()

_EXECUTOR = required_id("executor_id", "Runs of this executor.")
_NODE = optional_id("node_id", "Only runs on this node of it; without deadlines.")
_NODES = boolean(
    "nodes", "Let the router place predicted runs, so that each has its node; it takes longer."
)
_FROM = instant_input("from", "Where it begins, at most 12 hours ago; two hours ago if left out.")
_HOURS = integer("hours", "How far to look ahead.", low=1, high=MAX_HOURS, default=12)


@routes.get(
    "/api/v1/night-plan",
    permission=Permission.VIEW,
    api=True,
    query=(_EXECUTOR, _NODE, _NODES, _FROM, _HOURS),
    answers=NightPlanJson,
)
async def get_night_plan(request: web.Request) -> web.Response:
    """Simulate the next hours of an executor, and its deadlines."""
    fields = query_fields(request)
    executor_id, node_id = _EXECUTOR.of(fields), _NODE.of(fields)
    from_at, hours, nodes = _FROM.of(fields), _HOURS.of(fields), _NODES.of(fields)
    raise_if_any(fields.problems)
    asked = request.app[SERVICES].night_plans.get(
        actor_of(request),
        executor_id,
        node_id=node_id,
        nodes=nodes,
        from_at=from_at,
        hours=hours,
    )
    return answer(plan_view(await while_present(request, asked)))


def plan_view(found: ExecutorPlan) -> NightPlanJson:
    """The plan as JSON."""
    plan, names = found.plan, found.job_names
    basis = plan.basis
    return {
        "executor_id": found.executor_id,
        "node_id": found.node_id,
        "start": instant(found.from_at),
        "now": instant(found.now),
        "end": instant(plan.end),
        "truncated": plan.truncated,
        "slots": plan.slots,
        "past": [
            {
                "run_id": each.id,
                "job_id": each.job_id,
                "job_name": names.get(each.job_id),
                "state": each.state,
                "scheduled_at": instant(each.scheduled_at),
                "started_at": instant(each.started_at),
                "ended_at": instant(each.ended_at),
                "node_id": each.node_id,
                "parent_run_id": each.parent_run_id,
            }
            for each in found.past
        ],
        "past_sums": [_sum(each, names) for each in found.past_sums],
        "more_past_runs": found.more_past_runs,
        "runs": [_run(each, names) for each in plan.bars],
        "sums": [_sum(each, names) for each in plan.sums],
        "deadlines": [_deadline(each, names) for each in plan.deadlines],
        "more_deadlines": found.more_deadlines,
        "score": _score(found.score),
        "basis": {
            "draws": plan.draws,
            "jobs": basis.jobs,
            "measured_jobs": basis.measured_jobs,
            "measured_runs": basis.measured_runs,
            "measured_since": instant(basis.measured_since),
            "assumed_jobs": basis.assumed_jobs,
            "assumed_seconds": basis.assumed_ms / 1000,
            "workflows": basis.workflows,
            "assumed_workflows": basis.assumed_workflows,
            "open_runs": basis.open_runs,
            "more_open_runs": found.more_open_runs,
        },
    }


def _score(score: ForecastScore) -> ForecastScoreJson:
    return {
        "since": instant(score.since),
        "deadlines": score.deadlines,
        "missed": score.missed,
        "warned": score.warned,
        "warned_and_missed": score.warned_and_missed,
        "end_error_seconds": None if score.error_ms is None else score.error_ms / 1000,
    }


def _run(bar: PlanBar, names: Names) -> PlanRunJson:
    return {
        "run_id": bar.run_id,
        "job_id": bar.job_id,
        "job_name": names.get(bar.job_id),
        "running": bar.is_running,
        "due_at": instant(bar.due_at),
        "start_at": instant(bar.start_at),
        "end_at": instant(bar.end_at),
        "slow_end_at": instant(bar.slow_end_at),
        "node_id": bar.node_id,
        "after_job_id": _seen(bar.after_job_id, names),
        "share": round(bar.share, 3),
    }


def _sum(each: PlanSum, names: Names) -> PlanSumJson:
    return {
        "job_id": each.job_id,
        "job_name": names.get(each.job_id),
        "runs": each.runs,
        "first_at": instant(each.first_at),
        "last_at": instant(each.last_at),
        "busy_seconds": each.busy_ms / 1000,
    }


def _deadline(each: DeadlineForecast, names: Names) -> DeadlineForecastJson:
    late_ms = None if each.end_at is None or each.end_at <= each.at else each.end_at - each.at
    return {
        "rule_id": each.rule_id,
        "job_id": each.job_id,
        "job_name": names.get(each.job_id),
        "deadline_at": instant(each.at),
        "verdict": each.verdict,
        "end_at": instant(each.end_at),
        "slow_end_at": instant(each.slow_end_at),
        "late_seconds": None if late_ms is None else late_ms / 1000,
        "miss_share": round(each.miss_share, 3),
        "path": [_step(step, names) for step in each.path],
        "remedies": [_remedy(outcome, names) for outcome in each.remedies],
    }


def _step(step: PathStep, names: Names) -> PathStepJson:
    is_seen = step.job_id in names
    return {
        "job_id": _seen(step.job_id, names),
        "job_name": names.get(step.job_id),
        "run_id": step.run_id if is_seen else None,
        "due_at": instant(step.due_at),
        "start_at": instant(step.start_at),
        "end_at": instant(step.end_at),
        "origin": step.origin,
        "waits_for": step.waits_for,
        "wait_seconds": step.wait_ms / 1000,
        "holders": [
            {
                "job_id": _seen(holder.job_id, names),
                "job_name": names.get(holder.job_id),
                "runs": holder.runs,
                "held_seconds": holder.held_ms / 1000,
            }
            for holder in step.holders
        ],
    }


def _remedy(outcome: RemedyOutcome, names: Names) -> RemedyJson:
    remedy = outcome.remedy
    seen = [job_id for job_id in remedy.job_ids if job_id in names]
    return {
        "kind": remedy.kind,
        "job_ids": seen,
        "job_names": [names[job_id] for job_id in seen],
        "other_jobs": len(remedy.job_ids) - len(seen),
        "slots": remedy.slots,
        "end_at": instant(outcome.end_at),
        "gain_seconds": None if outcome.gain_ms is None else outcome.gain_ms / 1000,
        "meets_deadline": outcome.makes_it,
    }


def _seen(job_id: int | None, names: Names) -> int | None:
    return job_id if job_id in names else None
