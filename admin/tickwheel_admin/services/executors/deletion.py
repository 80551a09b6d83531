"""Deleting an executor: its jobs if that is wanted, what waits for its nodes, and then itself.

Each step is a transaction of its own and leaves everything in order. Should the steps not come to
their end, deleting the executor again goes on where they stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.runs.moves import cancelled_while_queued, stop_wanted
from tickwheel_admin.domain.runs.run import LIVE, TIMEOUT, Run, RunState
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.workflows.hidden_jobs import forget_all
from tickwheel_admin.store.alarms.rules import delete_rules_of_executor, delete_rules_of_jobs
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors import executors as store_executors
from tickwheel_admin.store.executors.executors import StoredExecutor
from tickwheel_admin.store.executors.handler_schemas import forget_schemas
from tickwheel_admin.store.executors.secrets import delete_secrets
from tickwheel_admin.store.jobs import deletion as store_jobs
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.declared import forget_declared, give_up_declared
from tickwheel_admin.store.jobs.hidden_jobs import forget_hidden_jobs_on
from tickwheel_admin.store.jobs.jobs import current_configs
from tickwheel_admin.store.jobs.kept_state import forget_states
from tickwheel_admin.store.jobs.routing_memory import forget_uses
from tickwheel_admin.store.pools.pools import delete_pools_of
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.runs import lock_runs, move_runs
from tickwheel_admin.store.system.audit import NewAudit, find_audit, find_audits, write_audits
from tickwheel_admin.store.xxl_job.executors import delete_xxl_executor

JOBS_PER_STEP = 50
RUNS_PER_STEP = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Who deletes what, and the ids that one step may use."""

    actor: Actor
    executor_id: int
    configs: JobConfigs
    audit_ids: Sequence[int]  # as many as `JOBS_PER_STEP`
    run_ids: Sequence[int] = ()  # for children of fires that a deletion ends


def check_has_no_jobs(conn: sa.Connection, executor_id: int) -> None:
    """Refuse before anything of the executor is ended.

    Raises:
        Conflict: executor.has_jobs.
    """
    found = store_executors.get_executor(conn, executor_id)
    if found is None:
        raise not_found()
    if store_executors.has_jobs(conn, executor_id):
        raise _has_jobs(conn, found)


def delete_some_jobs(conn: sa.Connection, step: Deletion) -> int | None:
    """Delete some of the executor's jobs as people delete single ones; returns how many.

    None: none is left. 0: more runs of them wait than one transaction should move.

    Raises:
        TooFewIds: a fire that has children ends.
    """
    if done := find_audits(conn, step.audit_ids):
        return len(done)  # an earlier try of this transaction was committed
    jobs = store_jobs.lock_some_jobs(conn, step.executor_id, limit=JOBS_PER_STEP)
    if not jobs:
        return None
    store_jobs.delete_triggers_of_jobs(conn, list(jobs))
    now = now_ms(conn)
    waiting = store_jobs.unclaimed_runs(
        conn, executor_id=step.executor_id, job_ids=list(jobs), limit=RUNS_PER_STEP
    )
    _cancel(
        conn,
        step,
        [each for each in lock_runs(conn, waiting).values() if each.attempt == 0],
        now=now,
    )
    if len(waiting) == RUNS_PER_STEP:
        store_jobs.pause_jobs(conn, list(jobs), now=now)
        return 0
    for config in current_configs(conn, jobs).values():
        forget_all(conn, config.workflow, now=now)
    store_jobs.delete_jobs(conn, list(jobs), now=now)
    delete_rules_of_jobs(conn, jobs, now=now)
    forget_states(conn, jobs)
    forget_uses(conn, jobs)
    give_up_declared(conn, jobs)
    write_audits(
        conn,
        step.actor,
        [
            NewAudit(
                id=audit_id,
                action="job.deleted",
                executor_id=step.executor_id,
                object_id=job_id,
                detail={"name": name},
            )
            for audit_id, (job_id, name) in zip(step.audit_ids, jobs.items(), strict=False)
        ],
    )
    return len(jobs)


