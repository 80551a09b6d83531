"""Edits of jobs, each one transaction that leaves every fire in exactly one version (G11).

Locks in the order child links, job, triggers, runs. Each edit first asks whether an earlier try of
its transaction was committed although its answer never came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.input.job import changed_fields
from tickwheel_admin.domain.jobs.declared_job import DeclaredState
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.jobs.secret_references import secret_names
from tickwheel_admin.domain.runs.moves import cancelled_while_queued
from tickwheel_admin.domain.runs.run import Move, RunState
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.calendars.of_triggers import held_calendars
from tickwheel_admin.services.events.transactions import AuditedEdit
from tickwheel_admin.services.handlers.known import check_handler
from tickwheel_admin.services.handlers.scripts import check_script, noted
from tickwheel_admin.services.jobs.alarm_rules import RuleChanges, plan_rules, write_rules
from tickwheel_admin.services.jobs.checks import ProblemCollector, check_name
from tickwheel_admin.services.jobs.children import check_children
from tickwheel_admin.services.jobs.declared.guard import check_not_managed, give_up_declarations
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.pools.of_jobs import held_pools
from tickwheel_admin.services.runs.parameters import check_job_parameters
from tickwheel_admin.services.runs.secret_references import check_secret_references
from tickwheel_admin.services.triggers.cutover import add_triggers, cut_over, rearm
from tickwheel_admin.services.workflows.checks import check_workflow
from tickwheel_admin.services.workflows.hidden_jobs import forget_all, save_hidden_jobs
from tickwheel_admin.store.alarms.rules import delete_rules_of_jobs
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import get_executor
from tickwheel_admin.store.jobs import jobs
from tickwheel_admin.store.jobs.child_links import lock_links_of
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.kept_state import forget_states
from tickwheel_admin.store.jobs.routing_memory import forget_uses
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.runs import lock_runs
from tickwheel_admin.store.system.audit import additions_by_request
from tickwheel_admin.store.triggers import triggers as job_triggers

CANCELLED_PER_STEP = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(AuditedEdit):
    """Who edits, and the ids the edit may use: they come from transactions of their own."""

    trigger_ids: Sequence[int] = ()
    run_ids: Sequence[int] = ()  # for overdue fires, and for children of fires that a deletion ends
    job_ids: Sequence[int] = ()  # for the hidden jobs of a workflow
    rule_ids: Sequence[int] = ()  # for new alarm rules, one for each of the job
    rolled_back_to: int | None = None  # the revision whose configuration the edit brings back
    # Of a new job: sent again with the same one by the same person, it is that job.
    request_key: str | None = None
    by_code: bool = False  # the job is as code declares it, or a person accepts that it is


async def begin_edit(ids: Ids, actor: Actor, config: JobConfig | None = None) -> Edit:
    """An edit with the ids that saving this configuration may need."""
    workflow = None if config is None else config.workflow
    return Edit(
        actor=actor,
        audit_id=await ids.take("audit"),
        trigger_ids=() if config is None else await ids.take_many("trigger", len(config.triggers)),
        rule_ids=() if config is None else await ids.take_many("alarm_rule", len(config.alarms)),
        job_ids=() if workflow is None else await ids.take_many("job", len(workflow.inline_steps)),
    )


def create_job(
    conn: sa.Connection, edit: Edit, *, job_id: int, executor_id: int, config: JobConfig
) -> int:
    """Add a job and its triggers; returns its id, or that of the job that the request made before.

    Raises:
        Conflict: job.name_taken.
    """
    if edit.earlier(conn):
        return job_id
    lock_links_of(conn, config)
    # Locked, so that the executor is not deleted meanwhile.
    if get_executor(conn, executor_id, lock=True) is None:
        raise not_found()
    taken = jobs.jobs_named(conn, executor_id, [config.name])
    if before := made_before(conn, edit, taken.values()):
        return before.pop()
    links = config.children
    found = ProblemCollector()
    if config.workflow is None:
        found.ask(check_handler, conn, executor_id, config.handler)
    found.ask(check_script, conn, edit.actor, executor_id, config)
    found.ask(
        check_workflow,
        conn,
        edit.actor,
        config,
        job_id=job_id,
        executor_id=executor_id,
        before=None,
    )
    found.ask(check_job_parameters, conn, executor_id, config)
    allowed = None if edit.by_code else ()
    found.ask(check_secret_references, conn, executor_id, config, kept=allowed)
    found.ask(check_name, conn, executor_id, config.name)
    found.ask(check_children, conn, edit.actor, job_id=job_id, name=config.name, links=links)
    rules = found.ask(plan_rules, conn, job_id, (), config.alarms, rule_ids=edit.rule_ids)
    calendars = found.ask(held_calendars, conn, config) or {}
    found.raise_if_any()  # before pools are locked, also those of executors that steps name
    config = held_pools(conn, executor_id, config)
    now = now_ms(conn)
    config = save_hidden_jobs(
        conn,
        config,
        job_id=job_id,
        executor_id=executor_id,
        before=None,
        new_ids=edit.job_ids,
        now=now,
        by=edit.actor.name,
    )
    new = Job(
        id=job_id,
        executor_id=executor_id,
        revision=1,
        config=config,
        paused=False,
        created_at=now,
        updated_at=now,
    )
    jobs.add_jobs(conn, [new], by=edit.actor.name)
    add_triggers(
        conn,
        new,
        config.triggers,
        trigger_ids=edit.trigger_ids,
        calendars=calendars,
        now=now,
    )
    if rules is not None:
        write_rules(conn, rules, now=now)
    _note(conn, edit, "job.created", new, created_detail(edit, config))
    return job_id


def created_detail(edit: Edit, config: JobConfig) -> dict[str, object]:
    """What the audit keeps of a new job."""
    detail: dict[str, object] = {"name": config.name} | noted(config)
    if secrets := secret_names(config):
        detail["secrets"] = sorted(secrets)
    if config.alarms:
        detail["alarms"] = {"added": [alarm.name for alarm in config.alarms]}
    return detail if edit.request_key is None else detail | {"request": _digest(edit.request_key)}


def made_before(conn: sa.Connection, edit: Edit, job_ids: Iterable[int]) -> set[int]:
    """Those of the jobs that the same person added with the same request key.

    A request that is sent again, its answer having been lost, is answered as it was then. The
    audit knows it for as long as it is kept.
    """
    ids = sorted(job_ids)
    if edit.request_key is None or not ids:
        return set()
    return additions_by_request(conn, ids, edit.actor.name, _digest(edit.request_key))


def _digest(request_key: str) -> str:
    return hashlib.sha256(request_key.encode()).hexdigest()[:32]


def update_job(
    conn: sa.Connection, edit: Edit, *, job_id: int, revision: int, config: JobConfig
) -> int:
    """Make `config` the job's next revision, unless `revision` is no longer the current one."""
    if done := edit.earlier(conn):
        return int(done.detail["revision"])
    lock_links_of(conn, config)
    old = lock_job_for(conn, edit.actor, job_id, Permission.DEVELOP)
    if not edit.by_code:
        check_not_managed(conn, job_id)
    if old.revision != revision:
        raise _changed(old)
    if old.config == config:
        return old.revision
    found, links = ProblemCollector(), config.children
    is_stored = edit.rolled_back_to is not None
    found.ask(
        check_script,
        conn,
        edit.actor,
        old.executor_id,
        config,
        before=old.config,
        is_stored=is_stored,
    )
    found.ask(
        check_workflow,
        conn,
        edit.actor,
        config,
        job_id=job_id,
        executor_id=old.executor_id,
        before=old.config,
        is_stored=is_stored,
    )
    if config.handler != old.config.handler and config.workflow is None:
        found.ask(check_handler, conn, old.executor_id, config.handler)
    if _given(config) != _given(old.config):
        found.ask(check_job_parameters, conn, old.executor_id, config)
    named = secret_names(old.config)
    allowed = None if edit.by_code else named
    found.ask(check_secret_references, conn, old.executor_id, config, kept=allowed)
    found.ask(check_name, conn, old.executor_id, config.name, by_other_than=old.id)
    if links != old.config.children:
        found.ask(check_children, conn, edit.actor, job_id=job_id, name=config.name, links=links)
    standing_alarms = old.config.alarms
    rules = found.ask(
        plan_rules, conn, job_id, standing_alarms, config.alarms, rule_ids=edit.rule_ids
    )
    calendars = found.ask(held_calendars, conn, config) or {}
    found.raise_if_any()  # before pools are locked, also those of executors that steps name
    config = held_pools(conn, old.executor_id, config)
    cutovers, now = cut_over(conn, old, edit.run_ids)
    config = save_hidden_jobs(
        conn,
        config,
        job_id=job_id,
        executor_id=old.executor_id,
        before=old.config,
        new_ids=edit.job_ids,
        now=now,
        by=edit.actor.name,
    )
    if not jobs.revise_job(conn, old, config, now=now, by=edit.actor.name):
        raise _changed(old)
    written = {each.id: each.stored.trigger.spec.as_written() for each in cutovers}
    kept = {each.id: each for each in cutovers if written[each.id] in config.triggers}
    standing = {written[each_id] for each_id in kept}
    # Those that cannot be computed go as well: what of them is still wanted is added anew.
    present = job_triggers.triggers_of_jobs(conn, [job_id]).get(job_id, [])
    removed = [stored.trigger.id for stored in present if stored.trigger.id not in kept]
    planned = [each.id for each in cutovers]
    job_triggers.delete_triggers(conn, removed, planned=planned, now=now)
    for each in kept.values():
        rearm(conn, each, job_paused=old.paused, paused=each.stored.trigger.paused)
    new = replace(old, config=config, revision=old.revision + 1)
    before = [each.stored.trigger.spec for each in cutovers]
    added = [spec.placed_as(before) for spec in config.triggers if spec not in standing]
    add_triggers(conn, new, added, trigger_ids=edit.trigger_ids, calendars=calendars, now=now)
    rules = rules or RuleChanges()
    write_rules(conn, rules, now=now)
    changed = changed_fields(old.config, config)
    detail: dict[str, object] = {
        "name": config.name,
        "revision": new.revision,
        "changed": list(changed),
    } | noted(config, old.config)
    if rules.detail:
        detail["alarms"] = rules.detail
    if new_secrets := secret_names(config) - named:
        detail["secrets"] = sorted(new_secrets)
    if edit.rolled_back_to is None:
        _note(conn, edit, "job.updated", new, detail)
    else:
        _note(conn, edit, "job.rolled_back", new, detail | {"to": edit.rolled_back_to})
    return new.revision


