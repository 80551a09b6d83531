"""What becomes of a declared job, each a transaction of its own.

Locks in the order child links, executor, job: the executor's lock lets one declaration of it be
decided at a time. Each edit first asks whether an earlier try of it was committed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.input.job import MAX_TRIGGERS
from tickwheel_admin.domain.input.job_alarms import MAX_ALARMS
from tickwheel_admin.domain.jobs.declared_job import (
    CodeJobs,
    DeclaredJob,
    DeclaredReason,
    DeclaredState,
    Ruling,
)
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.workflows.graph import MAX_STEPS
from tickwheel_admin.services.events.transactions import AuditedEdit, AuditEntry
from tickwheel_admin.services.jobs.declared.configs import declared_config
from tickwheel_admin.services.jobs.edits import Edit, create_job, update_job
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.database.database import Repeat
from tickwheel_admin.store.executors.executors import get_executor
from tickwheel_admin.store.jobs import declared as store
from tickwheel_admin.store.jobs.child_links import lock_links_of
from tickwheel_admin.store.jobs.jobs import jobs_named, lock_job

APPLIED = Ruling(state=DeclaredState.APPLIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """How many ids of what a declaration may need."""

    triggers: int = 0
    alarms: int = 0
    steps: int = 0  # of a workflow, each of which may have a hidden job


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEdit(AuditedEdit):
    """Who decides, and the ids that this may need: they come from transactions of their own."""

    job_audit_id: int  # of what becomes of the job
    job_id: int  # for a new job
    trigger_ids: Sequence[int] = ()
    rule_ids: Sequence[int] = ()  # for alarm rules
    step_ids: Sequence[int] = ()  # for the hidden jobs of a workflow
    run_ids: Sequence[int] = ()  # for overdue fires


def accept(
    conn: sa.Connection,
    edit: DeclaredEdit,
    *,
    executor_id: int,
    name: str,
    rename_from: str | None,
    declared_at: int | None,
) -> int:
    """Make the job as it is declared; returns its id. Raises as `DeclaredJobs.accept`."""
    if done := edit.earlier(conn):
        return int(done.object_id or 0)
    seen = _get(conn, executor_id, name)
    config = declared_config(conn, edit.actor, executor_id, seen.raw)
    lock_links_of(conn, config)
    declared = _lock(conn, executor_id, name)
    if declared.raw != seen.raw:
        raise Repeat
    if declared_at is not None and declared.declared_at != declared_at:
        raise _changed()
    earlier = None if rename_from is None else _earlier(conn, declared, rename_from)
    if declared.ruling == APPLIED and declared.job_id is not None and earlier is None:
        return declared.job_id
    job_id, _ = make_job(conn, edit, declared, config, earlier)
    store.write_declared(conn, replace(declared, job_id=job_id, ruling=APPLIED))
    note(conn, edit, "declared.accepted", declared, job_id, renamed_from=rename_from)
    return job_id


def make_job(
    conn: sa.Connection,
    edit: DeclaredEdit,
    declared: DeclaredJob,
    config: JobConfig,
    earlier: DeclaredJob | None = None,
) -> tuple[int, str]:
    """Create or change the job; returns its id, and "created", "changed" or "unchanged".

    Args:
        earlier: the declaration whose job this is under a new name; it goes.
    """
    job_edit = Edit(
        actor=edit.actor,
        audit_id=edit.job_audit_id,
        trigger_ids=edit.trigger_ids,
        rule_ids=edit.rule_ids,
        run_ids=edit.run_ids,
        job_ids=edit.step_ids,
        by_code=True,
    )
    steps = () if config.workflow is None else config.workflow.inline_steps
    if (
        len(config.triggers) > len(edit.trigger_ids)
        or len(config.alarms) > len(edit.rule_ids)
        or len(steps) > len(edit.step_ids)
    ):
        # It is not the declaration that the ids were taken for, nor the one that was seen.
        raise _changed()
    job_id = declared.job_id if earlier is None else earlier.job_id
    if job_id is None:
        job_id = jobs_named(conn, declared.executor_id, [config.name]).get(config.name)
    if job_id is None:
        create_job(
            conn, job_edit, job_id=edit.job_id, executor_id=declared.executor_id, config=config
        )
        return edit.job_id, "created"
    job = lock_job(conn, job_id)
    if job is None:
        raise Repeat  # it was deleted while we waited for its lock
    revision = update_job(conn, job_edit, job_id=job_id, revision=job.revision, config=config)
    if earlier is not None:
        store.forget_declared(conn, earlier.executor_id, [earlier.name])
    return job_id, "unchanged" if revision == job.revision else "changed"


def ignore(conn: sa.Connection, edit: DeclaredEdit, *, executor_id: int, name: str) -> None:
    """Note that a person does not want it; raises as `DeclaredJobs.ignore`."""
    if edit.earlier(conn):
        return
    declared = _lock(conn, executor_id, name)
    if declared.ruling.state is DeclaredState.APPLIED:
        raise Conflict(
            "declared.applied",
            "The job is as code declares it. Take it out of code’s hands to edit it here, or"
            " delete it.",
        )
    ignored = Ruling(state=DeclaredState.IGNORED, reason=DeclaredReason.PERSON)
    if declared.ruling == ignored:
        return
    hold_job(conn, declared)
    store.write_declared(conn, replace(declared, ruling=ignored))
    note(conn, edit, "declared.ignored", declared, declared.job_id)


def release(conn: sa.Connection, edit: DeclaredEdit, *, executor_id: int, name: str) -> None:
    """Give the job to people; raises as `DeclaredJobs.release`."""
    if edit.earlier(conn):
        return
    declared = _lock(conn, executor_id, name)
    if declared.ruling.state is DeclaredState.RELEASED:
        return
    if declared.job_id is None:
        raise Conflict("declared.not_managed", "Code manages no job by this declaration.")
    now = store.names_declared_now(conn, [executor_id]).get(executor_id)
    if now is not None and name not in now:
        store.forget_declared(conn, executor_id, [name])
    else:
        released = Ruling(state=DeclaredState.RELEASED)
        store.write_declared(conn, replace(declared, job_id=None, ruling=released))
    note(conn, edit, "declared.released", declared, declared.job_id)


def set_policy(
    conn: sa.Connection, entry: AuditEntry, *, executor_id: int, policy: CodeJobs
) -> None:
    """Note the executor's policy."""
    found = get_executor(conn, executor_id, lock=True)
    if found is None:
        raise not_found()
    if found.protocol is not Protocol.TICKWHEEL:
        raise Conflict(
            "executor.other_protocol",
            "The nodes of “%(name)s” declare no jobs: only programs with the SDK do.",
            name=found.name,
        )
    if found.code_jobs is policy:
        return
    store.set_policy(conn, executor_id, policy)
    entry.write(
        "executor.code_jobs_set",
        executor_id,
        executor_id=executor_id,
        name=found.name,
        policy=policy.value,
    )


