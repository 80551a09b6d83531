"""A night whose report comes too late, as a plan: two long jobs hold the slot of its load."""

from __future__ import annotations

from tests.admin.domain.forecast.situations import HOUR_MS, NOW, cron, job, node, situation
from tickwheel_admin.domain.forecast.deadline_record import ForecastScore
from tickwheel_admin.domain.forecast.night_plan import PlanDeadline, PlanRequest, plan_night
from tickwheel_admin.domain.forecast.situation import ForecastSituation, MeasuredRun
from tickwheel_admin.domain.jobs.children import ChildLink
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.forecast.plan import EndedRun, ExecutorPlan

MINUTE_MS = 60_000
NAMES = {1: "backup", 2: "snapshot", 3: "load", 4: "<report>", 5: "probe"}


def crowd(*, slots: int = 1) -> ForecastSituation:
    """Two long jobs that hold the slot when the load falls due, and its child, the report."""
    return situation(
        job(1, cron("0 1 * * *"), lasts_ms=2 * HOUR_MS),
        job(2, cron("1 1 * * *"), lasts_ms=90 * MINUTE_MS),
        job(3, cron("2 1 * * *"), lasts_ms=HOUR_MS, children=(ChildLink(job_id=4),)),
        job(4, lasts_ms=30 * MINUTE_MS),
        nodes=(node(slots=slots),),
    )


def crowded_plan(*, hidden: frozenset[int] = frozenset(), slots: int = 1) -> ExecutorPlan:
    """The plan of an executor at midnight.

    Args:
        hidden: jobs that the reader may not see.
    """
    lengths = [5 * MINUTE_MS] * 6 + [HOUR_MS] * 4
    measured = tuple(MeasuredRun(RunState.SUCCEEDED, each, 1) for each in lengths)
    probe = job(5, cron("0 6 * * *"), measured=measured)
    found = crowd(slots=slots)
    found = situation(*found.jobs, probe, nodes=found.nodes)
    until = NOW + 8 * HOUR_MS
    plan = plan_night(
        PlanRequest(
            situation=found,
            until=until,
            end=until + 2 * HOUR_MS,
            executor_id=1,
            deadlines=[
                PlanDeadline(rule_id=1, job_id=4, at=NOW + 5 * HOUR_MS, since=NOW),
                PlanDeadline(rule_id=1, job_id=3, at=NOW + 7 * HOUR_MS, since=NOW),
                PlanDeadline(rule_id=1, job_id=2, at=NOW + HOUR_MS, since=NOW, is_met=True),
            ],
        )
    )
    states = (RunState.SUCCEEDED, RunState.FAILED, RunState.SKIPPED)
    past = tuple(
        EndedRun(
            id=900 + number, job_id=number + 1, state=state, scheduled_at=NOW - HOUR_MS,
            started_at=None if state is RunState.SKIPPED else NOW - HOUR_MS,
            ended_at=NOW - HOUR_MS + 20 * MINUTE_MS, node_id=1, parent_run_id=None,
        )
        for number, state in enumerate(states)
    )  # fmt: skip
    return ExecutorPlan(
        executor_id=1,
        node_id=None,
        from_at=NOW - 2 * HOUR_MS,
        now=NOW,
        past=past,
        past_sums=(),
        more_past_runs=False,
        plan=plan,
        job_names={each: name for each, name in NAMES.items() if each not in hidden},
        workflows={},
        node_names={1: "node-1"},
        more_open_runs=False,
        more_deadlines=False,
        score=ForecastScore(
            since=NOW, deadlines=41, missed=11, warned=12, warned_and_missed=10, error_ms=180_000
        ),
    )