def set_job_paused(conn: sa.Connection, edit: Edit, *, job_id: int, paused: bool) -> None:
    """Stop planning; or plan again, from now on: what the pause held back is skipped."""
    if edit.earlier(conn):
        return
    job = lock_job_for(conn, edit.actor, job_id, Permission.OPERATE)
    if job.paused == paused:
        return
    cutovers, now = cut_over(conn, job, edit.run_ids)
    for each in cutovers:
        rearm(conn, each, job_paused=paused, paused=each.stored.trigger.paused)
    jobs.set_paused(conn, job.id, paused=paused, now=now)
    _note(conn, edit, "job.paused" if paused else "job.resumed", job, {"name": job.config.name})


def set_trigger_paused(
    conn: sa.Connection, edit: Edit, *, job_id: int, trigger_id: int, paused: bool
) -> None:
    """The same for one trigger of a job; the others go on as if nothing had happened."""
    if edit.earlier(conn):
        return
    job = lock_job_for(conn, edit.actor, job_id, Permission.OPERATE)
    stored = job_triggers.lock_triggers(conn, job.id)
    if any((e.trigger.id, e.trigger.paused) == (trigger_id, paused) for e in stored):
        return  # before a cut-over takes back what nothing would plan again
    cutovers, now = cut_over(conn, job, edit.run_ids, only=trigger_id)
    if not cutovers:
        _refuse_trigger(conn, job, trigger_id)
    (trigger,) = cutovers
    rearm(conn, trigger, job_paused=job.paused, paused=paused)
    jobs.touch_job(conn, job.id, now=now)
    action = "trigger.paused" if paused else "trigger.resumed"
    _note(conn, edit, action, job, {"name": job.config.name, "trigger": trigger_id})


