"""Runs: following them, stopping them, doing them again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from tickwheel_admin.domain import moves
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.job_input import parse_parameters
from tickwheel_admin.domain.run import FAILURES, FINAL, Origin, Run, RunState
from tickwheel_admin.domain.user import Actor, Permission
from tickwheel_admin.services.events import CANCEL, QUEUED, RUNS, Events
from tickwheel_admin.services.paging import Page, check_limit, decode_cursor, encode_cursor
from tickwheel_admin.services.requests import check_request_key, request_run
from tickwheel_admin.services.run_log import LogEntry as LogEntry
from tickwheel_admin.services.run_log import LogPage as LogPage
from tickwheel_admin.services.run_log import check_log_query, read_log
from tickwheel_admin.services.run_waiting import Waiting as Waiting
from tickwheel_admin.services.run_waiting import why_it_waits
from tickwheel_admin.services.scope import not_found, visible_executors
from tickwheel_admin.store import jobs as store_jobs
from tickwheel_admin.store import run_lists
from tickwheel_admin.store.audit import write_audit
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.ids import Ids
from tickwheel_admin.store.run_lists import AttemptView as AttemptView
from tickwheel_admin.store.run_lists import Position, RunFilter
from tickwheel_admin.store.run_lists import RunItem as RunItem
from tickwheel_admin.store.run_marks import RunMark as RunMark
from tickwheel_admin.store.runs import lock_runs, move_runs, request_cancel

MAX_ATTEMPTS_SHOWN = 200


class RunGroup(StrEnum):
    """States that people ask for together."""

    FAILED_ANY = "failed_any"  # failed, timed out or lost: what can be retried
    ACTIVE = "active"  # queued, dispatched or running


_STATES = {
    RunGroup.FAILED_ANY: FAILURES,
    RunGroup.ACTIVE: frozenset(RunState) - FINAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs a list shows."""

    state: str | None = None  # one of RunState or of RunGroup
    job_id: int | None = None
    executor_id: int | None = None
    from_at: int | None = None  # scheduled at or after
    to_at: int | None = None  # scheduled before


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """One run and everything about it but its log."""

    item: RunItem
    config: JobConfig  # of the revision it was made with
    parameters: str  # JSON text that its handler gets
    attempts: list[AttemptView]  # ended ones that another try followed, oldest first
    waiting: Waiting | None  # why a queued run does not start
    job_deleted: bool
    retried_by: list[int]  # runs that retry it by hand


