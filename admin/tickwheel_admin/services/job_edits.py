"""Edits of jobs, each one transaction that leaves every fire in exactly one version (G11).

Locks in the order job, triggers, runs. Fires that are overdue are planned under the version that
stood when they were due; fires planned ahead that nobody claimed are taken back; planning goes on
with the first instant after everything that remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.fires import runs_needed, runs_of_plan
from tickwheel_admin.domain.job import Job, JobConfig
from tickwheel_admin.domain.job_input import job_to_raw
from tickwheel_admin.domain.moves import cancelled_while_queued
from tickwheel_admin.domain.planning import plan
from tickwheel_admin.domain.run import Move, RunState
from tickwheel_admin.domain.schedule import ScheduleError, parse
from tickwheel_admin.domain.trigger import TriggerSpec, TriggerState
from tickwheel_admin.domain.user import Actor, Permission
from tickwheel_admin.services.handlers import check_handler
from tickwheel_admin.services.scope import not_found
from tickwheel_admin.store import jobs
from tickwheel_admin.store.audit import write_audit
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.executors import get_executor
from tickwheel_admin.store.jobs import StoredTrigger
from tickwheel_admin.store.runs import insert_fires, lock_runs, move_runs

CANCELLED_PER_STEP = 500


class MoreRunIds(Exception):
    """The edit found more overdue fires than it was given ids for; nothing was written."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(f"{count} run ids are needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Who edits, and the ids the edit may use: they come from transactions of their own."""

    actor: Actor
    audit_id: int
    trigger_ids: Sequence[int] = ()
    run_ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """A trigger whose past is written, and where it would go on."""

    stored: StoredTrigger
    next_fire_at: int | None
    last_fire_at: int | None


def create_job(
    conn: sa.Connection, edit: Edit, *, job_id: int, executor_id: int, config: JobConfig
) -> None:
    """Add a job and its triggers."""
    # Locked, so that the executor is not deleted meanwhile.
    if get_executor(conn, executor_id, lock=True) is None:
        raise not_found()
    check_handler(conn, executor_id, config.handler)
    _check_name(conn, executor_id, config.name)
    now = now_ms(conn)
    new = Job(
        id=job_id,
        executor_id=executor_id,
        revision=1,
        config=config,
        paused=False,
        created_at=now,
        updated_at=now,
    )
    jobs.add_job(conn, new, by=edit.actor.name)
    _add_triggers(conn, edit, new, config.triggers, now=now)
    _note(conn, edit, "job.created", new, {"name": config.name})


def update_job(
    conn: sa.Connection, edit: Edit, *, job_id: int, revision: int, config: JobConfig
) -> int:
    """Make `config` the job's next revision, unless `revision` is no longer the current one."""
    old = lock_job_for(conn, edit.actor, job_id, Permission.DEVELOP)
    if old.revision != revision:
        raise _changed(old)
    if old.config == config:
        return old.revision
    if config.handler != old.config.handler:
        check_handler(conn, old.executor_id, config.handler)
    _check_name(conn, old.executor_id, config.name, by_other_than=old.id)
    settled, now = _settle(conn, edit, old)
    if not jobs.revise_job(conn, old, config, now=now, by=edit.actor.name):
        raise _changed(old)
    standing = {each.stored.trigger.spec for each in settled}
    removed = [s.stored.trigger.id for s in settled if s.stored.trigger.spec not in config.triggers]
    jobs.delete_triggers(conn, removed)
    for each in settled:
        if each.stored.trigger.id not in removed:
            _go_on(conn, each, paused=old.paused)
    new = replace(old, config=config, revision=old.revision + 1)
    added = [spec for spec in config.triggers if spec not in standing]
    _add_triggers(conn, edit, new, added, now=now)
    before, after = job_to_raw(old.config), job_to_raw(config)
    changed = [name for name in after if after[name] != before[name]]
    _note(conn, edit, "job.updated", new, {"revision": new.revision, "changed": changed})
    return new.revision


def pause_job(conn: sa.Connection, edit: Edit, *, job_id: int) -> None:
    """Stop planning; what is due already still runs."""
    job = lock_job_for(conn, edit.actor, job_id, Permission.OPERATE)
    if job.paused:
        return
    settled, now = _settle(conn, edit, job)
    for each in settled:
        _go_on(conn, each, paused=True)
    jobs.set_paused(conn, job.id, paused=True, now=now)
    _note(conn, edit, "job.paused", job, {})


def resume_job(conn: sa.Connection, edit: Edit, *, job_id: int) -> None:
    """Plan again, from now on: what the pause held back is skipped."""
    job = lock_job_for(conn, edit.actor, job_id, Permission.OPERATE)
    if not job.paused:
        return
    settled, now = _settle(conn, edit, job)
    for each in settled:
        _go_on(conn, each, paused=False)
    jobs.set_paused(conn, job.id, paused=False, now=now)
    _note(conn, edit, "job.resumed", job, {})


