"""Who applied an object from files: the label by which a directory knows its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.tables import managed_object

IDS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedObject:
    """An object that was applied, as it was then."""

    type: str  # 1..20 characters
    object_id: int
    owner: str  # 1..100 characters
    mark: str  # its revision or version, or a hash of what it said; up to 64 characters
    applied_at: int = 0
    applied_by: str = ""


_SELECTED = sa.select(*(managed_object.c[name] for name in ManagedObject.__dataclass_fields__))


def managed_by_ids(
    conn: sa.Connection, type_: str, object_ids: Collection[int]
) -> dict[int, ManagedObject]:
    """Those of the objects that were applied, by id; of any number."""
    found: dict[int, ManagedObject] = {}
    ids = sorted(object_ids)
    for start in range(0, len(ids), IDS_AT_ONCE):
        wanted = _SELECTED.where(
            managed_object.c.type == type_,
            managed_object.c.object_id.in_(ids[start : start + IDS_AT_ONCE]),
        )
        found |= {row.object_id: ManagedObject(**row._asdict()) for row in conn.execute(wanted)}
    return found


def managed_by_owner(conn: sa.Connection, owner: str) -> list[ManagedObject]:
    """All that an owner has applied, also what was deleted since then."""
    wanted = _SELECTED.where(managed_object.c.owner == owner)
    return [ManagedObject(**row._asdict()) for row in conn.execute(wanted)]


def write_managed(conn: sa.Connection, objects: Sequence[ManagedObject]) -> None:
    """Note what was applied, over what was noted before."""
    rows = [
        {name: getattr(each, name) for name in ManagedObject.__dataclass_fields__}
        for each in objects
    ]
    if rows:
        insert_rows(
            conn,
            managed_object,
            rows,
            columns=tuple(rows[0]),
            replace_duplicates_of=("type", "object_id"),
        )


def forget_managed(conn: sa.Connection, type_: str, object_ids: Collection[int]) -> None:
    """Take the label off objects; of any number."""
    ids = sorted(object_ids)
    for start in range(0, len(ids), IDS_AT_ONCE):
        conn.execute(
            sa.delete(managed_object).where(
                managed_object.c.type == type_,
                managed_object.c.object_id.in_(ids[start : start + IDS_AT_ONCE]),
            )
        )
