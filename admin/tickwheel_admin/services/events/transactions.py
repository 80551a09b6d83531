"""Transactions of people: each makes one change, writes its audit entry and tells who listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.system.audit import AuditedChange, find_audit, write_audit

T = TypeVar("T")


class AuditEntry:
    """The entry of one change, to be written in the transaction of the change."""

    def __init__(self, conn: sa.Connection, audit_id: int, actor: Actor) -> None:
        self._conn = conn
        self._id = audit_id
        self.actor = actor

    def write(
        self,
        action: str,
        object_id: int | None = None,
        *,
        executor_id: int | None = None,
        **detail: Any,
    ) -> None:
        """Once, when something changed; as `write_audit`."""
        write_audit(
            self._conn,
            id=self._id,
            actor=self.actor,
            action=action,
            executor_id=executor_id,
            object_id=object_id,
            detail=detail,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedEdit:
    """Who makes a change whose transaction takes more ids than that of its entry."""

    actor: Actor
    audit_id: int  # of its entry, by which an earlier try is found whose answer was lost

    def earlier(self, conn: sa.Connection) -> AuditedChange | None:
        """The entry, when an earlier try was committed."""
        return find_audit(conn, self.audit_id)

    def note(
        self,
        conn: sa.Connection,
        action: str,
        object_id: int | None,
        *,
        executor_id: int,
        **detail: Any,
    ) -> None:
        """Write its entry."""
        entry = AuditEntry(conn, self.audit_id, self.actor)
        entry.write(action, object_id, executor_id=executor_id, **detail)


Work = Callable[[sa.Connection, AuditEntry], T]


class AuditedTransactions:
    """Runs changes: each is made once, however often its transaction is repeated."""

    def __init__(self, store: Store, ids: Ids, events: Events | None = None) -> None:
        self._store = store
        self._ids = ids
        self._events = events or Events()

    @overload
    async def run(self, actor: Actor, work: Work[None], *topics: str) -> None: ...

    @overload
    async def run(
        self, actor: Actor, work: Work[T], *topics: str, repeated: Callable[[AuditedChange], T]
    ) -> T: ...

    async def run(
        self,
        actor: Actor,
        work: Work[Any],
        *topics: str,
        repeated: Callable[[AuditedChange], Any] = lambda noted: None,
    ) -> Any:
        """Do `work` in a transaction of its own, then publish the topics.

        Args:
            work: reads, decides, writes, and writes the entry; nothing, where nothing changes.
            repeated: what `work` answered, from the entry of an earlier try whose answer was lost.
        """
        audit_id = await self._ids.take("audit")

        def change(conn: sa.Connection) -> Any:
            if (noted := find_audit(conn, audit_id)) is not None:
                return repeated(noted)
            return work(conn, AuditEntry(conn, audit_id, actor))

        answer = await self._store.run(change)
        for topic in topics:
            self._events.publish(topic)
        return answer
