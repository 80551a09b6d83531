"""What would become of the objects of a request: read, compared, and nothing written.

Ids of new objects are taken before, so that documents can name each other.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.gitops.envelopes import MAX_PROBLEMS, Envelopes
from tickwheel_admin.services.gitops.kinds.base import ObjectKind, PlanView
from tickwheel_admin.services.gitops.objects import (
    ChangeAction,
    ObjectChange,
    ObjectDocument,
    ObjectKey,
    ObjectPlan,
    ObjectType,
    StoredObject,
)
from tickwheel_admin.services.lists.heavy_reads import Breath
from tickwheel_admin.store.executors.executors import list_executors
from tickwheel_admin.store.gitops.managed import (
    ManagedObject,
    managed_by_ids,
    managed_by_owner,
)

MAX_EXECUTORS = 1_000
ObjectKinds = Mapping[ObjectType, ObjectKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody wants."""

    envelopes: Envelopes
    owner: str | None  # the label of what is applied; None: no label
    prune: bool = False  # delete what has the label and no document
    take_over: bool = False  # also change what has the label of another owner
    digest: str = ""  # of the documents as they were sent


def missing(
    conn: sa.Connection, kinds: ObjectKinds, actor: Actor, documents: Sequence[ObjectDocument]
) -> list[ObjectKey]:
    """The documents' objects that are not there, or not for this caller to see."""
    executors = seen_executors(conn, actor)
    there: set[ObjectKey] = set()
    for kind, some in _by_type(documents).items():
        there |= kinds[kind].ids(conn, [each.key for each in some], executors).keys()
    return [each.key for each in documents if each.key not in there]


def make_plan(
    conn: sa.Connection,
    kinds: ObjectKinds,
    actor: Actor,
    wish: Wish,
    new_ids: Mapping[ObjectKey, int],
) -> ObjectPlan:
    """Compare documents and state.

    Args:
        new_ids: for what `missing` found.
    """
    return _Planning(conn, kinds, actor, wish, new_ids).plan()


def seen_executors(conn: sa.Connection, actor: Actor) -> dict[str, int]:
    """Ids of the executors that the caller sees, by name."""
    found = list_executors(conn, scope=actor.scope(Permission.VIEW), limit=MAX_EXECUTORS)
    return {each.name: each.id for each in found}


