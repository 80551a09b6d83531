"""Many new jobs at once: a hundred in a transaction, each with an answer of its own.

What one job of a transaction reads, its executor, handlers, schemas and calendars, is read once
for all of them, and what they write goes in one statement for each table.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput, UserError
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.calendars.of_triggers import check_calendars
from tickwheel_admin.services.events.events import JOBS, TRIGGERS, Events
from tickwheel_admin.services.handlers.known import check_offered
from tickwheel_admin.services.handlers.schemas import schema_of
from tickwheel_admin.services.handlers.scripts import check_script
from tickwheel_admin.services.jobs.checks import name_taken
from tickwheel_admin.services.jobs.edits import Edit, created_detail, made_before
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.pools.of_jobs import held_pools
from tickwheel_admin.services.runs.batches import code_of
from tickwheel_admin.services.runs.parameters import check_against_schema
from tickwheel_admin.services.runs.requests import check_request_key
from tickwheel_admin.services.runs.secret_references import check_secret_references
from tickwheel_admin.services.system.bulk_entries import BulkAction, BulkEntries
from tickwheel_admin.services.triggers.cutover import new_triggers
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.calendars.edits import hold_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import StatementRefused, Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import get_executor, offered_handlers
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.system.audit import NewAudit, find_audits, write_audits
from tickwheel_admin.store.triggers import triggers as job_triggers

MAX_JOBS = 5_000
BATCH = 100  # jobs of one transaction

# By its place in the request: the id of a job, or why there is none.
Outcome = int | UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that somebody wants to add."""

    executor_id: int
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJob:
    """A job whose fields are right, with the ids that it may use."""

    place: int  # in the request
    executor_id: int
    config: JobConfig
    job_id: int
    edit: Edit


