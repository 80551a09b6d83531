"""What a plan asks of each type of object."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import sqlalchemy as sa

from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.input.job_alarms import without_nothing
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.gitops.objects import (
    ObjectChange,
    ObjectDocument,
    ObjectKey,
    ObjectType,
    StoredObject,
    WantedObject,
)
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.executors.executors import protocol_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What the documents of a request are read with."""

    conn: sa.Connection
    actor: Actor
    executors: Mapping[str, int]  # that the caller sees, and those that documents add
    names: Mapping[int, str]  # the same by id
    new_jobs: Mapping[tuple[int, str], int] = field(default_factory=dict)  # that documents add
    new_channels: Mapping[str, int] = field(default_factory=dict)  # the same
    protocols: dict[int, Protocol] = field(default_factory=dict)  # of executors, once asked for

    def protocol_of(self, executor_id: int) -> Protocol:
        """How the nodes of an executor are reached: asked once for all of its jobs."""
        if executor_id not in self.protocols:
            self.protocols[executor_id] = protocol_of(self.conn, executor_id)
        return self.protocols[executor_id]


@dataclass(slots=True, kw_only=True)
class PlanWriting:
    """A transaction that applies a plan, and the ids that it may use."""

    conn: sa.Connection
    actor: Actor  # whose changes are parts of the entries of this application
    now: int
    ids: dict[str, Iterator[int]]  # by what they are for: "audit", "trigger", …
    run_ids: Sequence[int]
    edits: int  # that may need ids of runs
    taken: int = 0

    def take(self, name: str, count: int) -> list[int]:
        """So many of the new ids."""
        return [next(self.ids[name]) for _ in range(count)]

    def take_one(self, name: str) -> int:
        """One of them."""
        return next(self.ids[name])

    def runs_of_next(self) -> Sequence[int]:
        """The share of an edit in the ids of runs; each may need as many as any other."""
        share = len(self.run_ids) // max(self.edits, 1)
        self.taken += 1
        return self.run_ids[(self.taken - 1) * share : self.taken * share]

    def too_few(self, error: TooFewIds) -> TooFewIds:
        """What one edit is short of, for all of them."""
        return TooFewIds(error.count * max(self.edits, 1))


class ObjectKind(ABC):
    """One type of object."""

    type: ClassVar[ObjectType]
    # Others are not told what there is, not even by a comparison.
    is_for_administrators: ClassVar[bool] = False

    @abstractmethod
    def ids(
        self, conn: sa.Connection, keys: Collection[ObjectKey], executors: Mapping[str, int]
    ) -> dict[ObjectKey, int]:
        """Of those that are there."""

    @abstractmethod
    def stored(self, view: PlanView, object_ids: Collection[int]) -> list[StoredObject]:
        """Those that are there and that the caller may see; in no order."""

    @abstractmethod
    def all_ids(self, view: PlanView) -> list[int]:
        """Of all that the caller may see and that an export writes."""

    @abstractmethod
    def read(
        self, view: PlanView, document: ObjectDocument, object_id: int, stored: StoredObject | None
    ) -> WantedObject:
        """What a document says; raises InvalidInput with every problem that its fields have."""

    @abstractmethod
    def may_write(self, actor: Actor, executor_id: int) -> bool:
        """Whether the caller may add, change and delete it."""

    def may_make(self, actor: Actor, change: ObjectChange) -> bool:
        """Whether the caller may make this change."""
        return self.may_write(actor, change.executor_id)

    def shown(self, stored: StoredObject) -> Mapping[str, Any]:
        """The fields that an export writes: those that say something."""
        return {
            name: without_nothing(value) if isinstance(value, Mapping) else value
            for name, value in stored.fields.items()
            if value is not None and value != "" and value != [] and value != {}
        }

    def needs(self, change: ObjectChange) -> Mapping[str, int]:
        """How many ids of what a change takes, beside that of its entry in the audit."""
        return {}

    def differences(
        self, stored: StoredObject, wanted: WantedObject
    ) -> Mapping[str, tuple[Any, Any]]:
        """(before, after) of each field that differs."""
        return {
            name: (stored.fields.get(name), value)
            for name, value in wanted.fields.items()
            if stored.fields.get(name) != value
        }

    def ordered(self, changes: Sequence[ObjectChange]) -> list[ObjectChange]:
        """What others name comes first."""
        return list(changes)

    def lock(self, writing: PlanWriting, changes: Sequence[ObjectChange]) -> None:  # noqa: B027 - may be none
        """Take the locks that all of these changes need, before any of them is written."""

    @abstractmethod
    def write(self, writing: PlanWriting, change: ObjectChange) -> None:
        """Add or change one; raises UserError."""

    @abstractmethod
    def delete(self, writing: PlanWriting, change: ObjectChange) -> None:
        """Delete one, if it is still as it was planned; raises UserError."""

    @abstractmethod
    def marks(self, conn: sa.Connection, object_ids: Collection[int]) -> dict[int, str]:
        """How objects are known to be as they were applied."""
