"""What became of a job's configuration: who changed what and when, and the way back.

Rolling back is an ordinary edit that happens to say what an earlier revision said: it makes a new
revision, obeys the rules of today, and leaves every fire in exactly one version (G11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple, cast

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, NotFound
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.input.job import changed_fields, job_to_raw, parse_job
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.script import Script
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import JOBS, QUEUED, RUNS, TRIGGERS, Events
from tickwheel_admin.services.jobs import edits as job_edits
from tickwheel_admin.services.jobs.declared.lists import Difference
from tickwheel_admin.services.jobs.edits import Edit, begin_edit
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.workflows.names import with_names
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import protocol_of
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.jobs.configs import read_configs
from tickwheel_admin.store.jobs.revisions import page_revisions
from tickwheel_admin.store.jobs.scripts import with_source

SHOWN = 20
LOOKED_THROUGH = 500  # revisions that are searched for scripts


class RevisionKey(NamedTuple):
    """A place in the history: below this revision."""

    revision: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionItem:
    """A revision, and what it changed."""

    revision: int
    at: int
    by: str
    changes: list[Difference]  # to the revision before; none for the first one


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two revisions of a job beside each other."""

    before: int
    after: int
    changes: list[Difference]
    # What each of them says of its steps, in the API's form; None: it is no workflow.
    workflows: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptVersion:
    """A script that a job has or had, without its source."""

    revision: int  # that brought it
    at: int
    by: str
    script: Script
    before: int | None  # the revision with the script before it; None: there was none


class JobHistory:
    """Use cases of a job's revisions."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events

    async def page(
        self, actor: Actor, job_id: int, *, cursor: str | None = None, limit: int = SHOWN
    ) -> Page[RevisionItem]:
        """Revisions of a job that is not deleted, newest first."""
        check_limit(limit)
        key = decode_cursor(cursor, RevisionKey)

        def read(conn: sa.Connection) -> Page[RevisionItem]:
            _visible(conn, actor, job_id)
            found = page_revisions(
                conn, job_id, before=None if key is None else key.revision, limit=limit + 1
            )
            items = [
                RevisionItem(
                    revision=each.revision,
                    at=each.at,
                    by=each.by,
                    changes=[] if older is None else differences(older.config, each.config),
                )
                for each, older in zip_longest(found, found[1:])
            ][:limit]
            more = len(found) > limit
            return Page(
                items=items,
                next=encode_cursor(RevisionKey(items[-1].revision)) if more else None,
            )

        return await self._store.read(read)

    async def scripts(self, actor: Actor, job_id: int) -> list[ScriptVersion]:
        """The revisions that gave the job another script, newest first; of its newest 500."""

        def read(conn: sa.Connection) -> list[ScriptVersion]:
            _visible(conn, actor, job_id)
            found = page_revisions(conn, job_id, before=None, limit=LOOKED_THROUGH)
            versions: list[ScriptVersion] = []
            for each, older in zip_longest(found, found[1:]):
                script = each.config.script
                earlier = None if older is None else older.config.script
                if script is None or (older is not None and script == earlier):
                    continue
                before = None if earlier is None or older is None else older.revision
                versions.append(
                    ScriptVersion(
                        revision=each.revision,
                        at=each.at,
                        by=each.by,
                        script=script,
                        before=before,
                    )
                )
            return versions

        return await self._store.read(read)

    async def config(self, actor: Actor, job_id: int, revision: int) -> JobConfig:
        """What a revision says.

        Raises:
            NotFound: job.revision_unknown, too.
        """

        def read(conn: sa.Connection) -> JobConfig:
            _visible(conn, actor, job_id)
            return with_source(conn, _config(conn, job_id, revision))

        return await self._store.read(read)

    async def compare(self, actor: Actor, job_id: int, before: int, after: int) -> Comparison:
        """What lies between two revisions, in either order; raises as `config`."""

        def read(conn: sa.Connection) -> Comparison:
            executor_id = _visible(conn, actor, job_id)
            old, new = (_config(conn, job_id, revision) for revision in (before, after))

            def steps_of(config: JobConfig) -> Mapping[str, Any] | None:
                raw = with_names(conn, actor, executor_id, job_to_raw(config))
                return cast("Mapping[str, Any] | None", raw.get("workflow"))

            return Comparison(
                before=before,
                after=after,
                changes=differences(old, new),
                workflows=(steps_of(old), steps_of(new)),
            )

        return await self._store.read(read)

    async def roll_back(
        self, actor: Actor, job_id: int, revision: int, *, expected_revision: int
    ) -> int:
        """Let the job say again what `revision` said; returns the new revision.

        Args:
            expected_revision: the current one, as the caller knows it.

        Raises:
            NotFound: job.revision_unknown.
            InvalidInput: what stood there is not possible today, such as a calendar or a child job
                that is gone; with every problem found.
            Conflict: job.changed, job.managed_by_code, job.name_taken, or job.already_so when
                nothing would change.
        """

        def wanted(conn: sa.Connection) -> tuple[JobConfig, Protocol]:
            executor_id = _visible(conn, actor, job_id)
            actor.require(Permission.DEVELOP, executor_id)
            return _config(conn, job_id, revision), protocol_of(conn, executor_id)

        # A stored revision is read without checks; as an edit it obeys the rules of today.
        stored, protocol = await self._store.read(wanted)
        config = parse_job(job_to_raw(stored), protocol)
        edit = replace(await begin_edit(self._ids, actor, config), rolled_back_to=revision)

        def roll_back(conn: sa.Connection, edit: Edit) -> int:
            return job_edits.update_job(
                conn, edit, job_id=job_id, revision=expected_revision, config=config
            )

        made = await self._ids.run_with_ids(
            "run", lambda run_ids: self._store.run(roll_back, replace(edit, run_ids=run_ids))
        )
        if made == expected_revision:
            raise Conflict(
                "job.already_so",
                "The job already says what revision %(revision)d said.",
                revision=revision,
            )
        for topic in (JOBS, TRIGGERS, RUNS, QUEUED):
            self._events.publish(topic)
        return made


def differences(before: JobConfig, after: JobConfig) -> list[Difference]:
    """The fields of the API that differ, in their order."""
    changed = changed_fields(before, after)
    return [Difference(field=field, before=b, after=a) for field, (b, a) in changed.items()]


def _visible(conn: sa.Connection, actor: Actor, job_id: int) -> int:
    """The executor of a job that is not deleted and that the actor may see."""
    job = store_jobs.get_job(conn, job_id)
    if job is None:
        raise not_found()
    actor.require(Permission.VIEW, job.executor_id)
    return job.executor_id


def _config(conn: sa.Connection, job_id: int, revision: int) -> JobConfig:
    found = read_configs(conn, [(job_id, revision)]).get((job_id, revision))
    if found is None:
        raise NotFound(
            "job.revision_unknown",
            "This job has no revision %(revision)d.",
            revision=revision,
        )
    return found
