"""Pools as documents: of an executor, or of the installation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.input.pool import parse_pool
from tickwheel_admin.domain.pools.pool import OF_INSTALLATION, SlotPool
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.events.transactions import AuditEntry
from tickwheel_admin.services.gitops.kinds.base import ObjectKind, PlanView, PlanWriting
from tickwheel_admin.services.gitops.objects import (
    ObjectChange,
    ObjectDocument,
    ObjectKey,
    ObjectType,
    StoredObject,
    WantedObject,
)
from tickwheel_admin.services.gitops.refusals import changed_meanwhile, unknown_executor
from tickwheel_admin.services.pools.service import (
    create_pool,
    delete_pool,
    may_change,
    update_pool,
)
from tickwheel_admin.store.pools import pools as store

MAX_READ = 10_000


class PoolObjects(ObjectKind):
    """Known by name and executor."""

    type: ClassVar = ObjectType.POOL

    def ids(
        self, conn: sa.Connection, keys: Collection[ObjectKey], executors: Mapping[str, int]
    ) -> dict[ObjectKey, int]:
        found: dict[ObjectKey, int] = {}
        for key in keys:
            place = executors.get(key.executor) if key.executor else OF_INSTALLATION
            for pool in store.pools_named(conn, key.name):
                if pool.executor_id == place:
                    found[key] = pool.id
        return found

    def stored(self, view: PlanView, object_ids: Collection[int]) -> list[StoredObject]:
        found = (store.get_pool(view.conn, each) for each in sorted(object_ids))
        return [
            StoredObject(
                key=ObjectKey(
                    type=self.type, name=each.name, executor=view.names.get(each.executor_id, "")
                ),
                id=each.id,
                executor_id=each.executor_id,
                fields={
                    "name": each.name,
                    "description": each.description,
                    "slots": each.slots,
                },
                mark=str(each.version),
                content=each,
            )
            for each in found
            if each is not None and _is_seen(view, each)
        ]

    def all_ids(self, view: PlanView) -> list[int]:
        found = store.page_pools(
            view.conn, scope=frozenset(view.names), text="", after=None, limit=MAX_READ
        )
        return [each.id for each in found]

    def read(
        self,
        view: PlanView,
        document: ObjectDocument,
        object_id: int,
        stored: StoredObject | None,
    ) -> WantedObject:
        key = document.key
        executor_id = view.executors.get(key.executor) if key.executor else OF_INSTALLATION
        if executor_id is None:
            raise unknown_executor(key.executor)
        if "id" in document.fields or "version" in document.fields:
            raise InvalidInput.one(
                "id" if "id" in document.fields else "version",
                "unknown_field",
                "Documents have no ids and no versions; leave it out.",
            )
        raw = {**document.fields, "name": key.name}
        said = parse_pool(raw | ({"executor": executor_id} if executor_id else {}))
        fields = {"name": said.name, "description": said.description, "slots": said.slots}
        return WantedObject(
            document=document, id=object_id, executor_id=executor_id, fields=fields, content=said
        )

    def may_write(self, actor: Actor, executor_id: int) -> bool:
        return may_change(actor, executor_id)

    def lock(self, writing: PlanWriting, changes: Sequence[ObjectChange]) -> None:
        store.lock_pool_edits(writing.conn)

    def write(self, writing: PlanWriting, change: ObjectChange) -> None:
        assert change.wanted is not None  # noqa: S101 - what is deleted does not come here
        said = change.wanted.content
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        if change.stored is None:
            create_pool(writing.conn, entry, said, pool_id=change.object_id)
            return
        try:
            version = int(change.stored.mark)
            update_pool(writing.conn, entry, change.object_id, said, version=version)
        except Conflict as error:
            raise changed_meanwhile(change.key) from error

    def delete(self, writing: PlanWriting, change: ObjectChange) -> None:
        found = store.get_pool(writing.conn, change.object_id)
        assert change.stored is not None  # noqa: S101 - it was there
        if found is None or str(found.version) != change.stored.mark:
            raise changed_meanwhile(change.key)
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        delete_pool(writing.conn, entry, change.object_id)

    def marks(self, conn: sa.Connection, object_ids: Collection[int]) -> dict[int, str]:
        found = (store.get_pool(conn, each) for each in object_ids)
        return {each.id: str(each.version) for each in found if each is not None}


def _is_seen(view: PlanView, pool: SlotPool) -> bool:
    return pool.is_of_installation or pool.executor_id in view.names
