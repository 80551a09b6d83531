"""What was imported: which of ours is which of theirs, and what it said then."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.edit_locks import lock_edits
from tickwheel_admin.store.database.tables import import_record

CHANGES = "imports"  # name of the setting that counts imports
_FEW = 500  # ids of one query


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImport:
    """One of theirs, imported."""

    kind: ImportKind
    their_id: int
    our_id: int
    content: Mapping[str, Any]  # what was imported last; never a secret


Imports = dict[tuple[ImportKind, int], StoredImport]


def lock_imports(conn: sa.Connection) -> None:
    """Let imports go one after the other; taken before all other locks."""
    lock_edits(conn, CHANGES)


def read_imports(
    conn: sa.Connection,
    source: str,
    *,
    kind: ImportKind | None = None,
    their_ids: Collection[int] | None = None,
) -> Imports:
    """Of one installation; all, or those of a kind, or few of a kind by their ids."""
    statement = sa.select(import_record).where(import_record.c.source == source)
    if kind is not None:
        statement = statement.where(import_record.c.kind == kind.value)
    if their_ids is not None:
        statement = statement.where(import_record.c.their_id.in_(sorted(their_ids)))
    return {
        (ImportKind(row.kind), row.their_id): StoredImport(
            kind=ImportKind(row.kind),
            their_id=row.their_id,
            our_id=row.our_id,
            content=json.loads(row.content),
        )
        for row in conn.execute(statement)
    }


def imported_keys(
    conn: sa.Connection,
    source: str,
    *,
    kind: ImportKind | None = None,
    their_ids: Collection[int] | None = None,
) -> set[tuple[ImportKind, int]]:
    """Kind and id of all of one installation, or of a kind, or of few by their ids."""
    table = import_record
    statement = sa.select(table.c.kind, table.c.their_id).where(table.c.source == source)
    if kind is not None:
        statement = statement.where(table.c.kind == kind.value)
    if their_ids is not None:
        statement = statement.where(table.c.their_id.in_(sorted(their_ids)))
    return {(ImportKind(row.kind), row.their_id) for row in conn.execute(statement)}


def write_imports(
    conn: sa.Connection, source: str, imports: Sequence[StoredImport], *, now: int
) -> None:
    """Write rows, in place of those that there are."""
    table = import_record
    few = {each.their_id for each in imports} if len(imports) <= _FEW else None
    present = imported_keys(conn, source, their_ids=few)
    rows = []
    for each in imports:
        values = {
            "our_id": each.our_id,
            "content": json.dumps(each.content, ensure_ascii=False, separators=(",", ":")),
            "imported_at": now,
        }
        if (each.kind, each.their_id) in present:
            conn.execute(
                sa.update(table)
                .where(
                    table.c.source == source,
                    table.c.kind == each.kind.value,
                    table.c.their_id == each.their_id,
                )
                .values(values)
            )
        else:
            key = {"source": source, "kind": each.kind.value, "their_id": each.their_id}
            rows.append(key | values)
    if rows:
        insert_rows(conn, table, rows, columns=tuple(rows[0]))