class _Planning:
    def __init__(
        self,
        conn: sa.Connection,
        kinds: ObjectKinds,
        actor: Actor,
        wish: Wish,
        new_ids: Mapping[ObjectKey, int],
    ) -> None:
        self._kinds, self._wish, self._new_ids = kinds, wish, new_ids
        executors = seen_executors(conn, actor)
        new_executors = {
            key.name: object_id
            for key, object_id in new_ids.items()
            if key.type is ObjectType.EXECUTOR and key.name not in executors
        }
        every = {**executors, **new_executors}
        self._view = PlanView(
            conn=conn,
            actor=actor,
            executors=every,
            names={object_id: name for name, object_id in executors.items()},
            new_jobs={
                (every[key.executor], key.name): object_id
                for key, object_id in new_ids.items()
                if key.type is ObjectType.JOB and key.executor in every
            },
            new_channels={
                key.name: object_id
                for key, object_id in new_ids.items()
                if key.type is ObjectType.CHANNEL
            },
        )
        self._problems = list(wish.envelopes.problems)
        self._marks: list[tuple[str, str, str]] = []  # of all that the plan was made from

    def plan(self) -> ObjectPlan:
        wish = self._wish
        changes: list[ObjectChange] = []
        for kind, documents in _by_type(wish.envelopes.documents).items():
            changes += self._of_documents(self._kinds[kind], documents)
        if wish.owner is not None and wish.prune:
            changes += self._pruned(wish.owner, {change.key for change in changes})
        made = [change for change in changes if change.action is not ChangeAction.UNCHANGED]
        return ObjectPlan(
            owner=wish.owner,
            changes=made,
            unchanged=len(changes) - len(made),
            problems=self._problems[:MAX_PROBLEMS],
            fingerprint=self._fingerprint(changes),
        )

    def _of_documents(
        self, kind: ObjectKind, documents: Sequence[ObjectDocument]
    ) -> list[ObjectChange]:
        view = self._view
        ids = kind.ids(view.conn, [each.key for each in documents], view.executors)
        stored = {each.id: each for each in kind.stored(view, ids.values())}
        labels = managed_by_ids(view.conn, kind.type.value, ids.values())
        changes = []
        breath = Breath()
        for document in documents:
            breath.take()
            found = stored.get(ids.get(document.key, 0))
            label = None if found is None else labels.get(found.id)
            try:
                changes.append(self._change(kind, document, found, label))
            except InvalidInput as error:
                self._problems += [
                    replace(each, field=_below(document.path, each.field))
                    for each in error.problems
                ]
        return changes

    def _change(
        self,
        kind: ObjectKind,
        document: ObjectDocument,
        stored: StoredObject | None,
        label: ManagedObject | None,
    ) -> ObjectChange:
        view, owner = self._view, self._wish.owner
        if kind.is_for_administrators and not view.actor.may(Permission.ADMINISTER):
            raise _for_administrators()
        if stored is None and document.key not in self._new_ids:
            raise _not_seen()  # or it was deleted just now
        object_id = self._new_ids[document.key] if stored is None else stored.id
        wanted = kind.read(view, document, object_id, stored)
        change = ObjectChange(
            key=document.key,
            action=ChangeAction.CREATE,
            stored=stored,
            wanted=wanted,
        )
        change = replace(change, is_allowed=kind.may_make(view.actor, change))
        if stored is None:
            return change
        differences = kind.differences(stored, wanted)
        change = replace(
            change,
            action=ChangeAction.UPDATE if differences else ChangeAction.UNCHANGED,
            differences=differences,
            owner=None if label is None else label.owner,
            is_drift=label is not None and label.mark != stored.mark,
        )
        if stored.is_declared:
            if differences:
                raise _declared()
            return change
        if label is not None and label.owner != owner and not self._wish.take_over:
            if differences or owner is not None:
                raise _of_another(label.owner)
            return change
        if not differences and owner != change.owner and (owner or self._wish.take_over):
            return replace(change, action=ChangeAction.ADOPT)
        return change

    def _pruned(self, owner: str, kept: set[ObjectKey]) -> list[ObjectChange]:
        view = self._view
        by_type: defaultdict[ObjectType, dict[int, ManagedObject]] = defaultdict(dict)
        for each in managed_by_owner(view.conn, owner):
            if each.type in set(ObjectType):
                by_type[ObjectType(each.type)][each.object_id] = each
        wanted = {each.key for each in self._wish.envelopes.documents} | kept
        return [
            ObjectChange(
                key=each.key,
                action=ChangeAction.DELETE,
                stored=each,
                owner=owner,
                is_drift=labels[each.id].mark != each.mark,
                is_allowed=self._kinds[kind].may_write(view.actor, each.executor_id),
            )
            for kind, labels in by_type.items()
            for each in self._kinds[kind].stored(view, labels.keys())
            # An executor is never deleted by a plan: its nodes and jobs would go with it.
            if each.key not in wanted and kind is not ObjectType.EXECUTOR and not each.is_declared
        ]

    def _fingerprint(self, changes: Sequence[ObjectChange]) -> str:
        """Of what was asked for, and of each object as it was found."""
        wish = self._wish
        seen = sorted(
            (
                str(change.key),
                change.action.value,
                "" if change.stored is None else f"{change.stored.id}:{change.stored.mark}",
                change.owner or "",
            )
            for change in changes
        )
        said = [wish.owner, wish.prune, wish.take_over, wish.digest, seen]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def digest_of(documents: Sequence[Any]) -> str:
    """The same for documents that say the same, in whatever order their fields stand.

    Raises:
        InvalidInput: they are nested too deeply.
    """
    try:
        text = json.dumps(documents, sort_keys=True, ensure_ascii=False)
    except RecursionError:
        raise InvalidInput.one(
            "documents",
            "json.invalid",
            "The body is not JSON: %(problem)s.",
            problem="it is nested too deeply",
        ) from None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _by_type(documents: Sequence[ObjectDocument]) -> dict[ObjectType, list[ObjectDocument]]:
    """In the order in which they are added."""
    found: dict[ObjectType, list[ObjectDocument]] = {kind: [] for kind in ObjectType}
    for each in documents:
        found[each.key.type].append(each)
    return {kind: some for kind, some in found.items() if some}


def _below(path: str, field: str) -> str:
    return f"{path}.{field}" if field else path


def _not_seen() -> InvalidInput:
    return InvalidInput.one(
        "name", "gitops.not_seen", "There is one of this name already, and you may not see it."
    )


def _for_administrators() -> InvalidInput:
    return InvalidInput.one(
        "type",
        "gitops.for_administrators",
        "Only administrators of all executors, and their tokens, may plan and apply this. Keep such"
        " documents in a directory of their own.",
    )


def _declared() -> InvalidInput:
    return InvalidInput.one(
        "name",
        "job.managed_by_code",
        "This job is declared in code. Change it there, or first take it out of code’s hands"
        " (“release”, among the executor’s jobs that are declared in code).",
    )


def _of_another(owner: str) -> InvalidInput:
    problem = Problem(
        field="name",
        code="gitops.other_owner",
        template="The files of “%(owner)s” manage this. Change it there, or take it over on"
        " purpose (--take-over).",
        params={"owner": owner},
    )
    return InvalidInput([problem])
