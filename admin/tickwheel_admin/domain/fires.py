"""From a plan to the runs that are written for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from tickwheel_admin.domain.planning import Missed, Plan
from tickwheel_admin.domain.run import Origin, Run, RunState
from tickwheel_admin.domain.trigger import Trigger


def runs_of_plan(
    plan: Plan, trigger: Trigger, *, revision: int, priority: int, now: int, ids: Iterator[int]
) -> list[Run]:
    """The runs of a trigger's plan, oldest first; takes `runs_needed(plan)` ids."""

    def run(at: int, origin: Origin) -> Run:
        return Run(
            id=next(ids),
            executor_id=trigger.executor_id,
            job_id=trigger.job_id,
            job_revision=revision,
            trigger_id=trigger.id,
            origin=origin,
            scheduled_at=at,
            priority=priority,
            created_at=now,
            state=RunState.QUEUED,
            due_at=at,
        )

    runs = []
    if plan.missed is not None:
        runs.append(_skipped(run(plan.missed.last_at, Origin.MISFIRE), plan.missed, now=now))
    runs += (run(at, Origin.MISFIRE) for at in plan.caught_up)
    runs += (run(at, Origin.SCHEDULE) for at in plan.fires)
    return runs


def runs_needed(plan: Plan) -> int:
    """How many ids `runs_of_plan` takes."""
    return (plan.missed is not None) + len(plan.caught_up) + len(plan.fires)


def _skipped(run: Run, missed: Missed, *, now: int) -> Run:
    # Data, not prose: the console says it in the reader's language and zone.
    told = {"missed": missed.count, "from": missed.first_at, "to": missed.last_at}
    return replace(
        run,
        state=RunState.SKIPPED,
        reason="misfire",
        message=msgspec.json.encode(told).decode(),
        ended_at=now,
    )
