"""Imports jobs and calendars of another scheduler into one executor.

What is read comes in pages, and nothing of a page is kept but names and keys, so that a scheduler
of any size can be imported. A page is one transaction. An import that was interrupted is finished
by running it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa

from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.foreign import ForeignCalendar, ForeignJob
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import CALENDARS, JOBS, TRIGGERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.imports.calendars import (
    CalendarImport,
    plan_calendars,
    write_calendar,
)
from tickwheel_admin.services.imports.edits import PageEdit, write_page
from tickwheel_admin.services.imports.plan import ImportPlanner, PlannedImport
from tickwheel_admin.services.system.bulk_entries import BulkAction, BulkEntries, BulkStep
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids


class ForeignImports:
    """Use cases of importing from schedulers other than XXL-JOB."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._entries = BulkEntries(store, ids)
        self._audited = AuditedTransactions(store, ids, events)

    # --- planning --------------------------------------------------------------------------------

    async def plan_calendars(
        self, actor: Actor, source: str, calendars: Sequence[ForeignCalendar]
    ) -> list[CalendarImport]:
        """What would become of calendars."""
        actor.require(Permission.ADMINISTER)
        return await self._store.read(plan_calendars, source, calendars)

    async def plan(
        self, actor: Actor, planner: ImportPlanner, jobs: Sequence[ForeignJob]
    ) -> list[PlannedImport]:
        """What would become of the jobs of one page."""
        actor.require(Permission.ADMINISTER)
        return await self._store.read(planner.page, jobs)

    async def gone(self, actor: Actor, planner: ImportPlanner) -> list[str]:
        """Names of jobs that were imported before and were on none of the pages."""
        actor.require(Permission.ADMINISTER)
        return await self._store.read(planner.gone)

    # --- writing ---------------------------------------------------------------------------------

    async def begin(self, actor: Actor, planner: ImportPlanner, *, jobs: int) -> BulkStep:
        """Let what is written next be one entry of the audit."""
        actor.require(Permission.ADMINISTER)
        actor.require_in_person()
        bulk = BulkAction(action="jobs.created", detail={"jobs": jobs})
        return await self._entries.open(actor, bulk, [planner.executor_id] if jobs > 1 else [])

    async def write_calendar(self, actor: Actor, source: str, planned: CalendarImport) -> None:
        """Add or change a calendar.

        Raises:
            UserError: something changed meanwhile.
        """
        actor.require(Permission.ADMINISTER)
        if planned.fate not in (Fate.CREATED, Fate.CHANGED):
            return
        new_id = await self._ids.take("calendar")

        def write(conn: sa.Connection, entry: AuditEntry) -> None:
            write_calendar(conn, entry, source, planned, new_id)

        await self._audited.run(actor, write, CALENDARS, TRIGGERS)

    async def write(
        self, step: BulkStep, planner: ImportPlanner, jobs: Sequence[PlannedImport], *, paused: bool
    ) -> None:
        """Write what is new or changed among jobs: all of it, or nothing.

        Args:
            paused: whether new jobs are, as the other scheduler goes on firing them.

        Raises:
            UserError: something changed meanwhile, or a change is refused.
        """
        step.actor.require(Permission.ADMINISTER)
        wanted = [each for each in jobs if each.is_written]
        if not wanted:
            return
        edit = PageEdit(
            actor=step.actor,
            executor_id=planner.executor_id,
            paused=paused,
            jobs=wanted,
            audit_ids=await self._ids.take_many("audit", len(wanted)),
            job_ids=await self._ids.take_many("job", len(wanted)),
            trigger_ids=await self._ids_of("trigger", "triggers", wanted),
            rule_ids=await self._ids_of("alarm_rule", "alarms", wanted),
        )

        async def write(run_ids: Sequence[int]) -> None:
            await self._store.run(partial(write_page, run_ids=list(run_ids)), edit)

        await self._ids.run_with_ids("run", write)

    async def end(self, step: BulkStep) -> None:
        """Complete the entry of the audit, and tell who listens."""
        await self._entries.tell(step, {})
        for topic in (JOBS, TRIGGERS):
            self._events.publish(topic)

    async def _ids_of(
        self, kind: str, field: str, jobs: Sequence[PlannedImport]
    ) -> list[list[int]]:
        """New ids, for each job as many as this list of it is long."""
        counts = [len(each.raw[field]) for each in jobs]
        if not any(counts):
            return [[] for _ in jobs]
        ids = iter(await self._ids.take_many(kind, sum(counts)))
        return [[next(ids) for _ in range(count)] for count in counts]
