"""Who may run a job as it was: what has been taken out of it does not come back without rights."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.errors import NotAllowed
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.runs.script import Script
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows.answering import permission_to_answer
from tickwheel_admin.domain.workflows.graph import (
    Approval,
    HandlerStep,
    JobStep,
    ScriptStep,
    Step,
    SubWorkflow,
    Workflow,
)
from tickwheel_admin.services.handlers.scripts import may_run_again
from tickwheel_admin.store.jobs.child_links import named_jobs


def check_old_revision(conn: sa.Connection, actor: Actor, job: Job, old: JobConfig) -> None:
    """Refuse to run an old revision of a job to whoever may not run what it says.

    Args:
        job: as it is now; the actor may operate it.

    Raises:
        NotAllowed: the revision has a script that the job has no more, or is a workflow with a
            step that it has no more and that the actor may not run, or without an approval that it
            has now and that is not for the actor to give.
    """
    may_run_again(actor, job.executor_id, script=old.script, now=job.config.script)
    if old.workflow is not None:
        _check_steps(conn, actor, job, old.workflow, job.config.workflow)


def _check_steps(
    conn: sa.Connection, actor: Actor, job: Job, old: Workflow, now: Workflow | None
) -> None:
    kept = old.unchanged_since(now)
    for step in () if now is None else now.steps:
        if isinstance(step.body, Approval) and step.key not in kept:
            asked = permission_to_answer(actor, step, job.executor_id)
            if not actor.may(asked, job.executor_id):
                raise NotAllowed(
                    "workflow.new_approval",
                    "The workflow asks for the approval “%(step)s” now, which is not yours to give"
                    " and which this run did not have so. Retry with the current revision.",
                    step=step.key,
                )
    jobs = named_jobs(conn, old.job_ids)
    for step in old.steps:
        if step.key in kept:
            continue
        body = step.body
        executor_id: int | None = job.executor_id
        if isinstance(body, JobStep | SubWorkflow):
            # The step of a job that is gone fails when it starts.
            executor_id = jobs[body.job_id].executor_id if body.job_id in jobs else None
        elif isinstance(body, HandlerStep | ScriptStep) and body.executor_id is not None:
            executor_id = body.executor_id
        if executor_id is None:
            continue
        if not actor.may(Permission.OPERATE, executor_id):
            raise NotAllowed(
                "workflow.old_step",
                "The workflow has the step “%(step)s” no more as this run had it, and your role"
                " does not allow you to run it. Retry with the current revision.",
                step=step.key,
            )
        if isinstance(body, ScriptStep):
            current = _script_at(now, step, executor_id, job.executor_id)
            may_run_again(actor, executor_id, script=body.script, now=current)


def _script_at(now: Workflow | None, step: Step, executor_id: int, home: int) -> Script | None:
    """The script that the workflow runs now at this step, on this executor."""
    if now is None or step.key not in now.index_of:
        return None
    body = now.step(step.key).body
    if not isinstance(body, ScriptStep) or (body.executor_id or home) != executor_id:
        return None
    return body.script
