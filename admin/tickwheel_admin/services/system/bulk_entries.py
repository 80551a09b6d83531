"""One entry in the audit for each bulk action, and its parts behind it.

Every change of a bulk action is noted by itself, in its own transaction, as part of an entry that
tells of the whole. A bulk action that concerns several executors has an entry for each of them, so
that whoever administers one of them sees what concerns that one. The steps of one action are
held together by a number that travels in their cursors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.paging import bad_cursor
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.system.audit import NewAudit, find_entries, tell_figures, write_audits

MAX_DIGITS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAction:
    """A bulk action in the audit."""

    action: str  # "runs.cancelled"
    detail: Mapping[str, Any]  # what was asked for
    number: int | None = None  # that an earlier step gave it; None: this is its first step


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkStep:
    """A step of a bulk action."""

    actor: Actor  # whoever asked; what is done in this name becomes part of the entries
    number: int  # 0: nothing has been written yet


class BulkEntries:
    """Opens and completes the entries of bulk actions."""

    def __init__(self, store: Store, ids: Ids) -> None:
        self._store = store
        self._ids = ids

    async def open(self, actor: Actor, bulk: BulkAction, executors: Iterable[int]) -> BulkStep:
        """Let what the actor does next be part of one entry for each of these executors."""
        wanted = sorted(set(executors))
        if not wanted:
            return BulkStep(actor=actor, number=bulk.number or 0)
        new_ids = await self._ids.take_many("audit", len(wanted))
        number, entries = await self._store.run(_open, actor, bulk, wanted, new_ids)
        return BulkStep(actor=replace(actor, part_of=entries), number=number)

    async def tell(self, step: BulkStep, skipped: Mapping[str, int]) -> None:
        """Write into the entries what has become of the action so far."""
        if step.actor.part_of:
            await self._store.run(tell_figures, list(step.actor.part_of.values()), skipped)


def _open(
    conn: sa.Connection, actor: Actor, bulk: BulkAction, executors: list[int], new_ids: list[int]
) -> tuple[int, dict[int, int]]:
    found: dict[int | None, int] = {}
    if bulk.number is not None:
        found = find_entries(conn, bulk.number, action=bulk.action, user_name=actor.name)
    # A number that belongs to somebody else's action, or to none, begins an action of its own.
    number = bulk.number if found and bulk.number is not None else new_ids[0]
    missing = [executor_id for executor_id in executors if executor_id not in found]
    new = dict(zip(missing, new_ids, strict=False))
    write_audits(
        conn,
        actor,
        [
            NewAudit(
                id=audit_id,
                action=bulk.action,
                executor_id=executor_id,
                object_id=number,
                detail={**bulk.detail, "done": 0},
            )
            for executor_id, audit_id in new.items()
        ],
    )
    known = {executor_id: entry for executor_id, entry in found.items() if executor_id is not None}
    return number, {executor_id: (known | new)[executor_id] for executor_id in executors}


def split_cursor(cursor: str | None) -> tuple[str | None, int | None]:
    """The place in the list, and the number of the action.

    Raises:
        InvalidInput: it is none of a bulk action.
    """
    if cursor is None:
        return None, None
    number, dot, place = cursor.partition(".")
    if not dot:
        return cursor, None
    if not (number.isascii() and number.isdecimal() and len(number) <= MAX_DIGITS):
        raise bad_cursor()
    return place, int(number) or None


def join_cursor(place: str | None, number: int) -> str | None:
    """The cursor of the next step; None: there is none."""
    return None if place is None else f"{number}.{place}"


def asked_of(query: Any) -> dict[str, Any]:
    """A query as the audit keeps it: what it filters by, and nothing else."""
    return {
        each.name: list(value) if isinstance(value, tuple) else value
        for each in fields(query)
        if (value := getattr(query, each.name)) != each.default and each.name != "sort"
    }
