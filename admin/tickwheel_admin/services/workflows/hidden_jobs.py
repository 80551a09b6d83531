"""The hidden jobs of a workflow: one for each handler and script among its steps.

They are written in the transaction that writes the workflow, and its graph names their revisions.
A step that keeps its key and its executor keeps its job, so its runs stay together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.input.job import without_source
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.runs import script as scripts
from tickwheel_admin.domain.workflows.graph import (
    HandlerStep,
    InlineJob,
    ScriptStep,
    Step,
    Workflow,
)
from tickwheel_admin.store.jobs.hidden_jobs import (
    add_hidden_jobs,
    forget_hidden_jobs,
    hidden_jobs,
    revise_hidden_job,
)

MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineStep:
    """A step with what its hidden job says."""

    index: int
    key: str
    executor_id: int
    config: JobConfig


def inline_steps(config: JobConfig, *, job_id: int, executor_id: int) -> Iterator[InlineStep]:
    """The steps of a job's workflow that have a hidden job; none if it is none.

    Args:
        job_id: of the workflow.
        executor_id: of the workflow, whose steps run there unless they say where.
    """
    if config.workflow is None:
        return
    for index, step in enumerate(config.workflow.steps):
        body = step.body
        if isinstance(body, HandlerStep | ScriptStep):
            place = executor_id if body.executor_id is None else body.executor_id
            is_own = place == executor_id
            name = _name(config.name, step.key, job_id, is_own=is_own)
            hidden = _hidden_config(config, step, body, name)
            yield InlineStep(index=index, key=step.key, executor_id=place, config=hidden)


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


def _hidden_config(
    config: JobConfig, step: Step, body: HandlerStep | ScriptStep, name: str
) -> JobConfig:
    script = body.script if isinstance(body, ScriptStep) else None
    return JobConfig(
        name=name,
        handler=body.handler if isinstance(body, HandlerStep) else scripts.HANDLER,
        script=script,
        description=step.description,
        owner=config.owner,
        tags=config.tags,
        # Values in it are put in when the step starts; what stays as it is here may name secrets.
        parameters=step.parameters,
        routing=body.rules.routing,
        priority=config.priority if body.rules.priority is None else body.rules.priority,
        pool=body.rules.pool,
        timeout_ms=body.rules.timeout_ms,
        retry=body.rules.retry,
    )


def _name(workflow: str, key: str, workflow_id: int, *, is_own: bool) -> str:
    """Unique among the hidden jobs of an executor, as the workflow's name is among its jobs.

    On another executor another workflow may have that name, and two long names may differ in what
    is cut off: then it says the workflow's id.

    Args:
        is_own: the step runs on the workflow's executor.
    """
    end = f"/{key}"
    if not is_own or len(workflow) + len(end) > MAX_NAME_CHARS:
        end = f"/{key} ({workflow_id})"
    return workflow[: MAX_NAME_CHARS - len(end)] + end
