"""Pages of the audit, newest first: what fits a filter, found in an index.

What no index sorts is looked for in a bounded number of entries; then the page says where to go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.scans import beyond, merge_scans
from tickwheel_admin.store.database.tables import audit

CHUNK = 1_000  # index entries read at once while filtering
MAX_SCANNED = 10_000  # entries that one request looks at, and a chunk of each range in any case
MAX_RANGES = 20  # executors whose entries are read one by one


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AuditPosition:
    """A place in the order of the audit."""

    at: Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # bounds for what callers send
    id: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConditions:
    """Which changes a page shows."""

    executors: frozenset[int] | None = None  # None: all, and what belongs to no executor
    person: str | None = None  # exactly
    action: str = ""  # with what it begins
    # Also when it was done as part of a bulk action; None: whatever it was done to.
    objects: frozenset[int] | None = None
    nouns: frozenset[str] = frozenset()  # with one of which actions begin; empty: any
    part_of: int = 0  # the entry of a bulk action, to see its parts; 0: entries by themselves
    from_at: int | None = None  # at or after
    to_at: int | None = None  # before


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAudit:
    """A row of `audit`."""

    id: int
    at: int
    user_name: str
    address: str
    action: str
    executor_id: int | None
    object_id: int | None
    detail: dict[str, Any]
    part_of: int  # the entry of the bulk action that it was part of; 0: none


def page_audit(
    conn: sa.Connection,
    wanted: AuditConditions,
    *,
    before: AuditPosition | None,
    limit: int,
    newer: bool = False,
) -> tuple[list[StoredAudit], AuditPosition | None]:
    """Changes, newest first, and where the next page begins.

    A page can be shorter than `limit`, even empty, and still have a next one.

    Args:
        before: the place that the page is older than; None: the newest there are.
        newer: the page that ends before this place instead, and where the one before it ends.
    """
    ranges = _ranges(wanted)
    chunks = max(1, MAX_SCANNED // (CHUNK * max(1, len(ranges))))
    scans = [_scan(conn, wanted, one, before, limit + 1, newer, chunks) for one in ranges]
    places, more_at = merge_scans(scans, limit=limit, newer=newer)
    return _rows(conn, places), more_at


def first_parts(conn: sa.Connection, entry_id: int, *, limit: int) -> list[StoredAudit]:
    """The first changes that were part of a bulk action, in their order."""
    keys = _keys(AuditConditions(part_of=entry_id), None, None, newer=True).limit(limit)
    return _rows(conn, [AuditPosition(at=row.at, id=row.id) for row in conn.execute(keys)])


def _ranges(wanted: AuditConditions) -> Sequence[int | None]:
    """Objects or executors whose entries are read from their own index, or one for everything."""
    if wanted.objects is not None:
        return sorted(wanted.objects)[-MAX_RANGES:]
    by_another = wanted.person is not None or wanted.part_of
    if wanted.executors is None or by_another or len(wanted.executors) > MAX_RANGES:
        return [None]
    return sorted(wanted.executors)


def _scan(
    conn: sa.Connection,
    wanted: AuditConditions,
    one: int | None,
    before: AuditPosition | None,
    enough: int,
    newer: bool,
    chunks: int,
) -> tuple[list[AuditPosition], AuditPosition | None]:
    """What fits in one range, as it is read, and where the reading stopped; None: at its end."""
    fits = _filter(wanted, one)
    size = CHUNK if fits else enough
    found: list[AuditPosition] = []
    for _ in range(chunks):
        rows = conn.execute(_keys(wanted, one, before, newer).limit(size)).all()
        for row in rows:
            before = AuditPosition(at=row.at, id=row.id)
            if fits is None or fits(row):
                found.append(before)
                if len(found) == enough:
                    return found, before
        if len(rows) < size:
            return found, None
    return found, before


def _filter(wanted: AuditConditions, one: int | None) -> Callable[[Any], bool] | None:
    """What the range does not see to; None: nothing."""
    executors = wanted.executors if one is None or wanted.objects is not None else None
    by_person = wanted.person is not None and wanted.objects is None and not wanted.part_of
    plain = executors is None and not wanted.action and not wanted.nouns
    if plain and (wanted.person is None or by_person):
        return None
    return lambda row: (
        (executors is None or row.executor_id in executors)
        and (wanted.person is None or row.user_name == wanted.person)
        and row.action.startswith(wanted.action)
        and (not wanted.nouns or row.action.partition(".")[0] in wanted.nouns)
    )


def _keys(
    wanted: AuditConditions, one: int | None, before: AuditPosition | None, newer: bool
) -> sa.Select[Any]:
    """Entries of one range, newest first; or what is newer than a place, oldest first."""
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.objects is not None:
        index = "ix_audit_of_object"
        conditions.append(audit.c.object_id == one)
    elif wanted.part_of:
        index = "ix_audit_recent"
        conditions.append(audit.c.part_of == wanted.part_of)
    elif wanted.person is not None:
        index = "ix_audit_by_person"
        conditions += [audit.c.user_name == wanted.person, audit.c.part_of == 0]
    elif one is not None:
        index = "ix_audit_of_executor"
        conditions += [audit.c.executor_id == one, audit.c.part_of == 0]
    else:
        index = "ix_audit_recent"
        conditions.append(audit.c.part_of == 0)
    if wanted.from_at is not None:
        conditions.append(audit.c.at >= wanted.from_at)
    if wanted.to_at is not None:
        conditions.append(audit.c.at < wanted.to_at)
    if before is not None:
        conditions += beyond(before.at, before.id, of=audit.c.at, newer=newer)
    columns = audit.c.at, audit.c.id, audit.c.executor_id, audit.c.user_name, audit.c.action
    order = [audit.c.at, audit.c.id] if newer else [audit.c.at.desc(), audit.c.id.desc()]
    return reading(sa.select(*columns).where(*conditions).order_by(*order), audit, index)


def _rows(conn: sa.Connection, keys: Sequence[AuditPosition]) -> list[StoredAudit]:
    """Whole rows, in the order of their keys."""
    if not keys:
        return []
    rows = conn.execute(sa.select(audit).where(audit.c.id.in_([key.id for key in keys])))
    by_id = {row.id: row for row in rows}
    return [
        StoredAudit(
            id=row.id,
            at=row.at,
            user_name=row.user_name,
            address=row.address,
            action=row.action,
            executor_id=row.executor_id,
            object_id=row.object_id,
            detail=json.loads(row.detail),
            part_of=row.part_of,
        )
        for row in (by_id[key.id] for key in keys if key.id in by_id)
    ]
