"""The runs that the instants of a backfill are written as."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from tickwheel_admin.domain.backfills.backfill import Backfill
from tickwheel_admin.domain.backfills.instants import DueInstant
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.planning.fires import LAST_PRIORITY, merged_parameters, new_run
from tickwheel_admin.domain.runs.run import Origin, Run
from tickwheel_admin.domain.triggers.spec import TriggerSpec


def parameters_of(job: Job, spec: TriggerSpec, parameters: str | None) -> str | None:
    """What runs are given: the job's, the trigger's and the backfill's; None: the job's alone."""
    own = [each for each in (spec.parameters, parameters) if each is not None]
    if not own:
        return None
    given = job.config.parameters
    for each in own:
        given = merged_parameters(given, each)
    return given


def runs_of_slice(
    backfill: Backfill,
    job: Job,
    instants: Sequence[DueInstant],
    *,
    run_ids: Sequence[int],
    now: int,
) -> list[Run]:
    """A run for each instant, due now, behind everything else, with no time by which it must start.

    They belong to no trigger: they are no fires of it, and the hours in which they run are those of
    now. The instant is what their handlers are told.
    """
    parameters = parameters_of(job, backfill.spec, backfill.parameters)
    return [
        structs.replace(
            new_run(
                job.config,
                id=run_id,
                executor_id=job.executor_id,
                job_id=job.id,
                revision=job.revision,
                origin=Origin.BACKFILL,
                scheduled_at=now,
                priority=LAST_PRIORITY,
                parameters=parameters,
                interval_start=each.previous_at,
                now=now,
            ),
            nominal_at=each.at,
            request_key=backfill.request_key(each.at),
            requested_by=backfill.requested_by,
            deadline_at=None,
        )
        for each, run_id in zip(instants, run_ids, strict=False)
    ]
