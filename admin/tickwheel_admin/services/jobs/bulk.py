"""The same done to many jobs, one after another, in bounded steps.

Each job is checked, edited and noted as if it were the only one, in a transaction of its own: what
refuses one does not stop the others, and is counted by its code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, UserError
from tickwheel_admin.domain.input.job import job_to_raw, parse_tag
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.jobs.queries import MatchingJobs
from tickwheel_admin.services.jobs.service import JobQuery, Jobs, JobSort
from tickwheel_admin.services.jobs.yaml import to_yaml
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.runs.batches import code_of
from tickwheel_admin.services.runs.bulk import key_for
from tickwheel_admin.services.runs.requests import check_request_key
from tickwheel_admin.services.system.bulk_entries import (
    BulkAction,
    BulkEntries,
    asked_of,
    join_cursor,
    split_cursor,
)
from tickwheel_admin.services.workflows.names import with_names
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.declared import managed_jobs
from tickwheel_admin.store.jobs.scripts import jobs_with_sources

MAX_IDS = 1_000
STEP = 50  # jobs of one step through all that match a filter
MANAGED = "job.managed_by_code"


class JobAction(StrEnum):
    """What can be done with many jobs."""

    RUN = "run"  # once each, with their own parameters
    PAUSE = "pause"
    RESUME = "resume"
    TAG = "tag"
    UNTAG = "untag"
    DELETE = "delete"


_EDITS = frozenset({JobAction.TAG, JobAction.UNTAG, JobAction.DELETE})  # of what code may manage
_TAGGING = frozenset({JobAction.TAG, JobAction.UNTAG})
_PERMISSIONS = dict.fromkeys(_EDITS, Permission.DEVELOP)  # all others need to operate
_NOTED = {
    JobAction.RUN: "jobs.run",
    JobAction.PAUSE: "jobs.paused",
    JobAction.RESUME: "jobs.resumed",
    JobAction.TAG: "jobs.tagged",
    JobAction.UNTAG: "jobs.untagged",
    JobAction.DELETE: "jobs.deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """What is to be done with each job."""

    action: JobAction
    tag: str | None = None  # to add or to take away
    request_key: str = ""  # the same key starts no job twice, however often it is sent
    origin: Origin = Origin.MANUAL  # of the runs


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOfJobs:
    """What became of many jobs."""

    jobs: list[int]  # those that were changed or started, or were as wanted already
    skipped: Mapping[str, int]  # how many were left alone, by the code of the reason
    next: str | None = None  # cursor of the next step; None: this was the last one

    @property
    def done(self) -> int:
        """How many were not skipped."""
        return len(self.jobs)


class JobBulk:
    """Use cases of many jobs at once."""

    def __init__(self, store: Store, ids: Ids, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs
        self._entries = BulkEntries(store, ids)

    async def many(self, actor: Actor, job_ids: Iterable[int], change: JobChange) -> BulkOfJobs:
        """Change these jobs, at most 1,000; those that cannot be are counted by reason.

        Raises:
            InvalidInput: of the ids, the tag or the request key.
        """
        ids, change = check_ids(job_ids), _checked(change)
        return await self._all(actor, ids, change, bulk=_bulk(change, {"jobs": len(ids)}))

    async def matching(
        self, actor: Actor, query: JobQuery, change: JobChange, *, cursor: str | None = None
    ) -> BulkOfJobs:
        """Change all jobs that match, 50 of them with each call, by name.

        Steps go from name to name, so that jobs which match no longer after their change do not
        move those that are still to come.

        Raises:
            InvalidInput: a word that means nothing; of the tag or the request key.
        """
        change = _checked(change)
        query = replace(query, sort=JobSort.NAME)
        place, number = split_cursor(cursor)
        page = await self._jobs.page(actor, query, cursor=place, limit=STEP)
        bulk = _bulk(change, {"filter": asked_of(query)}, number=number)
        ids = [item.job.id for item in page.items]
        return await self._all(actor, ids, change, bulk=bulk, behind=page.next)

    async def count(self, actor: Actor, query: JobQuery) -> MatchingJobs:
        """How many jobs match, counted up to 10,000."""
        return await self._jobs.count_matching(actor, query)

    async def export(
        self, actor: Actor, job_ids: Collection[int], query: JobQuery | None
    ) -> AsyncIterator[str]:
        """Jobs as YAML documents, those of the ids or all that match the query, piece by piece.

        Jobs that are gone or that the caller may not see are left out.
        """
        if query is None:
            ids = check_ids(job_ids)
            for start in range(0, len(ids), STEP):
                yield await self._seen(actor, ids[start : start + STEP])
            return
        query, cursor = replace(query, sort=JobSort.NAME), None
        while True:
            page = await self._jobs.page(actor, query, cursor=cursor, limit=STEP)
            jobs = [item.job for item in page.items]
            yield await self._store.read(_documents, actor, jobs)
            if (cursor := page.next) is None:
                return

    async def _seen(self, actor: Actor, job_ids: Sequence[int]) -> str:
        def read(conn: sa.Connection) -> str:
            found = (store_jobs.get_job(conn, job_id) for job_id in job_ids)
            seen = [job for job in found if job and actor.may(Permission.VIEW, job.executor_id)]
            return _documents(conn, actor, seen)

        return await self._store.read(read)

    async def _all(
        self,
        actor: Actor,
        job_ids: Sequence[int],
        change: JobChange,
        *,
        bulk: BulkAction,
        behind: str | None = None,
    ) -> BulkOfJobs:
        by_code = await self._store.read(managed_jobs, job_ids) if job_ids else {}
        executors = await self._store.read(store_jobs.executors_of_jobs, job_ids)
        wanted = _PERMISSIONS.get(change.action, Permission.OPERATE)
        concerned = {each for each in executors.values() if actor.may(wanted, each)}
        is_one = len(job_ids) == 1 and bulk.number is None and behind is None
        step = await self._entries.open(actor, bulk, () if is_one else concerned)
        done: list[int] = []
        skipped: Counter[str] = Counter()
        for job_id in job_ids:
            try:
                await self._one(step.actor, job_id, change, is_managed=job_id in by_code)
                done.append(job_id)
            except UserError as error:
                skipped[code_of(error)] += 1
        await self._entries.tell(step, skipped)
        return BulkOfJobs(jobs=done, skipped=dict(skipped), next=join_cursor(behind, step.number))

    async def _one(self, actor: Actor, job_id: int, change: JobChange, *, is_managed: bool) -> None:
        if change.action in _EDITS:
            job = await self._may_edit(actor, job_id)
            if is_managed:
                raise Conflict(MANAGED, "This job is declared in code.")
        match change.action:
            case JobAction.RUN:
                key = key_for(change.request_key, job_id)
                await self._jobs.run_now(actor, job_id, request_key=key, origin=change.origin)
            case JobAction.PAUSE:
                await self._jobs.pause(actor, job_id)
            case JobAction.RESUME:
                await self._jobs.resume(actor, job_id)
            case JobAction.DELETE:
                await self._jobs.delete(actor, job_id)
            case JobAction.TAG | JobAction.UNTAG:
                tags = [tag for tag in job.config.tags if tag != change.tag]
                if change.action is JobAction.TAG:
                    tags = list(dict.fromkeys([*job.config.tags, change.tag or ""]))
                if tags != list(job.config.tags):
                    raw = job_to_raw(job.config) | {"tags": tags}
                    await self._jobs.update(actor, job_id, raw, revision=job.revision)

    async def _may_edit(self, actor: Actor, job_id: int) -> Job:
        """The job as it is, when the caller may edit it: whoever may not is told that first."""
        job = await self._store.read(store_jobs.get_job, job_id)
        if job is None:
            raise not_found()
        actor.require(Permission.DEVELOP, job.executor_id)
        return job


def check_ids(job_ids: Iterable[int]) -> list[int]:
    """The ids, each once.

    Raises:
        InvalidInput: none, or more than 1,000.
    """
    ids = list(dict.fromkeys(job_ids))
    if not 1 <= len(ids) <= MAX_IDS:
        raise InvalidInput.one(
            "jobs", "out_of_range", "Name 1 to %(limit)s jobs at once.", limit=f"{MAX_IDS:,}"
        )
    return ids


def _bulk(change: JobChange, asked: dict[str, Any], *, number: int | None = None) -> BulkAction:
    detail = asked if change.tag is None else {"tag": change.tag, **asked}
    return BulkAction(action=_NOTED[change.action], detail=detail, number=number)


def _checked(change: JobChange) -> JobChange:
    """Refuse a change once, and not for every job."""
    check_request_key(change.request_key or None)
    if change.action is JobAction.RUN and not change.request_key:
        raise InvalidInput.one("request_key", "required", "This is required.")
    if change.action in _TAGGING:
        is_there = change.action is JobAction.UNTAG
        return replace(change, tag=parse_tag(change.tag or "", is_there=is_there))
    return change


def _documents(conn: sa.Connection, actor: Actor, jobs: Sequence[Job]) -> str:
    return "".join(
        f"---\n{to_yaml(with_names(conn, actor, job.executor_id, job_to_raw(job.config)))}"
        for job in jobs_with_sources(conn, jobs)
    )
