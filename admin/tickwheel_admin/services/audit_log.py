"""The audit for people: who changed what, and from where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.user import Actor, Permission
from tickwheel_admin.services.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.scope import not_found
from tickwheel_admin.store.audit_pages import AuditFilter, Position, StoredAudit, page_audit
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.executors import executor_names

MAX_TEXT_CHARS = 100


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
            InvalidInput: on "person", "action", "cursor" or "limit".
        """
        if not actor.may_anywhere(Permission.ADMINISTER):
            actor.require(Permission.ADMINISTER)
        scope = actor.scope(Permission.ADMINISTER)
        if query.executor_id is not None:
            if scope is not None and query.executor_id not in scope:
                raise not_found()
            scope = frozenset({query.executor_id})
        wanted = AuditFilter(
            executors=scope,
            person=_text(query.person, "person").lower() or None,
            action=_text(query.action, "action").lower(),
            object_id=query.object_id,
            from_at=query.from_at,
            to_at=query.to_at,
        )
        return await self._store.read(
            _read_page, wanted, decode_cursor(cursor, _Place), check_limit(limit)
        )


def _read_page(
    conn: sa.Connection, wanted: AuditFilter, at: _Place | None, limit: int
) -> Page[AuditItem]:
    newer = at is not None and at.newer
    before = None if at is None else Position(at=at.at, id=at.id)
    rows, more_at = page_audit(conn, wanted, before=before, limit=limit, newer=newer)
    names = executor_names(conn, {row.executor_id for row in rows if row.executor_id is not None})
    ahead = None if more_at is None else _cursor(more_at.at, more_at.id, newer=newer)
    behind = None
    if rows and at is not None:
        first = rows[-1 if newer else 0]
        behind = _cursor(first.at, first.id, newer=not newer)
    return Page(
        items=[_item(row, names.get(row.executor_id or 0)) for row in rows],
        next=behind if newer else ahead,
        previous=ahead if newer else behind,
    )


def _cursor(at: int, audit_id: int, *, newer: bool) -> str:
    return encode_cursor(_Place(at=at, id=audit_id, newer=newer))


def _item(row: StoredAudit, executor_name: str | None) -> AuditItem:
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
    )


def _text(value: str, field: str) -> str:
    value = value.strip()
    if len(value) > MAX_TEXT_CHARS or not is_clean(value):
        raise InvalidInput.one(
            field, "too_long", "At most %(limit)d characters, please.", limit=MAX_TEXT_CHARS
        )
    return value
