"""What people do to single runs, each a transaction of its own: cancel, release, retry.

Each first asks whether an earlier try of it was committed although its answer never came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.run import FAILURES, FINAL, LIVE, TIMEOUT, Origin, Run, RunState
from tickwheel_admin.domain.runs.trace import trace_of_follower
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows.retries import ALL_STEPS, StepChoice, StepsAgain
from tickwheel_admin.services.events.transactions import AuditedEdit
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.old_revisions import check_old_revision
from tickwheel_admin.services.runs.requests import RequestedRun, request_run, request_shards
from tickwheel_admin.services.runs.workflow_retries import check_choice, repeat_workflow
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs import lists as run_lists
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.inserts import find_request
from tickwheel_admin.store.runs.lists import RunItem
from tickwheel_admin.store.runs.retries import note_retry, retries_of
from tickwheel_admin.store.runs.runs import lock_runs, move_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEdit(AuditedEdit):
    """Who does it, and the ids it may use: they come from transactions of their own."""

    configs: JobConfigs
    run_ids: Sequence[int] = ()  # for new runs, and for children of what ends


class RetryRevision(StrEnum):
    """Which revision of the job a retry is made with."""

    CURRENT = "current"  # the job as it is now: what was mended since counts
    ORIGINAL = "original"  # the job as the run that is retried had it


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How a run is done again."""

    parameters: str | None = None  # JSON object laid over those of the ended run; None: nothing
    # None: of a workflow the original one, of any other job the current one.
    revision: RetryRevision | None = None
    request_key: str | None = None
    failed_shards_only: bool = False  # of a whole fire
    steps: StepChoice = ALL_STEPS  # of a workflow
    trace: str | None = None  # of who asks; None: that of the run, if it has one
    unless_retried: bool = False  # leave out what a retry does already, or has done


def cancel_run(conn: sa.Connection, edit: RunEdit, run_id: int) -> None:
    """Stop a run: a queued one ends at once, a live one when its node confirms.

    Raises:
        Conflict: run.ended.
        TooFewIds: a shard was the last of its fire, which has children.
    """
    if edit.earlier(conn):
        return
    run = _lock(conn, edit.actor, run_id)
    check_not_ended(run)
    now = now_ms(conn)
    if run.state is RunState.QUEUED:
        move_with_follow_ups(
            conn,
            [moves.cancelled_while_queued(run, now=now, by=edit.actor.name)],
            configs=edit.configs,
            now=now,
            run_ids=edit.run_ids,
        )
    elif run.cancel_requested_at is None or run.cancel_reason == TIMEOUT:
        # Of a whole fire this is what the sweeper stops its shards by.
        by = edit.actor.name
        move_runs(conn, [moves.stop_wanted(run, reason="operator", now=now, by=by)])
    else:
        return
    _note(conn, edit, "run.cancelled", run)


def job_deleted() -> Conflict:
    """Why a run is not done again."""
    return Conflict("job.deleted", "The job of this run has been deleted.")


def not_ended() -> Conflict:
    """Why a run is not done again as long as it goes on."""
    return Conflict(
        "run.not_ended", "This run has not ended yet; it can be cancelled, not retried."
    )


def check_not_ended(run: Run) -> None:
    """Raises Conflict run.ended."""
    if run.state in FINAL:
        raise Conflict("run.ended", "This run has already ended.")


def check_stopping(run: Run) -> None:
    """Refuse what has ended, and what its node was not asked to stop.

    Raises:
        Conflict: run.ended; run.not_stopping.
    """
    check_not_ended(run)
    if run.state not in LIVE or run.has_no_node or run.cancel_requested_at is None:
        raise Conflict(
            "run.not_stopping",
            "Only a run that its node was asked to stop can be released; cancel it first.",
        )


def release_run(conn: sa.Connection, edit: RunEdit, run_id: int) -> None:
    """Stop waiting for a node to confirm the end of a run that was asked to stop.

    Raises:
        Conflict: run.ended; run.not_stopping.
        TooFewIds: it has children, or is the last shard of a fire that has.
    """
    if edit.earlier(conn):
        return
    run = _lock(conn, edit.actor, run_id)
    check_stopping(run)
    now = now_ms(conn)
    move_with_follow_ups(
        conn,
        [moves.released(run, now=now)],
        configs=edit.configs,
        now=now,
        run_ids=edit.run_ids,
    )
    _note(conn, edit, "run.released", run)


def retry_run(conn: sa.Connection, edit: RunEdit, run_id: int, retry: Retry) -> int:
    """Do an ended run again, as a new run of the job; returns the new run's id.

    Raises:
        InvalidInput: the key was used for something else; the parameters are too large.
        Conflict: run.not_ended; job.deleted; run.is_step; run.no_failed_shards; as
            `request_shards` and `workflow_retries.Repeat`.
        TooFewIds: it needs ids for the new runs.
    """
    if done := edit.earlier(conn):
        return int(done.object_id or 0)
    ended = check_ended(edit.actor, run_lists.get_run(conn, run_id))
    check_choice(conn, edit.actor, ended, retry.steps)
    job = store_jobs.lock_job(conn, ended.job_id)
    if job is None:
        raise job_deleted()
    return retry_ended(conn, edit, ended, job=job, retry=retry)


