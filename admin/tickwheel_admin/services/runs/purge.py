"""Purging: ended runs that are older than something, or not among the newest, are deleted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import RUNS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.paging import decode_cursor, encode_cursor
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.queries import MAX_COUNTED, Matching
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.runs.purge import (
    KEPT_MS,
    PurgePosition,
    PurgeScope,
    find_purgeable,
    purge_runs,
)
from tickwheel_admin.store.runs.retention import RUNS_PER_BATCH, is_quiet, rest_after

MAX_OLDER_THAN_SECONDS = 3_155_760_000  # a hundred years
MAX_KEEP_NEWEST = 10_000
PREVIEW_STEPS = 20
ROWS_PER_PREVIEW_STEP = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What one step did."""

    deleted: int  # runs; shards are not counted, they go with their fire
    next: str | None  # cursor of the next step; None: this was the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """Which runs somebody wants gone."""

    executor_id: int | None
    job_id: int | None
    older_than_seconds: int | None
    keep_newest: int | None

    def wanted(self, now: int) -> PurgeScope:
        age_ms = (self.older_than_seconds or 0) * 1000
        return PurgeScope(
            executor_id=self.executor_id,
            job_id=self.job_id,
            until=max(0, now - max(age_ms, KEPT_MS)),
            keep_newest=self.keep_newest,
        )


class Purge:
    """The use case of purging.

    Only runs that have ended go, whole fires with their shards, with their attempts, logs and
    checkpoints. Runs that were scheduled within the last minute stay in any case.
    """

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._events = events
        self._audited = AuditedTransactions(store, ids, events)

    async def preview(
        self,
        actor: Actor,
        *,
        executor_id: int | None = None,
        job_id: int | None = None,
        older_than_seconds: int | None = None,
        keep_newest: int | None = None,
    ) -> Matching:
        """How many runs would go, counted up to 10,000; raises as `step`."""
        wish = _checked(executor_id, job_id, older_than_seconds, keep_newest)

        def count(conn: sa.Connection) -> Matching:
            _require(conn, actor, wish)
            wanted = wish.wanted(now_ms(conn))
            place: PurgePosition | None = PurgePosition()
            runs = 0
            for _ in range(PREVIEW_STEPS):
                found = find_purgeable(
                    conn, wanted, place or PurgePosition(), rows=ROWS_PER_PREVIEW_STEP
                )
                runs += len(found.runs)
                place = found.next
                if place is None or runs >= MAX_COUNTED:
                    break
            return Matching(min(runs, MAX_COUNTED), place is not None)

        return await self._store.read(count)

    async def step(
        self,
        actor: Actor,
        *,
        executor_id: int | None = None,
        job_id: int | None = None,
        older_than_seconds: int | None = None,
        keep_newest: int | None = None,
        cursor: str | None = None,
    ) -> Purged:
        """Delete some of the runs, and rest; repeat with the cursor of the answer until there is
        none.

        Args:
            executor_id: of this executor only.
            job_id: of this job only, also when it is deleted; with neither, of all jobs.
            older_than_seconds: those scheduled longer ago.
            keep_newest: all but so many of each job; what has not ended does not count.

        Raises:
            InvalidInput: not exactly one of the two rules, both an executor and a job, a number out
                of range, or a cursor of something else.
            NotFound, NotAllowed: without the right to administer the executor, or all of them.
        """
        wish = _checked(executor_id, job_id, older_than_seconds, keep_newest)
        place = decode_cursor(cursor, PurgePosition)
        if place is None:
            await self._begin(actor, wish)

        def purge(conn: sa.Connection) -> tuple[int, PurgePosition | None]:
            _require(conn, actor, wish)
            wanted = wish.wanted(now_ms(conn))
            found = find_purgeable(conn, wanted, place or PurgePosition(), rows=RUNS_PER_BATCH)
            return purge_runs(conn, found.runs), found.next

        clock = asyncio.get_running_loop().time
        began = clock()
        deleted, behind = await self._store.run(purge)
        self._events.publish(RUNS)
        if behind is not None:
            # Here, for the next step is asked for at once.
            taken, quiet = clock() - began, await self._store.read(is_quiet)
            await asyncio.sleep(rest_after(taken, is_quiet=quiet))
        return Purged(deleted=deleted, next=None if behind is None else encode_cursor(behind))

    async def _begin(self, actor: Actor, wish: _Wish) -> None:
        """Note who purges what, once for all steps."""
        rule: dict[str, Any] = (
            {"older_than_seconds": wish.older_than_seconds}
            if wish.keep_newest is None
            else {"keep_newest": wish.keep_newest}
        )
        if wish.job_id is not None:
            rule["job"] = wish.job_id

        def note(conn: sa.Connection, entry: AuditEntry) -> None:
            executor_id = _require(conn, actor, wish)
            object_id = executor_id if wish.job_id is None else wish.job_id
            entry.write("runs.purged", object_id, executor_id=executor_id, **rule)

        await self._audited.run(actor, note)


def _require(conn: sa.Connection, actor: Actor, wish: _Wish) -> int | None:
    """The executor concerned, None for all, when the caller may administer it."""
    if wish.job_id is None and wish.executor_id is None:
        actor.require(Permission.ADMINISTER)
        return None
    executor_id = wish.executor_id
    if wish.job_id is not None:
        executor_id = store_jobs.executor_of_job(conn, wish.job_id)
    if executor_id is None:
        raise not_found()
    actor.require(Permission.ADMINISTER, executor_id)
    return executor_id


def _checked(
    executor_id: int | None,
    job_id: int | None,
    older_than_seconds: int | None,
    keep_newest: int | None,
) -> _Wish:
    if executor_id is not None and job_id is not None:
        raise InvalidInput.one(
            "executor_id", "does_not_apply", "A job has one executor only; name just the job."
        )
    if (older_than_seconds is None) == (keep_newest is None):
        raise InvalidInput.one(
            "older_than_seconds",
            "required",
            "Give either “older_than_seconds” or “keep_newest”.",
        )
    _check_range("older_than_seconds", older_than_seconds, MAX_OLDER_THAN_SECONDS)
    _check_range("keep_newest", keep_newest, MAX_KEEP_NEWEST)
    return _Wish(
        executor_id=executor_id,
        job_id=job_id,
        older_than_seconds=older_than_seconds,
        keep_newest=keep_newest,
    )


def _check_range(field: str, value: int | None, high: int) -> None:
    if value is not None and not 0 <= value <= high:
        raise InvalidInput.one(
            field,
            "out_of_range",
            "This must lie between %(low)s and %(high)s.",
            low="0",
            high=f"{high:,}",
        )