def needs_of(raw: str) -> Needs:
    """How many ids a declaration may need."""
    declared = json.loads(raw)
    triggers, alarms = declared.get("triggers"), declared.get("alarms")
    workflow = declared.get("workflow")
    steps = workflow.get("steps") if isinstance(workflow, dict) else None
    return Needs(
        triggers=min(len(triggers), MAX_TRIGGERS) if isinstance(triggers, list) else 0,
        alarms=min(len(alarms), MAX_ALARMS) if isinstance(alarms, list) else 0,
        steps=min(len(steps), MAX_STEPS) if isinstance(steps, list) else 0,
    )


def read_needs(conn: sa.Connection, executor_id: int, name: str) -> Needs:
    """The same of one that is known by its name."""
    return needs_of(_get(conn, executor_id, name).raw)


def hold_job(conn: sa.Connection, declared: DeclaredJob) -> None:
    """Keep the managed job from being deleted meanwhile, which would change the declaration."""
    if declared.job_id is not None and lock_job(conn, declared.job_id) is None:
        raise Repeat


def note(
    conn: sa.Connection,
    edit: DeclaredEdit,
    action: str,
    declared: DeclaredJob,
    job_id: int | None,
    **more: object,
) -> None:
    """Write the audit row of a decision."""
    detail = {"name": declared.name} | {k: v for k, v in more.items() if v is not None}
    edit.note(conn, action, job_id, executor_id=declared.executor_id, **detail)


def _changed() -> Conflict:
    return Conflict("declared.changed", "Code declares something else meanwhile; look at it again.")


def _get(conn: sa.Connection, executor_id: int, name: str) -> DeclaredJob:
    declared = _find(conn, executor_id, name)
    if declared is None:
        raise not_found()
    return declared


def _find(conn: sa.Connection, executor_id: int, name: str) -> DeclaredJob | None:
    """What is no name of a job is not looked for: databases may refuse it."""
    return store.get_declared(conn, executor_id, name) if is_clean(name) else None


def _lock(conn: sa.Connection, executor_id: int, name: str) -> DeclaredJob:
    if get_executor(conn, executor_id, lock=True) is None:
        raise not_found()
    return _get(conn, executor_id, name)


def _earlier(conn: sa.Connection, declared: DeclaredJob, rename_from: str) -> DeclaredJob:
    """The declaration that this one is the new name of."""
    earlier = _find(conn, declared.executor_id, rename_from)
    if earlier is None or earlier.job_id is None or earlier.name == declared.name:
        raise InvalidInput.one(
            "rename_from", "declared.not_managed", "Code manages no job of this name."
        )
    if declared.job_id is not None:
        raise InvalidInput.one(
            "rename_from",
            "declared.has_job",
            "Code manages a job of the new name already; delete one of the two instead.",
        )
    return earlier
