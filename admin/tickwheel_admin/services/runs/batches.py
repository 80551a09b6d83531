"""Cancelling and retrying many runs in one transaction.

What becomes of each run is decided before anything is written, so that one that is refused does not
stop the others. Each edit first asks whether an earlier try of its transaction was committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, UserError
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.run import FINAL, TIMEOUT, Move, Run, RunState
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.edits import (
    Retry,
    RunEdit,
    check_ended,
    job_deleted,
    retry_ended,
)
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs import lists as run_lists
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.runs import lock_runs
from tickwheel_admin.store.system.audit import NewAudit, find_audits, write_audits

# By the run that was named: the run that was changed or made, or the code of the refusal.
Outcomes = dict[int, int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEdit:
    """Who edits which runs, and the ids the edit may use."""

    actor: Actor
    runs: Sequence[int]
    audit_ids: Sequence[int]  # one for each of the runs
    configs: JobConfigs
    run_ids: Sequence[int] = ()  # for new runs, and for children of what ends

    def notes(self) -> Mapping[int, int]:
        """Audit ids by run."""
        return dict(zip(self.runs, self.audit_ids, strict=True))


def code_of(error: UserError) -> str:
    """The code by which a refusal is counted: that of the first problem, if it names any."""
    problems = error.problems if isinstance(error, InvalidInput) else ()
    return problems[0].code if problems else error.code


def cancel_runs(conn: sa.Connection, batch: BatchEdit) -> Outcomes:
    """Stop runs, as `run_edits.cancel_run` does with one.

    A shard is left out when its whole fire is among them: it is to be cancelled by itself.

    Raises:
        TooFewIds: a shard was the last of its fire, which has children.
    """
    outcomes = _done_before(conn, batch)
    executors = run_lists.executors_of_runs(conn, batch.runs)
    allowed = []
    for run_id in batch.runs:
        if run_id in outcomes:
            continue
        try:
            if run_id not in executors:
                raise not_found()
            batch.actor.require(Permission.OPERATE, executors[run_id])
            allowed.append(run_id)
        except UserError as error:
            outcomes[run_id] = code_of(error)
    locked = lock_runs(conn, allowed)
    now = now_ms(conn)
    wanted: list[Move] = []
    for run_id in allowed:
        run = locked.get(run_id)
        if run is None or run.state in FINAL:
            outcomes[run_id] = "not_found" if run is None else "run.ended"
        elif run.fire_id not in locked:
            outcomes[run_id] = run_id
            wanted += stops(run, now=now, by=batch.actor.name)
    move_with_follow_ups(conn, wanted, configs=batch.configs, now=now, run_ids=batch.run_ids)
    audit_ids = batch.notes()
    write_audits(
        conn,
        batch.actor,
        [
            NewAudit(
                id=audit_ids[move.before.id],
                action="run.cancelled",
                executor_id=move.before.executor_id,
                object_id=move.before.id,
                detail={"job": move.before.job_id, "state": move.before.state.value},
            )
            for move in wanted
        ],
    )
    return outcomes


def stops(run: Run, *, now: int, by: str) -> list[Move]:
    """What stops a run that has not ended; nothing when somebody has asked for it already."""
    if run.state is RunState.QUEUED:
        return [moves.cancelled_while_queued(run, now=now, by=by)]
    if run.cancel_requested_at is None or run.cancel_reason == TIMEOUT:
        return [moves.stop_wanted(run, reason="operator", now=now, by=by)]
    return []


def retry_runs(
    conn: sa.Connection, batch: BatchEdit, *, retry: Retry, keys: Mapping[int, str]
) -> Outcomes:
    """Do ended runs again, as `run_edits.retry_run` does with one.

    Args:
        keys: the request key of each run's retry.

    Raises:
        TooFewIds: it needs ids for the new runs.
    """
    outcomes = _done_before(conn, batch)
    found = run_lists.get_runs(conn, batch.runs)
    ended: dict[int, Run] = {}
    for run_id in batch.runs:
        if run_id in outcomes:
            continue
        try:
            ended[run_id] = check_ended(batch.actor, found.get(run_id))
        except UserError as error:
            outcomes[run_id] = code_of(error)
    # In order of their ids, as everybody locks them.
    jobs = {
        job_id: store_jobs.lock_job(conn, job_id)
        for job_id in sorted({each.job_id for each in ended.values()})
    }
    shares = _shares(conn, ended, retry)
    if sum(shares.values()) > len(batch.run_ids):
        raise TooFewIds(sum(shares.values()))
    used = 0
    audit_ids = batch.notes()
    for run_id, run in ended.items():
        ids = batch.run_ids[used : used + shares[run_id]]
        used += shares[run_id]
        edit = RunEdit(
            actor=batch.actor, audit_id=audit_ids[run_id], configs=batch.configs, run_ids=ids
        )
        try:
            outcomes[run_id] = retry_ended(
                conn,
                edit,
                run,
                job=_alive(jobs[run.job_id]),
                retry=replace(retry, request_key=keys[run_id]),
            )
        except UserError as error:  # each is raised before it writes anything
            outcomes[run_id] = code_of(error)
    return outcomes


def _shares(conn: sa.Connection, ended: Mapping[int, Run], retry: Retry) -> dict[int, int]:
    """How many ids each retry may need: one, and one more for each shard."""
    shares = dict.fromkeys(ended, 1)
    for run_id, run in ended.items():
        if run.fire_id is not None:
            shares[run_id] = 2
        elif run.is_fire and retry.failed_shards_only:
            shares[run_id] += len(run_lists.shard_runs(conn, run_id))
    return shares


def _alive(job: Job | None) -> Job:
    if job is None:
        raise job_deleted()
    return job


def _done_before(conn: sa.Connection, batch: BatchEdit) -> Outcomes:
    """What an earlier try of this transaction did, should it have been committed."""
    noted = find_audits(conn, batch.audit_ids)
    return {
        run_id: noted[audit_id].object_id or 0
        for run_id, audit_id in batch.notes().items()
        if audit_id in noted
    }
