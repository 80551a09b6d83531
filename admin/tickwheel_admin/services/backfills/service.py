"""Backfills: asking for them, finding them, and stopping them as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.backfills.backfill import Backfill, BackfillState, FillOutcome
from tickwheel_admin.domain.backfills.runs import parameters_of
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.backfills.coverage import (
    CoverageRequest,
    TriggerCoverage,
    trigger_coverage,
)
from tickwheel_admin.services.backfills.requests import (
    BackfillPreview,
    BackfillRequest,
    check_open,
    check_unchanged,
    checked_request,
    no_instant,
    preview_of,
)
from tickwheel_admin.services.events.events import CANCEL, QUEUED, RUNS, Events
from tickwheel_admin.services.events.transactions import (
    AuditedEdit,
    AuditedTransactions,
    AuditEntry,
)
from tickwheel_admin.services.jobs.edits import lock_job_for
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found, visible_executors
from tickwheel_admin.services.runs.batches import stops
from tickwheel_admin.services.runs.parameters import check_run_parameters
from tickwheel_admin.services.runs.requests import check_request_key
from tickwheel_admin.store.backfills import backfills as store
from tickwheel_admin.store.backfills.slices import open_run_ids
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.jobs import executor_of_job, get_job, names_of_jobs
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.lists import RunItem, read_items
from tickwheel_admin.store.runs.runs import lock_runs


class _After(msgspec.Struct, frozen=True, array_like=True):
    """Behind which backfill, or which instant of one, a page begins."""

    before: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillItem:
    """A backfill, with the names of what it is about."""

    backfill: Backfill
    job_name: str
    executor_name: str
    may_operate: bool  # pause, resume, cancel


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledInstant:
    """An instant of a backfill and its run."""

    at: int
    run_id: int | None  # None: the instant was left, and what it had is deleted
    item: RunItem | None  # None: the run is no longer in the ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edit(AuditedEdit):
    configs: JobConfigs
    run_ids: Sequence[int] = ()  # for children of what is cancelled


class Backfills:
    """Use cases of backfills."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._audited = AuditedTransactions(store, ids, events)
        self._calendars = CalendarCache()
        self._configs = JobConfigs(keep=100)
        self._heavy = HeavyReads()

    # --- asking ------------------------------------------------------------------------------

    async def preview(self, actor: Actor, job_id: int, request: BackfillRequest) -> BackfillPreview:
        """What a backfill of the job would do if it were started now.

        Raises:
            InvalidInput: on from, to, trigger_id, parallel or parameters.
        """

        def read(conn: sa.Connection) -> BackfillPreview:
            job = get_job(conn, job_id)
            if job is None:
                raise not_found()
            actor.require(Permission.OPERATE, job.executor_id)
            return preview_of(conn, job, wanted, self._calendars)

        await self._check_permission(actor, job_id)
        wanted = checked_request(request)
        async with self._heavy.turn(actor.user_id):
            return await self._store.read(read)

    async def create(
        self,
        actor: Actor,
        job_id: int,
        request: BackfillRequest,
        *,
        request_key: str | None = None,
    ) -> int:
        """Start a backfill, also of a paused job; returns its id.

        Args:
            request_key: the same key gives the same backfill, however often it is sent.

        Raises:
            InvalidInput: as `preview`; there is no instant.
            Conflict: backfill.too_many_open, backfill.trigger_changed.
        """
        await self._check_permission(actor, job_id)
        check_request_key(request_key)
        if request_key is not None:
            # Before anything is refused: what was asked for once may be asked for again.
            standing = await self._store.read(store.find_requested, job_id, request_key)
            if standing is not None:
                return standing
        request = checked_request(request)
        seen = await self.preview(actor, job_id, request)
        if seen.total == 0:
            raise no_instant(seen)
        new_id = await self._ids.take("backfill")

        def create(conn: sa.Connection, entry: AuditEntry) -> int:
            job = lock_job_for(conn, actor, job_id, Permission.OPERATE)
            if request_key is not None:
                standing = store.find_requested(conn, job_id, request_key)
                if standing is not None:
                    return standing
            check_open(conn, job_id)
            check_unchanged(conn, job_id, seen)
            spec = seen.trigger.trigger.spec
            check_run_parameters(conn, job, parameters_of(job, spec, request.parameters))
            new = Backfill(
                id=new_id,
                executor_id=job.executor_id,
                job_id=job_id,
                trigger_id=seen.trigger.trigger.id,
                spec=spec,
                saved_at=seen.trigger.saved_at,
                from_at=request.from_at,
                to_at=seen.to_at,
                newest_first=request.newest_first,
                only_holes=request.only_holes,
                parallel=request.parallel,
                parameters=request.parameters,
                requested_by=actor.name[:100],
                total=seen.total,
                state=BackfillState.RUNNING,
                created_at=now_ms(conn),
            )
            store.add_backfill(conn, new, request_key=request_key)
            entry.write(
                "backfill.created",
                new_id,
                executor_id=job.executor_id,
                job=job_id,
                trigger=new.trigger_id,
                since=new.from_at,
                until=new.to_at,
                instants=seen.total,
                parallel=new.parallel,
                **({"only_holes": True} if new.only_holes else {}),
            )
            return new_id

        return await self._audited.run(actor, create, RUNS, repeated=lambda noted: new_id)

    # --- coverage ----------------------------------------------------------------------------

    async def coverage(
        self, actor: Actor, job_id: int, request: CoverageRequest
    ) -> TriggerCoverage:
        """What became of the intervals of a trigger, at most 10,000; computes for long.

        Raises:
            NotFound: there is no such job, or the caller may not see it.
            InvalidInput: on until or trigger_id.
        """

        def read(conn: sa.Connection) -> TriggerCoverage:
            job = get_job(conn, job_id)
            if job is None or not actor.may(Permission.VIEW, job.executor_id):
                raise not_found()
            return trigger_coverage(conn, job, request, self._calendars)

        async with self._heavy.turn(actor.user_id):
            return await self._store.read(read)

    # --- finding -----------------------------------------------------------------------------

    async def page(
        self,
        actor: Actor,
        *,
        job_id: int | None = None,
        executor_id: int | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[BackfillItem]:
        """Backfills that the caller may see, newest first."""
        actor.require(Permission.LOGGED_IN)
        check_limit(limit)
        after = decode_cursor(cursor, _After)

        def read(conn: sa.Connection) -> Page[BackfillItem]:
            found = store.page_backfills(
                conn,
                job_id=job_id,
                executor_ids=visible_executors(actor, executor_id),
                before=None if after is None else after.before,
                limit=limit + 1,
            )
            more = encode_cursor(_After(found[limit - 1].id)) if len(found) > limit else None
            return Page(items=_items(conn, actor, found[:limit]), next=more)

        return await self._store.read(read)

    async def get(self, actor: Actor, backfill_id: int) -> BackfillItem:
        """One backfill, of any state."""

        def read(conn: sa.Connection) -> BackfillItem:
            return _items(conn, actor, [_visible(conn, actor, backfill_id)])[0]

        return await self._store.read(read)

    async def instants(
        self,
        actor: Actor,
        backfill_id: int,
        *,
        outcome: FillOutcome,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[FilledInstant]:
        """The instants of a backfill with one outcome, latest first."""
        check_limit(limit)
        after = decode_cursor(cursor, _After)

        def read(conn: sa.Connection) -> Page[FilledInstant]:
            _visible(conn, actor, backfill_id)
            found = store.page_instants(
                conn,
                backfill_id,
                outcome=outcome,
                before=None if after is None else after.before,
                limit=limit + 1,
            )
            more = encode_cursor(_After(found[limit - 1][0])) if len(found) > limit else None
            runs = read_items(conn, [run_id for _, run_id in found[:limit] if run_id])
            items = {item.run.id: item for item in runs}
            return Page(
                items=[
                    FilledInstant(at=at, run_id=run_id, item=items.get(run_id or 0))
                    for at, run_id in found[:limit]
                ],
                next=more,
            )

        return await self._store.read(read)

    # --- stopping ----------------------------------------------------------------------------

    async def pause(self, actor: Actor, backfill_id: int) -> None:
        """Run no further instants; what is open goes on. Pausing twice changes nothing.

        Raises:
            Conflict: backfill.ended.
        """
        await self._set_state(actor, backfill_id, BackfillState.PAUSED, "backfill.paused")

    async def resume(self, actor: Actor, backfill_id: int) -> None:
        """Go on with the first instant that has no run; raises as `pause`."""
        await self._set_state(actor, backfill_id, BackfillState.RUNNING, "backfill.resumed")

    async def cancel(self, actor: Actor, backfill_id: int) -> None:
        """End it: what waits is cancelled, what runs is asked to end, nothing follows.

        Raises:
            Conflict: backfill.ended.
        """

        def cancel(conn: sa.Connection, edit: _Edit) -> None:
            if edit.earlier(conn):
                return
            found = _to_change(conn, actor, backfill_id)
            now = now_ms(conn)
            runs = lock_runs(conn, open_run_ids(conn, found.id))
            moves = [
                move
                for each in runs.values()
                if each.state not in FINAL
                for move in stops(each, now=now, by=actor.name)
            ]
            move_with_follow_ups(conn, moves, configs=edit.configs, now=now, run_ids=edit.run_ids)
            store.write_backfill(conn, replace(found, state=BackfillState.CANCELLED))
            edit.note(
                conn,
                "backfill.cancelled",
                found.id,
                executor_id=found.executor_id,
                job=found.job_id,
                runs=len(moves),
            )

        edit = _Edit(actor=actor, audit_id=await self._ids.take("audit"), configs=self._configs)
        await self._ids.run_with_ids(
            "run",
            lambda run_ids: self._store.run(cancel, replace(edit, run_ids=run_ids)),
        )
        for topic in (RUNS, QUEUED, CANCEL):
            self._events.publish(topic)

    async def _set_state(
        self, actor: Actor, backfill_id: int, state: BackfillState, action: str
    ) -> None:
        def change(conn: sa.Connection, entry: AuditEntry) -> None:
            found = _to_change(conn, actor, backfill_id)
            if found.state is state:
                return
            store.write_backfill(conn, replace(found, state=state))
            entry.write(action, found.id, executor_id=found.executor_id, job=found.job_id)

        await self._audited.run(actor, change, RUNS)

    async def _check_permission(self, actor: Actor, job_id: int) -> None:
        """Refuse before the input is looked at: its problems are not for everybody."""
        executor_id = await self._store.read(executor_of_job, job_id)
        if executor_id is None:
            raise not_found()
        actor.require(Permission.OPERATE, executor_id)


def _items(conn: sa.Connection, actor: Actor, found: Sequence[Backfill]) -> list[BackfillItem]:
    jobs = names_of_jobs(conn, {each.job_id for each in found})
    executors = executor_names(conn, {each.executor_id for each in found})
    return [
        BackfillItem(
            backfill=each,
            job_name=jobs.get(each.job_id, ""),
            executor_name=executors.get(each.executor_id, ""),
            may_operate=actor.may(Permission.OPERATE, each.executor_id),
        )
        for each in found
    ]


def _visible(conn: sa.Connection, actor: Actor, backfill_id: int) -> Backfill:
    found = store.get_backfill(conn, backfill_id)
    if found is None or not actor.may(Permission.VIEW, found.executor_id):
        raise not_found()
    return found


def _to_change(conn: sa.Connection, actor: Actor, backfill_id: int) -> Backfill:
    """Locked, when the caller may operate it and it has not ended."""
    actor.require(Permission.OPERATE, _visible(conn, actor, backfill_id).executor_id)
    locked = store.lock_backfill(conn, backfill_id)
    if locked is None:
        raise not_found()
    if locked.state in (BackfillState.CANCELLED, BackfillState.DONE):
        raise Conflict("backfill.ended", "This backfill has ended already.")
    return locked
