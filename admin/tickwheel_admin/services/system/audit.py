"""The audit for people: who changed what, and from where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.system.audit_objects import (
    NOUNS,
    AuditedObject,
    find_objects,
    read_object,
)
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.system.audit_names import job_names, jobs_of_runs, token_names
from tickwheel_admin.store.system.audit_pages import (
    AuditConditions,
    AuditPosition,
    StoredAudit,
    first_parts,
    page_audit,
)

MAX_TEXT_CHARS = 100
PARTS_SHOWN = 20
# Each of them tells of many changes, which are written as parts of it.
BULK_ACTIONS = frozenset(
    {
        "jobs.created", "jobs.run", "jobs.paused", "jobs.resumed", "jobs.tagged", "jobs.untagged",
        "jobs.deleted", "runs.cancelled", "runs.retried", "gitops.applied",
    }
)  # fmt: skip


class _Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in the audit, where one of its pages begins or ends."""

    at: Number
    id: Number
    newer: bool = False  # the page before this entry, and not the one behind it


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which changes to show; what is None or empty does not matter."""

    person: str = ""  # a whole name; capitals do not matter
    action: str = ""  # a whole action or its beginning: "job." is everything about jobs
    executor_id: int | None = None
    object_id: int | None = None  # ids of jobs and of nodes can be the same: say the action, too
    object: str = ""  # "job:NAME", "run:NUMBER" and so on, as `audit_objects` reads them
    part_of: int | None = None  # the entry of a bulk action, whose parts are wanted
    from_at: int | None = None  # at or after, UTC epoch ms
    to_at: int | None = None  # before


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditItem:
    """A change that was made."""

    id: int
    at: int
    user_name: str
    address: str  # empty: not by a request from anywhere
    action: str
    executor_id: int | None  # None: about no executor
    executor_name: str | None
    object_id: int | None  # what it was done to, of the kind that the action begins with
    detail: dict[str, Any]
    part_of: int = 0  # the entry of the bulk action that it was part of; 0: an entry by itself
    job_name: str | None = None  # of the job that it is about, itself or by a run of it
    token_name: str | None = None  # of the API token that acted
    parts: tuple[AuditItem, ...] = ()  # of a bulk action: the first of its changes, at most 20

    @property
    def is_bulk(self) -> bool:
        """Whether it tells of a bulk action, whose changes are parts of it."""
        return self.action in BULK_ACTIONS


class AuditLog:
    """Use case of the audit; it is written by those of the changes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(
        self, actor: Actor, query: AuditQuery, cursor: str | None = None, limit: int = 50
    ) -> Page[AuditItem]:
        """Changes, newest first; of the executors that the caller administers, or all.

        A page can be shorter than `limit`, even empty, and still have a next one: then a bounded
        number of changes was looked at, and those did not fit.

        Args:
            limit: 1 to 500.

        Raises:
            NotAllowed, NotFound: the caller administers nothing.
            InvalidInput: on "person", "action", "object", "cursor" or "limit".
        """
        if not actor.may_anywhere(Permission.ADMINISTER):
            actor.require(Permission.ADMINISTER)
        scope = actor.scope(Permission.ADMINISTER)
        if query.executor_id is not None:
            if scope is not None and query.executor_id not in scope:
                raise not_found()
            scope = frozenset({query.executor_id})
        wanted = AuditConditions(
            executors=scope,
            person=_text(query.person, "person").lower() or None,
            action=_text(query.action, "action").lower(),
            objects=None if query.object_id is None else frozenset({query.object_id}),
            part_of=query.part_of or 0,
            from_at=query.from_at,
            to_at=query.to_at,
        )
        asked = read_object(query.object)
        place = decode_cursor(cursor, _Place)
        return await self._store.read(_read_page, wanted, asked, place, check_limit(limit))