class JobCreation:
    """Use case of adding many jobs."""

    def __init__(self, store: Store, ids: Ids, jobs: Jobs, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._jobs = jobs
        self._events = events
        self._entries = BulkEntries(store, ids)
        self._turn = asyncio.Lock()  # thousands of jobs at a time are enough work

    async def create_many(
        self, actor: Actor, new: Sequence[NewJob], *, request_key: str | None = None
    ) -> list[Outcome]:
        """Add jobs, at most 5,000; what refuses one does not stop the others.

        Args:
            request_key: a request that is sent again with the same one finds the jobs that it
                made; those are told as they were then.

        Raises:
            InvalidInput: none or too many jobs; the key cannot be stored.
        """
        if not 1 <= len(new) <= MAX_JOBS:
            raise InvalidInput.one(
                "jobs", "out_of_range", "Give 1 to %(limit)s jobs at once.", limit=f"{MAX_JOBS:,}"
            )
        check_request_key(request_key)
        async with self._turn:
            return await self._create(actor, new, request_key)

    async def _create(
        self, actor: Actor, new: Sequence[NewJob], request_key: str | None
    ) -> list[Outcome]:
        bulk = BulkAction(action="jobs.created", detail={"jobs": len(new)})
        concerned = {each.executor_id for each in new}
        protocols = await self._store.read(_protocols, sorted(concerned))
        allowed = {each for each in protocols if actor.may(Permission.DEVELOP, each)}
        step = await self._entries.open(actor, bulk, allowed if len(new) > 1 else ())
        outcomes: dict[int, Outcome] = {}
        for start in range(0, len(new), BATCH):
            places = range(start, min(start + BATCH, len(new)))
            # In a thread, and before the transaction: others must not wait while this is read.
            plain = [place for place in places if not _has_workflow(new[place])]
            read = await asyncio.to_thread(_read, step.actor, new, plain, protocols)
            outcomes |= {p: found for p, found in read.items() if isinstance(found, UserError)}
            configs = {p: found for p, found in read.items() if isinstance(found, JobConfig)}
            outcomes |= await self._batch(step.actor, new, configs, request_key)
            for place in set(places) - set(plain):  # these go one by one as well
                outcomes[place] = await self._one(step.actor, new[place], request_key)
        told = [outcomes[place] for place in range(len(new))]
        skipped: dict[str, int] = {}
        for each in told:
            if isinstance(each, UserError):
                skipped[code_of(each)] = skipped.get(code_of(each), 0) + 1
        await self._entries.tell(step, skipped)
        for topic in (JOBS, TRIGGERS):
            self._events.publish(topic)
        return told

    async def _batch(
        self,
        actor: Actor,
        new: Sequence[NewJob],
        configs: Mapping[int, JobConfig],
        request_key: str | None,
    ) -> dict[int, Outcome]:
        # Links to children, and rules, are checked against all others: such jobs go one by one.
        together = {
            place: each for place, each in configs.items() if not each.children and not each.alarms
        }
        wanted = await self._with_ids(actor, new, together, request_key)
        outcomes: dict[int, Outcome] = {}
        # Some job of them is at fault, such as one that lost a race for its name.
        with contextlib.suppress(StatementRefused, sa.exc.IntegrityError):
            outcomes = await self._store.run(create_jobs, wanted)
        for place in configs:
            if place not in outcomes:
                outcomes[place] = await self._one(actor, new[place], request_key)
        return outcomes

    async def _one(self, actor: Actor, new: NewJob, request_key: str | None) -> Outcome:
        try:
            return await self._jobs.create(actor, new.executor_id, new.raw, request_key=request_key)
        except UserError as error:
            return error

    async def _with_ids(
        self,
        actor: Actor,
        new: Sequence[NewJob],
        configs: Mapping[int, JobConfig],
        request_key: str | None,
    ) -> list[WantedJob]:
        job_ids = iter(await self._ids.take_many("job", len(configs)))
        audit_ids = iter(await self._ids.take_many("audit", len(configs)))
        triggers = sum(len(config.triggers) for config in configs.values())
        trigger_ids = iter(await self._ids.take_many("trigger", triggers))
        return [
            WantedJob(
                place=place,
                executor_id=new[place].executor_id,
                config=config,
                job_id=next(job_ids),
                edit=Edit(
                    actor=actor,
                    audit_id=next(audit_ids),
                    trigger_ids=[next(trigger_ids) for _ in config.triggers],
                    request_key=request_key,
                ),
            )
            for place, config in configs.items()
        ]


def _protocols(conn: sa.Connection, executor_ids: Sequence[int]) -> dict[int, Protocol]:
    """Of those of the executors that exist."""
    found = (get_executor(conn, each) for each in executor_ids)
    return {each.id: each.protocol for each in found if each is not None}


def _has_workflow(new: NewJob) -> bool:
    return new.raw.get("workflow") is not None


def _read(
    actor: Actor,
    new: Sequence[NewJob],
    places: Sequence[int],
    protocols: Mapping[int, Protocol],
) -> dict[int, JobConfig | UserError]:
    """What each of the requested jobs says, or why it cannot be taken."""
    found: dict[int, JobConfig | UserError] = {}
    for place in places:
        try:
            actor.require(Permission.DEVELOP, new[place].executor_id)
            protocol = protocols.get(new[place].executor_id, Protocol.TICKWHEEL)
            found[place] = parse_job(new[place].raw, protocol)
        except UserError as error:
            found[place] = error
    return found


def create_jobs(conn: sa.Connection, wanted: Sequence[WantedJob]) -> dict[int, Outcome]:
    """Add jobs without children, rules and workflows; returns what became of each, by its place.

    What refuses some is found before anything is written, and the others are written.
    """
    noted = find_audits(conn, [each.edit.audit_id for each in wanted])
    outcomes: dict[int, Outcome] = {e.place: e.job_id for e in wanted if e.edit.audit_id in noted}
    if outcomes or not wanted:  # an earlier try of this transaction was committed
        return outcomes
    batch = _Batch(conn, wanted)
    jobs: list[Job] = []
    triggers: list[job_triggers.NewTrigger] = []
    notes: list[NewAudit] = []
    for each in wanted:
        try:
            made = batch.made_before(each)
            if made is None:
                job, new = batch.checked(each)
                jobs.append(job)
                triggers += new
                notes.append(_note(each))
            outcomes[each.place] = each.job_id if made is None else made
        except UserError as error:
            outcomes[each.place] = error
    actor = wanted[0].edit.actor
    store_jobs.add_jobs(conn, jobs, by=actor.name)
    job_triggers.add_triggers(conn, triggers)
    write_audits(conn, actor, notes)
    return outcomes


def _note(wanted: WantedJob) -> NewAudit:
    return NewAudit(
        id=wanted.edit.audit_id,
        action="job.created",
        executor_id=wanted.executor_id,
        object_id=wanted.job_id,
        detail=created_detail(wanted.edit, wanted.config),
    )


class _Batch:
    """What the jobs of a transaction are checked against, each thing read once."""

    def __init__(self, conn: sa.Connection, wanted: Sequence[WantedJob]) -> None:
        self._conn = conn
        executors = sorted({each.executor_id for each in wanted})
        # Locked, so that none is deleted meanwhile.
        self._alive = {e for e in executors if get_executor(conn, e, lock=True) is not None}
        self._offered = offered_handlers(conn, executors)
        self._schemas: dict[tuple[int, str], str | None] = {}
        self._taken: dict[int, dict[str, int]] = {}
        for executor_id in executors:
            names = {e.config.name for e in wanted if e.executor_id == executor_id}
            self._taken[executor_id] = store_jobs.jobs_named(conn, executor_id, names)
        stored = {job_id for names in self._taken.values() for job_id in names.values()}
        self._made = made_before(conn, wanted[0].edit, stored)
        calendars = {
            s.calendar for e in wanted for s in e.config.triggers if s.calendar is not None
        }
        self._calendars: dict[str, Calendar] = {}
        if calendars:
            hold_calendars(conn, calendars)
            self._calendars = read_calendars(conn, calendars)
        self._now = now_ms(conn)

    def made_before(self, wanted: WantedJob) -> int | None:
        """The job that the same request made when it was sent before."""
        found = self._taken[wanted.executor_id].get(wanted.config.name)
        return found if found in self._made else None

    def checked(self, wanted: WantedJob) -> tuple[Job, list[job_triggers.NewTrigger]]:
        """The job and its triggers, as they can be written; its name is taken from here on."""
        config, executor_id = wanted.config, wanted.executor_id
        if executor_id not in self._alive:
            raise not_found()
        check_offered(self._offered.get(executor_id), config.handler)
        check_script(self._conn, wanted.edit.actor, executor_id, config)
        check_against_schema(self._schema(executor_id, config.handler), config)
        check_secret_references(self._conn, executor_id, config)
        if config.name in self._taken[executor_id]:
            raise name_taken(config.name)
        check_calendars(config, self._calendars, now=self._now)
        config = held_pools(self._conn, executor_id, config)
        job = Job(
            id=wanted.job_id,
            executor_id=executor_id,
            revision=1,
            config=config,
            paused=False,
            created_at=self._now,
            updated_at=self._now,
        )
        triggers = new_triggers(
            job,
            config.triggers,
            trigger_ids=wanted.edit.trigger_ids,
            calendars=self._calendars,
            now=self._now,
        )
        self._taken[executor_id][config.name] = wanted.job_id
        return job, triggers

    def _schema(self, executor_id: int, handler: str) -> str | None:
        key = executor_id, handler
        if key not in self._schemas:
            self._schemas[key] = schema_of(self._conn, executor_id, handler)
        return self._schemas[key]