class Runs:
    """Use cases of runs."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events

    async def page(
        self, actor: Actor, query: RunQuery, *, cursor: str | None = None, limit: int = 50
    ) -> Page[RunItem]:
        """Newest scheduled first; items come without parameters and result.

        A page can be shorter than `limit`, even empty, and still have a next one.
        """
        check_limit(limit)
        before = decode_cursor(cursor, Position)
        states = _states(query.state)
        executors = visible_executors(actor, query.executor_id)

        def read(conn: sa.Connection) -> tuple[list[RunItem], Position | None]:
            narrowed = executors
            if query.job_id is not None and executors is not None:
                # All runs of a job are of one executor: either all of them are shown or none.
                if store_jobs.executor_of_job(conn, query.job_id) not in executors:
                    return [], None
                narrowed = None
            wanted = RunFilter(
                states=states,
                job_id=query.job_id,
                executors=narrowed,
                from_at=query.from_at,
                to_at=query.to_at,
            )
            return run_lists.page_runs(conn, wanted, before=before, limit=limit)

        items, behind = await self._store.read(read)
        return Page(items=items, next=None if behind is None else encode_cursor(behind))

    async def get(self, actor: Actor, run_id: int) -> RunDetail:
        """One run."""

        def read(conn: sa.Connection) -> RunDetail:
            item = run_lists.get_run(conn, run_id)
            if item is None:
                raise not_found()
            run = item.run
            actor.require(Permission.VIEW, run.executor_id)
            config = store_jobs.get_config(conn, run.job_id, run.job_revision)
            return RunDetail(
                item=item,
                config=config,
                parameters=config.parameters if run.parameters is None else run.parameters,
                attempts=run_lists.attempts_of_run(conn, run_id, limit=MAX_ATTEMPTS_SHOWN),
                waiting=why_it_waits(conn, run, config),
                job_deleted=store_jobs.get_job(conn, run.job_id) is None,
                retried_by=run_lists.retries_of_run(conn, run),
            )

        return await self._store.read(read)

    async def log(
        self,
        actor: Actor,
        run_id: int,
        *,
        attempt: int | None = None,
        after: int = 0,
        limit: int = 1_000,
    ) -> LogPage:
        """Log lines of one attempt, in order and without gaps.

        Args:
            attempt: None: the newest that may have any.
            after: the last line that the caller has already; 0: none.

        Raises:
            NotFound: also when there was no such attempt.
        """
        check_log_query(after=after, limit=limit)

        def read(conn: sa.Connection) -> LogPage:
            run = _visible(conn, actor, run_id, Permission.VIEW)
            return read_log(conn, run, attempt=attempt, after=after, limit=limit)

        return await self._store.read(read)

    async def cancel(self, actor: Actor, run_id: int) -> None:
        """Stop a run: a queued one ends at once, a live one when its node confirms.

        Asking again changes nothing.

        Raises:
            Conflict: run.ended.
        """
        audit_id = await self._ids.take("audit")

        def cancel(conn: sa.Connection) -> None:
            run = _lock(conn, actor, run_id)
            if run.state in FINAL:
                raise Conflict("run.ended", "This run has already ended.")
            now = now_ms(conn)
            if run.state is RunState.QUEUED:
                move_runs(conn, [moves.cancelled_while_queued(run, now=now)])
            elif run.cancel_requested_at is None:
                request_cancel(conn, run.id, now=now)
            else:
                return
            write_audit(
                conn,
                id=audit_id,
                actor=actor,
                action="run.cancelled",
                executor_id=run.executor_id,
                object_id=run.id,
                detail={"job": run.job_id, "state": run.state.value},
            )

        await self._store.run(cancel)
        self._events.publish(CANCEL)
        self._events.publish(RUNS)

    async def retry(
        self,
        actor: Actor,
        run_id: int,
        *,
        parameters: str | None = None,
        request_key: str | None = None,
    ) -> int:
        """Do an ended run again, as a new run of the job as it is now; returns the new run's id.

        Args:
            parameters: JSON object; None: those the ended run was given, if it was given any.
            request_key: the same key gives the same run, however often it is sent.

        Raises:
            InvalidInput: parameters are no JSON object; the key was used for something else.
            Conflict: run.not_ended; job.deleted.
        """
        if parameters is not None:
            parameters = parse_parameters(parameters)
        check_request_key(request_key)
        new_id = await self._ids.take("run")
        audit_id = await self._ids.take("audit")

        def retry(conn: sa.Connection) -> int:
            ended = _visible(conn, actor, run_id, Permission.OPERATE)
            if ended.state not in FINAL:
                raise Conflict(
                    "run.not_ended", "This run has not ended yet; it can be cancelled, not retried."
                )
            job = store_jobs.lock_job(conn, ended.job_id)
            if job is None:
                raise Conflict("job.deleted", "The job of this run has been deleted.")
            asked = request_run(
                conn,
                actor,
                job,
                run_id=new_id,
                audit_id=audit_id,
                origin=Origin.RETRY,
                parameters=ended.parameters if parameters is None else parameters,
                request_key=request_key,
                retry_of=run_id,
            )
            if asked != new_id and _visible(conn, actor, asked, Permission.VIEW).retry_of != run_id:
                raise InvalidInput.one(
                    "request_key", "request_key.used", "This key belongs to another request."
                )
            return asked

        asked = await self._store.run(retry)
        self._events.publish(QUEUED)
        self._events.publish(RUNS)
        return asked


def _states(state: str | None) -> frozenset[RunState] | None:
    if state is None:
        return None
    if state in set(RunGroup):
        return _STATES[RunGroup(state)]
    if state in set(RunState):
        return frozenset({RunState(state)})
    raise InvalidInput.one(
        "state",
        "not_one_of",
        "This must be one of %(choices)s.",
        choices=", ".join((*RunState, *RunGroup)),
    )


def _visible(conn: sa.Connection, actor: Actor, run_id: int, permission: Permission) -> Run:
    item = run_lists.get_run(conn, run_id)
    if item is None:
        raise not_found()
    actor.require(permission, item.run.executor_id)
    return item.run


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
