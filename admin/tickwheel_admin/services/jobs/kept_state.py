"""What jobs keep from run to run, for people: to look at, to set, to clear."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.input.job import parse_parameters
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import JOBS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.jobs.edits import lock_job_for
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import protocol_of
from tickwheel_admin.store.jobs import kept_state as job_states
from tickwheel_admin.store.jobs.jobs import get_job
from tickwheel_admin.store.jobs.kept_state import StoredState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """What a job keeps, and since when."""

    kept: bool  # whether its runs are given a state, as the job is configured now
    state: str  # JSON object
    run_id: int | None  # the run whose end wrote it; None: a person did, or nobody yet
    updated_at: int | None  # None: nobody has written it yet


class JobStates:
    """Use cases of the states that jobs keep."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._audited = AuditedTransactions(store, ids, events)

    async def get(self, actor: Actor, job_id: int) -> JobState:
        """A job's state; `{}` when it has none."""

        def read(conn: sa.Connection) -> JobState:
            job = get_job(conn, job_id)
            if job is None:
                raise not_found()
            actor.require(Permission.VIEW, job.executor_id)
            stored = job_states.get_state(conn, job_id)
            return JobState(
                kept=_keeps_state(conn, job),
                state=stored.state,
                run_id=stored.run_id,
                updated_at=stored.updated_at,
            )

        return await self._store.read(read)

    async def set(
        self, actor: Actor, job_id: int, state: str, *, seen_at: int | None = None
    ) -> None:
        """Let the next run begin from this state.

        A run that goes on has begun from the one before, so what it leaves is not kept.

        Args:
            state: text of a JSON object, at most 64 KiB.
            seen_at: `updated_at` of the state that was seen and is to be replaced; None: whichever
                there is.

        Raises:
            InvalidInput: on "state".
            Conflict: job.keeps_no_state; job.state_changed when `seen_at` is not the current one.
        """
        await self._change(actor, job_id, parse_parameters(state, field="state"), seen_at=seen_at)

    async def clear(self, actor: Actor, job_id: int) -> None:
        """Let the next run begin from `{}`, as the first one did; clearing twice changes nothing.

        A run that goes on leaves none either.
        """
        await self._change(actor, job_id, None)

    async def _change(
        self, actor: Actor, job_id: int, state: str | None, *, seen_at: int | None = None
    ) -> None:
        def change(conn: sa.Connection, entry: AuditEntry) -> None:
            job = lock_job_for(conn, actor, job_id, Permission.DEVELOP)
            stored = job_states.get_state(conn, job_id, lock=True)
            if state is None:
                job_states.forget_states(conn, [job_id])
            else:
                _check(conn, job, stored, seen_at)
                job_states.set_state(conn, job_id, state, now=_later(conn, stored))
            # Not the state itself: it may hold what not everybody may read.
            entry.write(
                "job.state_set",
                job.id,
                executor_id=job.executor_id,
                name=job.config.name,
                cleared=state is None,
            )

        await self._audited.run(actor, change, JOBS)


def _keeps_state(conn: sa.Connection, job: Job) -> bool:
    """Whether its runs can hand something on: nodes without the SDK have no place for it."""
    of_sdk = protocol_of(conn, job.executor_id) is Protocol.TICKWHEEL
    return of_sdk and job.config.keeps_state


def _check(conn: sa.Connection, job: Job, stored: StoredState, seen_at: int | None) -> None:
    if job.config.keeps_state and not _keeps_state(conn, job):
        raise Conflict(
            "job.keeps_no_state",
            "This job keeps no state, because the nodes of its executor run without the SDK.",
        )
    if not job.config.keeps_state:
        raise Conflict(
            "job.keeps_no_state",
            "This job keeps no state, because its runs may go on side by side. Let them run one"
            " after another, at most one at once and not cut into shards.",
        )
    if seen_at is not None and seen_at != stored.updated_at:
        raise Conflict(
            "job.state_changed",
            "The state was written anew meanwhile. Load it again and repeat your change.",
        )


def _later(conn: sa.Connection, stored: StoredState) -> int:
    """Now, and after the last time: `seen_at` names one version."""
    return max(now_ms(conn), (stored.updated_at or 0) + 1)