def end_some_runs(conn: sa.Connection, step: Deletion) -> bool:
    """Cancel runs that wait and ask live ones to stop, for no node may come for them any more.

    Returns whether there may be more of them.
    """
    now = now_ms(conn)
    workflows = store_jobs.unstopped_workflows(conn, step.executor_id, limit=RUNS_PER_STEP)
    if workflows:  # first, so that they begin no step for one that is cancelled
        _stop(conn, step, workflows, now=now)
        return True
    waiting = store_jobs.waiting_runs(conn, step.executor_id, limit=RUNS_PER_STEP)
    if waiting:  # alone: the last shards of a fire that is live end it
        _cancel(conn, step, lock_runs(conn, waiting).values(), now=now)
        return True
    live = store_jobs.unstopped_runs(conn, step.executor_id, limit=RUNS_PER_STEP)
    _stop(conn, step, live, now=now)
    return len(live) == RUNS_PER_STEP


def delete_empty(
    conn: sa.Connection, step: Deletion, *, jobs_deleted: int, with_jobs: bool
) -> bool:
    """Mark the executor deleted; False when jobs or runs have come meanwhile.

    Raises:
        Conflict: executor.has_jobs, unless they are to go as well.
    """
    if find_audit(conn, step.audit_ids[0]) is not None:
        return True
    found = store_executors.get_executor(conn, step.executor_id, lock=True)
    if found is None:
        raise not_found()
    has_jobs = store_executors.has_jobs(conn, found.id)
    if has_jobs and not with_jobs:
        raise _has_jobs(conn, found)
    if (
        has_jobs
        or store_jobs.waiting_runs(conn, found.id, limit=1)
        or store_jobs.unstopped_runs(conn, found.id, limit=1)
    ):
        return False
    now = now_ms(conn)
    store_executors.delete_executor(conn, found.id, now=now)
    forget_hidden_jobs_on(conn, found.id, now=now)
    delete_rules_of_executor(conn, found.id, now=now)
    forget_declared(conn, found.id)
    forget_schemas(conn, found.id)
    delete_secrets(conn, found.id)
    delete_pools_of(conn, found.id, now=now)
    delete_xxl_executor(conn, found.id)
    write_audits(
        conn,
        step.actor,
        [
            NewAudit(
                id=step.audit_ids[0],
                action="executor.deleted",
                executor_id=found.id,
                object_id=found.id,
                detail={"name": found.name, "jobs": jobs_deleted},
            )
        ],
    )
    return True


def _has_jobs(conn: sa.Connection, found: StoredExecutor) -> Conflict:
    jobs = store_executors.count_jobs(conn, [found.id]).get(found.id, 0)
    return Conflict(
        "executor.has_jobs",
        "“%(name)s” still has jobs (%(jobs)s); delete them first, or delete it with its jobs.",
        name=found.name,
        jobs=f"{jobs:,}",
    )


def _stop(conn: sa.Connection, step: Deletion, run_ids: Sequence[int], *, now: int) -> None:
    """Ask live runs to end; the sweeper ends the steps of workflows, wherever they run."""
    move_runs(
        conn,
        [
            stop_wanted(each, reason="operator", now=now, by=step.actor.name)
            for each in lock_runs(conn, run_ids).values()
            if each.state in LIVE and each.cancel_reason in (None, TIMEOUT)
        ],
    )


def _cancel(conn: sa.Connection, step: Deletion, runs: Iterable[Run], *, now: int) -> None:
    move_with_follow_ups(
        conn,
        [
            cancelled_while_queued(each, now=now, reason="job_deleted", by=step.actor.name)
            for each in runs
            if each.state is RunState.QUEUED
        ],
        configs=step.configs,
        now=now,
        run_ids=step.run_ids,
    )
