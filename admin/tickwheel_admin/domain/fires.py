"""From a plan to the runs that are written for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from tickwheel_admin.domain.planning import Missed, Plan, fires_missed_run
from tickwheel_admin.domain.run import Origin, Run, RunState
from tickwheel_admin.domain.trigger import Trigger


def runs_of_plan(
    plan: Plan, trigger: Trigger, *, revision: int, priority: int, now: int, ids: Iterator[int]
) -> list[Run]:
    """The runs of a trigger's plan, oldest first; takes `runs_needed(plan)` ids."""
    runs: list[Run] = []
    for at in plan.fires:
        runs.append(_fire(trigger, at, revision, priority, now, next(ids)))
    if plan.missed is not None:
        run = _fire(trigger, plan.missed.last_at, revision, priority, now, next(ids))
        runs.insert(0, _made_up_for(run, plan.missed, trigger, now=now))
    return runs


def runs_needed(plan: Plan) -> int:
    """How many ids `runs_of_plan` takes."""
    return len(plan.fires) + (plan.missed is not None)


def _fire(trigger: Trigger, at: int, revision: int, priority: int, now: int, run_id: int) -> Run:
    return Run(
        id=run_id,
        executor_id=trigger.executor_id,
        job_id=trigger.job_id,
        job_revision=revision,
        trigger_id=trigger.id,
        origin=Origin.SCHEDULE,
        scheduled_at=at,
        priority=priority,
        created_at=now,
        state=RunState.QUEUED,
        due_at=at,
    )


def _made_up_for(run: Run, missed: Missed, trigger: Trigger, *, now: int) -> Run:
    # Data, not prose: the console says it in the reader's language and zone.
    told = msgspec.json.encode(
        {"missed": missed.count, "from": missed.first_at, "to": missed.last_at}
    ).decode()
    run = replace(run, origin=Origin.MISFIRE, reason="misfire", message=told)
    if fires_missed_run(trigger.spec.misfire):
        return run
    return replace(run, state=RunState.SKIPPED, ended_at=now)
