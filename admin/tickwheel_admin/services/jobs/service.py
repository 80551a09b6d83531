"""Jobs: finding them, changing them, and running them by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.input.job import parse_parameters, read_job
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import JOBS, QUEUED, RUNS, TRIGGERS, Events
from tickwheel_admin.services.jobs import edits as job_edits
from tickwheel_admin.services.jobs.checks import further_problems, merged
from tickwheel_admin.services.jobs.edits import Edit, begin_edit
from tickwheel_admin.services.jobs.lists import JobDetail as JobDetail
from tickwheel_admin.services.jobs.lists import JobItem as JobItem
from tickwheel_admin.services.jobs.lists import JobQuery as JobQuery
from tickwheel_admin.services.jobs.lists import JobView as JobView
from tickwheel_admin.services.jobs.lists import read_detail, read_failing, read_page
from tickwheel_admin.services.jobs.queries import MatchingJobs as MatchingJobs
from tickwheel_admin.services.jobs.queries import filter_of, page_at, place_in
from tickwheel_admin.services.lists.paging import Page, check_limit
from tickwheel_admin.services.lists.scope import not_found, visible_executors
from tickwheel_admin.services.runs.queries import MAX_COUNTED
from tickwheel_admin.services.runs.requests import (
    RequestedRun,
    check_delay,
    check_request_key,
    request_run,
)
from tickwheel_admin.services.workflows.names import KnownNames, with_ids
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import protocol_of
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.filters import JobSort as JobSort
from tickwheel_admin.store.jobs.filters import count_jobs, jobs_called
from tickwheel_admin.store.runs.summaries import RunSummary as RunSummary
from tickwheel_admin.store.system.audit import find_audit

T = TypeVar("T")


class Jobs:
    """Use cases of jobs."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._configs = JobConfigs(keep=1_000)
        self._calendars = CalendarCache()

    # --- finding -----------------------------------------------------------------------------

    async def page(
        self, actor: Actor, query: JobQuery, *, cursor: str | None = None, limit: int = 50
    ) -> Page[JobItem]:
        """Jobs in the order that the query asks for.

        A page of failing jobs can be shorter than `limit`, even empty, and still have a next one.

        Raises:
            InvalidInput: a word that means nothing, or a cursor of another list.
        """
        wanted = filter_of(actor, query)
        at = place_in(query, cursor)
        check_limit(limit)
        read = read_failing if query.view == JobView.FAILING else read_page
        found = await self._store.read(read, wanted, at, limit, self._calendars)
        if at.back and found.more_at is None and len(found.items) < limit:
            # The list begins here: its first page is shown whole, as whoever enters it sees it.
            at = place_in(query, None)
            found = await self._store.read(read, wanted, at, limit, self._calendars)
        return page_at(found, at)

    async def called(self, actor: Actor, name: str, executor_id: int | None = None) -> list[int]:
        """Ids of the jobs of exactly this name that the caller may see; at most two of them."""
        if not is_clean(name):
            return []
        executors = visible_executors(actor, executor_id)
        return list(await self._store.read(lambda c: jobs_called(c, name, executors, limit=2)))

    async def count_matching(self, actor: Actor, query: JobQuery) -> MatchingJobs:
        """How many jobs a list shows on all its pages, counted up to 10,000.

        Failing ones are not counted: that would be to look at the runs of every job.
        """
        wanted = filter_of(actor, query)
        if query.view == JobView.FAILING:
            return MatchingJobs(0, True)
        return MatchingJobs(
            *await self._store.read(lambda c: count_jobs(c, wanted, limit=MAX_COUNTED))
        )

    async def get(self, actor: Actor, job_id: int) -> JobDetail:
        """One job; a deleted one is not found."""

        def read(conn: sa.Connection) -> JobDetail:
            job = store_jobs.get_job(conn, job_id)
            if job is None:
                raise not_found()
            actor.require(Permission.VIEW, job.executor_id)
            return read_detail(conn, actor, job, self._calendars)

        return await self._store.read(read)

    # --- changing ----------------------------------------------------------------------------

    async def create(
        self,
        actor: Actor,
        executor_id: int,
        raw: Mapping[str, Any],
        *,
        request_key: str | None = None,
        noted: Sequence[Problem] = (),
    ) -> int:
        """Add a job; returns its id.

        Args:
            request_key: the same key gives the same job, however often it is sent.
            noted: what is known to be wrong already; all else that is wrong is told with it.

        Raises:
            InvalidInput: with every problem found; handler.unknown.
            Conflict: job.name_taken.
        """
        actor.require(Permission.DEVELOP, executor_id)
        check_request_key(request_key)
        config, problems = await self.read(actor, executor_id, raw)
        if noted or problems:
            raise await self.refused(actor, executor_id, raw, noted=noted)
        new_id = await self._ids.take("job")
        begun = await self._begin(actor, config)

        def create(conn: sa.Connection, edit: Edit) -> int:
            return job_edits.create_job(
                conn, edit, job_id=new_id, executor_id=executor_id, config=config
            )

        job_id = await self._edited(create, replace(begun, request_key=request_key))
        self._announce()
        return job_id

    async def update(
        self,
        actor: Actor,
        job_id: int,
        raw: Mapping[str, Any],
        *,
        revision: int,
        noted: Sequence[Problem] = (),
    ) -> int:
        """Replace the job's configuration; returns its new revision.

        Args:
            revision: the one the change was made from.
            noted: what is known to be wrong already; all else that is wrong is told with it.

        Raises:
            InvalidInput: with every problem found; handler.unknown.
            Conflict: job.changed when `revision` is no longer current; job.name_taken.
        """
        executor_id = await self._require(actor, job_id, Permission.DEVELOP)
        config, problems = await self.read(actor, executor_id, raw)
        if noted or problems:
            raise await self.refused(actor, executor_id, raw, noted=noted, job_id=job_id)
        edit = await self._begin(actor, config)

        def update(conn: sa.Connection, edit: Edit) -> int:
            return job_edits.update_job(conn, edit, job_id=job_id, revision=revision, config=config)

        new_revision = await self._edited(update, edit)
        self._announce()
        return new_revision

    async def pause(self, actor: Actor, job_id: int) -> None:
        """Stop its triggers; runs that are due or live go on. Pausing twice changes nothing."""
        await self._set_paused(actor, job_id, paused=True)

    async def resume(self, actor: Actor, job_id: int) -> None:
        """Let its triggers fire again, from now on; those that are paused themselves do not."""
        await self._set_paused(actor, job_id, paused=False)

    async def pause_trigger(self, actor: Actor, job_id: int, trigger_id: int) -> None:
        """Stop one trigger of a job. Pausing twice changes nothing.

        Raises:
            Conflict: trigger.in_error.
        """
        await self._set_trigger_paused(actor, job_id, trigger_id, paused=True)

    async def resume_trigger(self, actor: Actor, job_id: int, trigger_id: int) -> None:
        """Let one trigger fire again, from now on, unless its job is paused; raises likewise."""
        await self._set_trigger_paused(actor, job_id, trigger_id, paused=False)

    async def delete(self, actor: Actor, job_id: int) -> None:
        """Remove the job: runs that wait are cancelled, live ones go on, the ledger stays."""

        def delete(conn: sa.Connection, edit: Edit) -> bool:
            return job_edits.delete_job(conn, edit, job_id=job_id, configs=self._configs)

        edit = await self._begin(actor)
        while not await self._edited(delete, edit):
            pass
        self._announce()

    async def run_now(
        self,
        actor: Actor,
        job_id: int,
        *,
        parameters: str | None = None,
        node_id: int | None = None,
        node: str | None = None,
        delay_ms: int = 0,
        request_key: str | None = None,
        origin: Origin = Origin.MANUAL,
        trace: str | None = None,
    ) -> int:
        """Ask for one run, also of a paused job; returns the run's id.

        Args:
            parameters: JSON object laid over the job's own, key by key; None: the job's own.
            node_id: where it shall run, and nowhere else; None: where the job's routing says.
            node: the same by name: the live node of the job's executor, the newest of several.
            delay_ms: due so long from now; 0 to 30 days.
            request_key: the same key gives the same run, however often it is sent.
            trace: that the run becomes part of (domain.runs.trace); None: of none.

        Raises:
            InvalidInput: parameters are no JSON object, or too large together with the job's; a
                node that cannot run it; the key is too long.
        """
        if parameters is not None:
            parameters = parse_parameters(parameters)
        check_request_key(request_key)
        check_delay(delay_ms)
        audit_id = await self._ids.take("audit")
        request = RequestedRun(
            actor=actor,
            origin=origin,
            parameters=parameters,
            request_key=request_key,
            node_id=node_id,
            node=node,
            delay_ms=delay_ms,
            trace=trace,
        )
        run_id = await self._ids.take("run")

        def run_now(conn: sa.Connection) -> int:
            if find_audit(conn, audit_id) is not None:
                return run_id
            job = job_edits.lock_job_for(conn, actor, job_id, Permission.OPERATE)
            return request_run(conn, job, request, run_ids=[run_id], audit_id=audit_id)

        asked = await self._store.run(run_now)
        self._events.publish(QUEUED)
        self._events.publish(RUNS)
        return asked

    async def refused(
        self,
        actor: Actor,
        executor_id: int | None,
        raw: Mapping[str, Any],
        *,
        noted: Sequence[Problem] = (),
        job_id: int = 0,
        known: KnownNames | None = None,
    ) -> InvalidInput:
        """All that is wrong with a job that is not saved because something is.

        Args:
            executor_id: None while nobody said which; what only its nodes know is left out.
            noted: what is known to be wrong already.
            job_id: its own; 0 for a new one.
            known: jobs that are to be added as well.
        """
        config, problems = await self.read(actor, executor_id, raw, known=known)
        told = merged(noted, problems)
        if executor_id is not None:
            told = merged(
                told,
                await self._store.read(
                    lambda conn: further_problems(
                        conn, actor, executor_id, config, job_id=job_id, refused=told
                    )
                ),
            )
        return InvalidInput(told)

    async def read(
        self,
        actor: Actor,
        executor_id: int | None,
        raw: Mapping[str, Any],
        *,
        known: KnownNames | None = None,
    ) -> tuple[JobConfig, list[Problem]]:
        """What the fields say, with the names in a workflow as ids, and what is wrong with them."""

        def read(conn: sa.Connection) -> tuple[Protocol, Mapping[str, Any], list[Problem]]:
            protocol = Protocol.TICKWHEEL
            if executor_id is not None:
                protocol = protocol_of(conn, executor_id)
            return protocol, *with_ids(conn, actor, executor_id, raw, known=known)

        protocol, fields, unknown = await self._store.read(read)
        config, problems = read_job(fields, protocol)
        return config, merged(unknown, problems)

    async def _require(self, actor: Actor, job_id: int, permission: Permission) -> int:
        """Refuse before the input is looked at: its problems are not for everybody."""
        executor_id = await self._store.read(store_jobs.executor_of_job, job_id)
        if executor_id is None:
            raise not_found()
        actor.require(permission, executor_id)
        return executor_id

    async def _begin(self, actor: Actor, config: JobConfig | None = None) -> Edit:
        return await begin_edit(self._ids, actor, config)

    async def _set_paused(self, actor: Actor, job_id: int, *, paused: bool) -> None:
        def change(conn: sa.Connection, edit: Edit) -> None:
            job_edits.set_job_paused(conn, edit, job_id=job_id, paused=paused)

        await self._edited(change, await self._begin(actor))
        self._announce()

    async def _set_trigger_paused(
        self, actor: Actor, job_id: int, trigger_id: int, *, paused: bool
    ) -> None:
        def change(conn: sa.Connection, edit: Edit) -> None:
            job_edits.set_trigger_paused(
                conn, edit, job_id=job_id, trigger_id=trigger_id, paused=paused
            )

        await self._edited(change, await self._begin(actor))
        self._announce()

    async def _edited(self, work: Callable[[sa.Connection, Edit], T], edit: Edit) -> T:
        """Do the edit, with ids for the runs that it has to write."""
        return await self._ids.run_with_ids(
            "run", lambda run_ids: self._store.run(work, replace(edit, run_ids=run_ids))
        )

    def _announce(self) -> None:
        for topic in (JOBS, TRIGGERS, RUNS, QUEUED):
            self._events.publish(topic)