def _read_page(
    conn: sa.Connection,
    wanted: AuditConditions,
    asked: AuditedObject | None,
    at: _Place | None,
    limit: int,
) -> Page[AuditItem]:
    if asked is not None:
        objects = find_objects(conn, asked, wanted.executors)
        if wanted.objects is not None:
            objects &= wanted.objects
        nouns = NOUNS.get(asked.kind, frozenset())
        wanted = replace(wanted, objects=objects, nouns=nouns)
    newer = at is not None and at.newer
    before = None if at is None else AuditPosition(at=at.at, id=at.id)
    rows, more_at = page_audit(conn, wanted, before=before, limit=limit, newer=newer)
    names = executor_names(conn, {row.executor_id for row in rows if row.executor_id is not None})
    parts = {
        row.id: first_parts(conn, row.id, limit=PARTS_SHOWN)
        for row in rows
        if row.action in BULK_ACTIONS
    }
    known = _read_names(conn, [*rows, *chain.from_iterable(parts.values())])
    ahead = None if more_at is None else _cursor(more_at.at, more_at.id, newer=newer)
    behind = None
    if rows and at is not None:
        first = rows[-1 if newer else 0]
        behind = _cursor(first.at, first.id, newer=not newer)
    return Page(
        items=[
            _item(row, names.get(row.executor_id or 0), known, parts.get(row.id, ()))
            for row in rows
        ],
        next=behind if newer else ahead,
        previous=ahead if newer else behind,
    )


def items_of(conn: sa.Connection, rows: Sequence[StoredAudit]) -> list[AuditItem]:
    """Rows with the names behind their numbers; without the parts of bulk actions."""
    names = executor_names(conn, {row.executor_id for row in rows if row.executor_id is not None})
    known = _read_names(conn, rows)
    return [_item(row, names.get(row.executor_id or 0), known) for row in rows]


def _cursor(at: int, audit_id: int, *, newer: bool) -> str:
    return encode_cursor(_Place(at=at, id=audit_id, newer=newer))


class _Names(NamedTuple):
    """The names behind the numbers of a page."""

    jobs: dict[int, str]
    tokens: dict[int, str]
    job_of_run: dict[int, int]

    def of_job(self, row: StoredAudit) -> str | None:
        job_id = _job_of(row)
        if job_id is None and _is_of_run(row):
            job_id = self.job_of_run.get(row.object_id or 0)
        return None if job_id is None else self.jobs.get(job_id)


def _read_names(conn: sa.Connection, rows: Sequence[StoredAudit]) -> _Names:
    # Runs tell their job in most entries; it is looked up for those that do not.
    unknown = [row.object_id or 0 for row in rows if _is_of_run(row) and _job_of(row) is None]
    job_of_run = jobs_of_runs(conn, unknown)
    told = {job_id for row in rows if (job_id := _job_of(row)) is not None}
    tokens = {each for row in rows if isinstance(each := row.detail.get("by_token"), int)}
    return _Names(
        jobs=job_names(conn, told | set(job_of_run.values())),
        tokens=token_names(conn, tokens),
        job_of_run=job_of_run,
    )


def _job_of(row: StoredAudit) -> int | None:
    """The job that an entry names by its number."""
    told = row.detail.get("job")
    if isinstance(told, int):
        return told
    return row.object_id if row.action.partition(".")[0] in NOUNS["job"] else None


def _is_of_run(row: StoredAudit) -> bool:
    return row.action.startswith("run.")


def _item(
    row: StoredAudit,
    executor_name: str | None,
    names: _Names,
    parts: Sequence[StoredAudit] = (),
) -> AuditItem:
    return AuditItem(
        id=row.id,
        at=row.at,
        user_name=row.user_name,
        address=row.address,
        action=row.action,
        executor_id=row.executor_id,
        executor_name=executor_name,
        object_id=row.object_id,
        detail=row.detail,
        part_of=row.part_of,
        job_name=names.of_job(row),
        token_name=names.tokens.get(row.detail.get("by_token") or 0),
        parts=tuple(_item(part, executor_name, names) for part in parts),
    )


def _text(value: str, field: str) -> str:
    value = value.strip()
    if len(value) > MAX_TEXT_CHARS or not is_clean(value):
        raise InvalidInput.one(
            field, "too_long", "At most %(limit)d characters, please.", limit=MAX_TEXT_CHARS
        )
    return value