def delete_job(conn: sa.Connection, edit: Edit, *, job_id: int) -> bool:
    """Cancel runs that were never claimed, then mark the job deleted; live runs go on.

    False: more runs wait than one transaction should move. The job is paused without triggers
    until the call that finishes; should that never come, it can be deleted again.
    """
    job = lock_job_for(conn, edit.actor, job_id, Permission.DEVELOP)
    triggers = jobs.lock_triggers(conn, job.id)
    jobs.delete_triggers(conn, [stored.trigger.id for stored in triggers])
    now = now_ms(conn)
    waiting = jobs.unclaimed_runs_of_job(conn, job, limit=CANCELLED_PER_STEP)
    moves: list[Move] = []
    for run in lock_runs(conn, waiting).values():
        if run.state is RunState.QUEUED and run.attempt == 0:
            move = cancelled_while_queued(run, now=now)
            moves.append(replace(move, after=replace(move.after, reason="job_deleted")))
    move_runs(conn, moves)
    if len(waiting) == CANCELLED_PER_STEP:
        jobs.set_paused(conn, job.id, paused=True, now=now)
        return False
    jobs.delete_job(conn, job.id, now=now)
    _note(conn, edit, "job.deleted", job, {"name": job.config.name})
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


def _settle(conn: sa.Connection, edit: Edit, job: Job) -> tuple[list[_Settled], int]:
    """Write what is overdue, take back what is ahead; returns the triggers and the time."""
    triggers = jobs.lock_triggers(conn, job.id)
    now = now_ms(conn)  # after the locks, so that no fire lies between
    ids = iter(edit.run_ids)
    needed = 0
    settled = []
    for stored in triggers:
        trigger = stored.trigger
        try:
            schedule = parse(trigger.spec, saved_at=stored.saved_at)
        except ScheduleError:
            continue  # in error, and left so; only a removal or another spec changes that
        jobs.delete_unclaimed_fires(conn, trigger.id, after=now)
        if trigger.next_fire_at is not None and trigger.next_fire_at <= now:
            overdue = plan(
                schedule,
                next_fire_at=trigger.next_fire_at,
                now=now,
                until=now,
                misfire=trigger.spec.misfire,
            )
            needed += runs_needed(overdue)
            if needed <= len(edit.run_ids):
                insert_fires(
                    conn,
                    runs_of_plan(
                        overdue,
                        trigger,
                        job.config,
                        revision=job.revision,
                        now=now,
                        ids=ids,
                    ),
                )
        last_at = jobs.last_fire_of_trigger(conn, trigger.id)
        settled.append(
            _Settled(
                stored=stored,
                next_fire_at=schedule.next_after(max(now, last_at or 0)),
                last_fire_at=last_at,
            )
        )
    if needed > len(edit.run_ids):
        raise MoreRunIds(needed)
    return settled, now


def _go_on(conn: sa.Connection, settled: _Settled, *, paused: bool) -> None:
    """Plan the trigger from where its past ends; nothing while it or its job is paused."""
    over = settled.next_fire_at is None
    held = paused or settled.stored.trigger.paused
    jobs.reset_trigger(
        conn,
        settled.stored.trigger,
        state=TriggerState.COMPLETE if over else TriggerState.ACTIVE,
        next_fire_at=None if held else settled.next_fire_at,
        last_fire_at=settled.last_fire_at,
    )


def _add_triggers(
    conn: sa.Connection, edit: Edit, job: Job, specs: Sequence[TriggerSpec], *, now: int
) -> None:
    for trigger_id, spec in zip(edit.trigger_ids, specs, strict=False):
        first_at = parse(spec, saved_at=now).next_after(now)
        if first_at is None:
            raise InvalidInput.one(
                f"triggers[{job.config.triggers.index(spec)}]",
                "trigger.never_fires",
                "This lies in the past and would never fire.",
            )
        jobs.add_trigger(
            conn,
            spec,
            trigger_id=trigger_id,
            of=job,
            next_fire_at=None if job.paused else first_at,
            now=now,
        )


def _check_name(
    conn: sa.Connection, executor_id: int, name: str, *, by_other_than: int | None = None
) -> None:
    # The unique key decides: the loser of a race repeats its transaction and ends here.
    if jobs.job_name_is_taken(conn, executor_id, name, by_other_than=by_other_than):
        raise Conflict(
            "job.name_taken",
            "This executor already has a job named “%(name)s”.",
            name=name,
        )


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
    write_audit(
        conn,
        id=edit.audit_id,
        actor=edit.actor,
        action=action,
        executor_id=job.executor_id,
        object_id=job.id,
        detail=detail,
    )
