"""What is stored, as the documents that would make it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.gitops.envelopes import WITH_EXECUTOR
from tickwheel_admin.services.gitops.kinds.base import ObjectKind, PlanView
from tickwheel_admin.services.gitops.objects import ObjectType, StoredObject
from tickwheel_admin.services.gitops.planner import ObjectKinds, seen_executors
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.gitops.managed import managed_by_owner

STEP = 500  # objects that are read at once


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportChoice:
    """Which objects are wanted."""

    executor: str | None = None  # only this one, and what belongs to it
    types: Collection[ObjectType] = frozenset(ObjectType)
    owner: str | None = None  # only what has this label


async def export_documents(
    store: Store, kinds: ObjectKinds, actor: Actor, choice: ExportChoice
) -> AsyncIterator[list[dict[str, Any]]]:
    """Documents of all that the caller sees, some at a time: first what others name.

    Objects that are changed meanwhile are written as they are when their turn comes.
    """
    for kind_of in ObjectType:
        if kind_of not in choice.types:
            continue
        kind = kinds[kind_of]
        ids = await store.read(_ids, kind, actor, choice)
        for start in range(0, len(ids), STEP):
            yield await store.read(_documents, kind, actor, choice, ids[start : start + STEP])


def document_of(kind: ObjectKind, stored: StoredObject) -> dict[str, Any]:
    """The document of one object, without what says nothing."""
    head = {"type": stored.key.type.value}
    if stored.key.type in WITH_EXECUTOR and stored.key.executor:
        head["executor"] = stored.key.executor
    return {**head, **kind.shown(stored)}


def _ids(
    conn: sa.Connection, kind: ObjectKind, actor: Actor, choice: ExportChoice
) -> Sequence[int]:
    ids = kind.all_ids(_view(conn, actor, choice))
    if choice.owner is None:
        return ids
    labelled = {
        each.object_id
        for each in managed_by_owner(conn, choice.owner)
        if each.type == kind.type.value
    }
    return [each for each in ids if each in labelled]


def _documents(
    conn: sa.Connection,
    kind: ObjectKind,
    actor: Actor,
    choice: ExportChoice,
    ids: Sequence[int],
) -> list[dict[str, Any]]:
    found = {each.id: each for each in kind.stored(_view(conn, actor), ids)}
    wanted = [found[each] for each in ids if each in found]
    return [
        document_of(kind, each)
        for each in wanted
        if choice.executor is None or choice.executor == _executor_of(each)
    ]


def _executor_of(stored: StoredObject) -> str:
    key = stored.key
    return key.name if key.type is ObjectType.EXECUTOR else key.executor


def _view(conn: sa.Connection, actor: Actor, choice: ExportChoice | None = None) -> PlanView:
    executors = seen_executors(conn, actor)
    if choice is not None and choice.executor is not None:
        executors = {n: i for n, i in executors.items() if n == choice.executor}
    names = {object_id: name for name, object_id in executors.items()}
    return PlanView(conn=conn, actor=actor, executors=executors, names=names)