def _refuse_trigger(conn: sa.Connection, job: Job, trigger_id: int) -> None:
    triggers = job_triggers.triggers_of_jobs(conn, [job.id]).get(job.id, [])
    if all(stored.trigger.id != trigger_id for stored in triggers):
        raise not_found()
    raise Conflict(
        "trigger.in_error", "The schedule of this trigger cannot be computed; edit it instead."
    )


def delete_job(conn: sa.Connection, edit: Edit, *, job_id: int, configs: JobConfigs) -> bool:
    """Cancel runs that were never claimed, then mark the job deleted; live runs go on.

    False: more runs wait than one transaction should move. The job is paused without triggers
    until the call that finishes; should that never come, it can be deleted again.
    """
    if edit.earlier(conn):
        return True
    job = lock_job_for(conn, edit.actor, job_id, Permission.DEVELOP)
    triggers = job_triggers.lock_triggers(conn, job.id)
    now = now_ms(conn)
    job_triggers.delete_triggers(conn, [stored.trigger.id for stored in triggers], now=now)
    waiting = jobs.unclaimed_runs_of_job(conn, job, limit=CANCELLED_PER_STEP)
    moves: list[Move] = []
    by = edit.actor.name
    for run in lock_runs(conn, waiting).values():
        if run.state is RunState.QUEUED and run.attempt == 0:
            moves.append(cancelled_while_queued(run, now=now, reason="job_deleted", by=by))
    move_with_follow_ups(conn, moves, configs=configs, now=now, run_ids=edit.run_ids)
    if len(waiting) == CANCELLED_PER_STEP:
        jobs.set_paused(conn, job.id, paused=True, now=now)
        return False
    jobs.delete_job(conn, job.id, now=now)
    delete_rules_of_jobs(conn, [job.id], now=now)
    forget_all(conn, job.config.workflow, now=now)
    forget_states(conn, [job.id])
    forget_uses(conn, [job.id])
    detail: dict[str, object] = {"name": job.config.name}
    if give_up_declarations(conn, job.executor_id, [job.id]):
        detail["declared"] = DeclaredState.IGNORED.value  # what code declares makes no new one
    _note(conn, edit, "job.deleted", job, detail)
    return True


def lock_job_for(conn: sa.Connection, actor: Actor, job_id: int, permission: Permission) -> Job:
    """The job, locked, when the caller may do this with it; checked before any lock is taken."""
    executor_id = jobs.executor_of_job(conn, job_id)
    if executor_id is None:
        raise not_found()
    actor.require(permission, executor_id)
    job = jobs.lock_job(conn, job_id)
    if job is None:
        raise not_found()
    return job


def _given(config: JobConfig) -> tuple[object, ...]:
    """What decides whether its runs' parameters are right."""
    return config.handler, config.parameters, [spec.parameters for spec in config.triggers]


def _changed(job: Job) -> Conflict:
    return Conflict(
        "job.changed",
        "Somebody else changed this job meanwhile; it is at revision %(revision)d now."
        " Load it again and repeat your change.",
        revision=job.revision,
    )


def _note(
    conn: sa.Connection, edit: Edit, action: str, job: Job, detail: dict[str, object]
) -> None:
    edit.note(conn, action, job.id, executor_id=job.executor_id, **detail)