def check_ended(actor: Actor, found: RunItem | None) -> Run:
    """The run, when it has ended and the caller may do it again; raises as `retry_run`."""
    if found is None:
        raise not_found()
    actor.require(Permission.OPERATE, found.run.executor_id)
    if found.run.state not in FINAL:
        raise not_ended()
    if found.run.origin is Origin.TRY:
        raise Conflict(
            "run.is_try", "This run tried a script that was not saved; try it again on its page."
        )
    check_no_step(found.run)
    return found.run


def check_no_step(run: Run) -> None:
    """Raises Conflict run.is_step: its workflow would know nothing of another run."""
    if run.origin is Origin.STEP:
        raise Conflict(
            "run.is_step", "This run is a step of a workflow; retry the run of the workflow."
        )


def retry_ended(conn: sa.Connection, edit: RunEdit, ended: Run, *, job: Job, retry: Retry) -> int:
    """Do a run again that `check_ended` gave, under its job's lock; raises as `retry_run`.

    It has the parameters that the run had, whatever has become of the job's own since, and works
    for the same instant.
    """
    if retry.unless_retried or retry.steps.again is StepsAgain.FAILED:
        _check_not_retried(conn, ended, retry.request_key)
    elif retry.steps.takes_over:
        _check_not_retried(conn, ended, retry.request_key, may_have_succeeded=True)
    revision = (ended.job_id, ended.job_revision)
    config = edit.configs.get_many(conn, {revision})[revision]
    default = RetryRevision.ORIGINAL if ended.is_workflow else RetryRevision.CURRENT
    if (retry.revision or default) is RetryRevision.ORIGINAL:
        check_old_revision(conn, edit.actor, job, config)
        job = replace(job, revision=ended.job_revision, config=config)
    request = RequestedRun(
        actor=edit.actor,
        origin=Origin.RETRY,
        parameters=retry.parameters,
        base=config.parameters if ended.parameters is None else ended.parameters,
        nominal_at=ended.works_for_at,
        interval_start=ended.interval_start,
        request_key=retry.request_key,
        retry_of=ended.id,
        trace=retry.trace or trace_of_follower(ended),
        noted=retry.steps.noted,
    )
    shards = _shards_to_retry(conn, ended, failed_only=retry.failed_shards_only)
    if shards is None:
        asked = request_run(conn, job, request, run_ids=edit.run_ids, audit_id=edit.audit_id)
    else:
        asked = request_shards(
            conn, job, request, shards, run_ids=edit.run_ids, audit_id=edit.audit_id
        )
    if asked in edit.run_ids:
        again = None
        if ended.is_workflow:
            again = repeat_workflow(
                conn, edit.actor, ended, config, job.config, retry.steps, run_id=asked
            )
        note_retry(conn, ended, retry_id=asked, steps=again)
    else:
        standing = run_lists.get_run(conn, asked)
        if standing is not None and standing.run.retry_of != ended.id:
            raise InvalidInput.one(
                "request_key", "request_key.used", "This key belongs to another request."
            )
    return asked


def _check_not_retried(
    conn: sa.Connection,
    ended: Run,
    request_key: str | None,
    *,
    may_have_succeeded: bool = False,
) -> None:
    """Refuse what need not be done again; under the job's lock nobody retries it meanwhile.

    Raises:
        Conflict: run.retry_succeeded, run.retry_goes_on.
    """
    retried = retries_of(conn, [ended.id]).get(ended.id)
    if retried is None or (
        request_key is not None and find_request(conn, ended.job_id, request_key) is not None
    ):
        return  # nobody has, or this very request has
    if retried.succeeded and not may_have_succeeded:
        raise Conflict("run.retry_succeeded", "A retry of this run has succeeded already.")
    if retried.some_go_on:
        raise Conflict("run.retry_goes_on", "A retry of this run has not ended yet.")


def _shards_to_retry(conn: sa.Connection, ended: Run, *, failed_only: bool) -> list[Run] | None:
    """The shards that are done again; None for a run that is done again as a whole."""
    if ended.fire_id is not None:
        return [ended]
    if not (failed_only and ended.is_fire):
        return None
    failed = [each for each in run_lists.shard_runs(conn, ended.id) if each.state in FAILURES]
    if not failed:
        raise Conflict("run.no_failed_shards", "No shard of this run failed.")
    return failed


def _lock(conn: sa.Connection, actor: Actor, run_id: int) -> Run:
    """The run, locked, when the caller may operate it; checked before the lock is taken."""
    executor_id = run_lists.executor_of_run(conn, run_id)
    if executor_id is None:
        raise not_found()
    actor.require(Permission.OPERATE, executor_id)
    run = lock_runs(conn, [run_id]).get(run_id)
    if run is None:
        raise not_found()
    return run


def _note(conn: sa.Connection, edit: RunEdit, action: str, run: Run) -> None:
    detail = {"job": run.job_id, "state": run.state.value}
    edit.note(conn, action, run.id, executor_id=run.executor_id, **detail)
