"""What alarms are made of beside their signals: jobs, runs, triggers, nodes and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import PUT_OFF_MS, Origin, RunState
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import queued_for
from tickwheel_admin.store.database.tables import ALIVE, executor, job, node, run, trigger

BATCH = 500  # rows that are looked up at once
LATE_READ = 5_000  # waiting runs of one executor that are looked at
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmedJob:
    """As much of a job as alarms tell; also of one that is deleted."""

    id: int
    name: str
    executor_id: int
    executor_name: str
    owner: str
    tags: tuple[str, ...]
    usual_ms: int  # of its last runs; 0: nobody knows
    is_deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LateStart:
    """Runs of a job that wait although they are due."""

    job_id: int
    are_steps: bool  # of workflows
    run_id: int  # the oldest of them
    due_at: int  # when it was due
    count: int


def alarmed_jobs(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, AlarmedJob]:
    """The jobs that exist, or did."""
    return {
        row.id: _job(row)
        for some in _batches(job_ids)
        for row in conn.execute(_JOBS.where(job.c.id.in_(some)))
    }


def jobs_in_scope(
    conn: sa.Connection, *, executor_id: int | None, after: int, limit: int
) -> list[AlarmedJob]:
    """Jobs by id, those after one: of an executor, or all of them."""
    wanted = _JOBS.where(job.c.deleted_at == ALIVE, job.c.id > after)
    if executor_id is not None:
        wanted = wanted.where(job.c.executor_id == executor_id)
    return [_job(row) for row in conn.execute(wanted.order_by(job.c.id).limit(limit))]


_JOBS = sa.select(
    job.c.id,
    job.c.name,
    job.c.executor_id,
    job.c.owner,
    job.c.tags,
    job.c.usual_ms,
    job.c.deleted_at,
    executor.c.name.label("executor_name"),
).outerjoin(executor, executor.c.id == job.c.executor_id)


def _job(row: Any) -> AlarmedJob:
    return AlarmedJob(
        id=row.id,
        name=row.name,
        executor_id=row.executor_id,
        executor_name=row.executor_name or "",
        owner=row.owner,
        tags=tuple(filter(None, row.tags.split(","))),
        usual_ms=row.usual_ms,
        is_deleted=row.deleted_at != ALIVE,
    )


def retries_and_steps(conn: sa.Connection, run_ids: Iterable[int]) -> tuple[set[int], set[int]]:
    """(those of the runs that are retries by hand, those that are steps of workflows)."""
    retries: set[int] = set()
    steps: set[int] = set()
    is_step = run.c.origin == Origin.STEP.value
    for some in _batches(run_ids):
        found = sa.select(run.c.id, is_step.label("is_step")).where(
            run.c.id.in_(some), sa.or_(run.c.retry_of.is_not(None), is_step)
        )
        for row in conn.execute(found):  # a step is never a retry: its workflow is
            (steps if row.is_step else retries).add(row.id)
    return retries, steps


def run_messages(conn: sa.Connection, run_ids: Iterable[int]) -> dict[int, str]:
    """By run, what it failed with; those without a word are left out."""
    return {
        row.id: row.message
        for some in _batches(run_ids)
        for row in conn.execute(sa.select(run.c.id, run.c.message).where(run.c.id.in_(some)))
        if row.message
    }


def jobs_of_triggers(conn: sa.Connection, trigger_ids: Iterable[int]) -> dict[int, int]:
    """By trigger, its job."""
    return {
        row.id: row.job_id
        for some in _batches(trigger_ids)
        for row in conn.execute(
            sa.select(trigger.c.id, trigger.c.job_id).where(trigger.c.id.in_(some))
        )
    }


def broken_triggers_among(conn: sa.Connection, trigger_ids: Iterable[int]) -> set[int]:
    """Those of the triggers that are in error still."""
    return {
        trigger_id
        for some in _batches(trigger_ids)
        for trigger_id in conn.execute(
            sa.select(trigger.c.id).where(
                trigger.c.id.in_(some), trigger.c.state == TriggerState.ERROR.value
            )
        ).scalars()
    }


def nodes_with_executors(
    conn: sa.Connection, node_ids: Iterable[int]
) -> dict[int, tuple[str, int, str]]:
    """By node, (its name, its executor, the executor's name)."""
    return {
        row.id: (row.name, row.executor_id, row.executor_name or "")
        for some in _batches(node_ids)
        for row in conn.execute(
            sa.select(
                node.c.id, node.c.name, node.c.executor_id, executor.c.name.label("executor_name")
            )
            .outerjoin(executor, executor.c.id == node.c.executor_id)
            .where(node.c.id.in_(some))
        )
    }


def first_successes(
    conn: sa.Connection, job_ids: Sequence[int], *, since: int, until: int
) -> dict[int, int]:
    """When the first run of each job succeeded within this time, both ends included; jobs without
    one are left out.

    Reads the runs that were scheduled since a day before.
    """
    found: dict[int, int] = {}
    for some in _batches(job_ids):
        rows = conn.execute(
            reading(
                sa.select(run.c.job_id, sa.func.min(run.c.ended_at).label("ended_at"))
                .where(
                    run.c.job_id.in_(some),
                    run.c.scheduled_at >= since - DAY_MS,
                    run.c.scheduled_at <= until,
                    run.c.state == RunState.SUCCEEDED.value,
                    run.c.ended_at >= since,
                    run.c.ended_at <= until,
                    run.c.fire_id.is_(None),
                    # A backfill does the work of other days.
                    run.c.origin.not_in((Origin.TRY.value, Origin.BACKFILL.value)),
                )
                .group_by(run.c.job_id),
                run,
                "ix_run_of_job",
            )
        )
        found |= {row.job_id: int(row.ended_at) for row in rows}
    return found


def late_starts(
    conn: sa.Connection, executor_id: int, *, before: int, now: int
) -> tuple[list[LateStart], bool]:
    """(jobs of an executor with runs that were due before then and have not started, those with
    steps apart; whether that is all).

    Looks at its `LATE_READ` oldest due runs; one that was put off for a moment is among them. With
    more there may be others, and none is known not to wait.
    """
    due = reading(
        sa.select(run.c.id)
        .where(queued_for(executor_id), run.c.due_at <= now + PUT_OFF_MS)
        .order_by(run.c.due_at)
        .limit(LATE_READ),
        run,
        "ix_run_due",
    )
    ids = list(conn.execute(due).scalars())
    first_due = run.c.scheduled_at + sa.func.coalesce(run.c.jitter_ms, 0)
    # A missed fire is due when it is made up for, and a request when it is made.
    due_at = sa.case((first_due > run.c.created_at, first_due), else_=run.c.created_at)
    rows = [
        (int(row.due), row.id, row.job_id, row.origin == Origin.STEP.value)
        for some in _batches(ids)
        for row in conn.execute(
            sa.select(run.c.id, run.c.job_id, run.c.origin, due_at.label("due")).where(
                run.c.id.in_(some),
                run.c.tries == 0,
                due_at <= before,
                run.c.origin != Origin.BACKFILL.value,  # it waits for slots on purpose
            )
        )
    ]
    found: dict[tuple[int, bool], LateStart] = {}
    for waits_since, run_id, job_id, is_step in sorted(rows, reverse=True):  # the oldest comes last
        before_it = found.get((job_id, is_step))
        found[job_id, is_step] = LateStart(
            job_id=job_id,
            are_steps=is_step,
            run_id=run_id,
            due_at=waits_since,
            count=1 if before_it is None else before_it.count + 1,
        )
    return [found[key] for key in sorted(found)], len(ids) < LATE_READ


def _batches(ids: Iterable[int]) -> list[list[int]]:
    wanted = sorted(set(ids))
    return [wanted[at : at + BATCH] for at in range(0, len(wanted), BATCH)]
