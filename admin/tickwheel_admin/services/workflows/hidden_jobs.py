"""The hidden jobs of a workflow: one for each handler and script among its steps.

They are written in the transaction that writes the workflow, and its graph names their revisions.
A step that keeps its key and its executor keeps its job, so its runs stay together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from tickwheel_admin.domain.input.job import without_source
from tickwheel_admin.domain.jobs.inline_steps import inline_steps
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.workflows.graph import InlineJob, Workflow
from tickwheel_admin.store.jobs.hidden_jobs import (
    add_hidden_jobs,
    forget_hidden_jobs,
    hidden_jobs,
    revise_hidden_job,
)


def kept_jobs(conn: sa.Connection, before: JobConfig | None) -> dict[tuple[str, int], Job]:
    """The hidden jobs of a workflow as it is, by key and executor."""
    if before is None or before.workflow is None:
        return {}
    inline = before.workflow.inline
    jobs = hidden_jobs(conn, [each.job_id for each in inline])
    found = ((each.step, jobs.get(each.job_id)) for each in inline)
    return {(key, job.executor_id): job for key, job in found if job is not None}


def save_hidden_jobs(
    conn: sa.Connection,
    config: JobConfig,
    *,
    job_id: int,
    executor_id: int,
    before: JobConfig | None,
    new_ids: Sequence[int],
    now: int,
    by: str,
) -> JobConfig:
    """Write what has changed of the hidden jobs; returns the workflow with links to them.

    Args:
        before: what the workflow's job says until now; None: it is new.
        new_ids: for new ones, at least as many as there are handlers and scripts among the steps.
    """
    kept = kept_jobs(conn, before)
    links: list[InlineJob] = []
    new: list[Job] = []
    free = iter(new_ids)
    wanted = list(inline_steps(config, job_id=job_id, executor_id=executor_id))
    places = {(each.key, each.executor_id) for each in wanted}
    # First, so that a new one may take the name of one that goes.
    gone = [job.id for place, job in kept.items() if place not in places]
    forget_hidden_jobs(conn, gone, now=now)
    for each in wanted:
        old = kept.get((each.key, each.executor_id))
        if old is None:
            added = Job(
                id=next(free),
                executor_id=each.executor_id,
                revision=1,
                config=each.config,
                paused=False,
                created_at=now,
                updated_at=now,
            )
            new.append(added)
            links.append(InlineJob(step=each.key, job_id=added.id, revision=1))
            continue
        revision = old.revision
        if without_source(old.config) != without_source(each.config):
            revise_hidden_job(conn, old, each.config, now=now, by=by)
            revision += 1
        links.append(InlineJob(step=each.key, job_id=old.id, revision=revision))
    add_hidden_jobs(conn, new, by=by)
    if config.workflow is None:
        return config
    return replace(config, workflow=replace(config.workflow, inline=tuple(links)))


def forget_all(conn: sa.Connection, workflow: Workflow | None, *, now: int) -> None:
    """The workflow is deleted, and its hidden jobs with it."""
    if workflow is not None:
        forget_hidden_jobs(conn, [each.job_id for each in workflow.inline], now=now)
