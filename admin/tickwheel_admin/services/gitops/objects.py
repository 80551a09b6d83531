"""Objects as documents: what they are known by, what is stored, and what is to become of them.

A document says which object it means by its type, its name, and its executor where it has one.
Other objects are named in it, never numbered, so the same files mean the same anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tickwheel_admin.domain.errors import Problem


class ObjectType(StrEnum):
    """What can be written as a document, in the order in which it is added."""

    EXECUTOR = "executor"
    USER_ROLES = "user_roles"
    CALENDAR = "calendar"
    POOL = "pool"
    CHANNEL = "alarm_channel"
    RULE = "alarm_rule"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ObjectKey:
    """Which object is meant."""

    type: ObjectType
    executor: str = ""  # of a job, and of a pool of one executor
    name: str

    def __str__(self) -> str:
        of = f"{self.executor}/" if self.executor else ""
        return f"{self.type.value} {of}{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDocument:
    """One document of a request."""

    place: int  # in the request
    key: ObjectKey
    fields: Mapping[str, Any]  # without its type, and without the executor of a job

    @property
    def path(self) -> str:
        """Where it stands in the request."""
        return f"documents[{self.place}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object that is there."""

    key: ObjectKey
    id: int
    executor_id: int  # 0: it belongs to none
    fields: Mapping[str, Any]  # every one of its documents, names for ids
    mark: str  # changes with every edit
    content: Any = None  # as its kind knows it
    is_declared: bool = False  # code declares it, and only code changes it


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedObject:
    """What a document says, with ids for names."""

    document: ObjectDocument
    id: int  # that it has, or will get
    executor_id: int  # 0: it belongs to none
    fields: Mapping[str, Any]  # every one, defaults included
    content: Any  # as its kind knows it

    @property
    def key(self) -> ObjectKey:
        """Which object it is."""
        return self.document.key


class ChangeAction(StrEnum):
    """What becomes of an object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    ADOPT = "adopt"  # it says what is wanted, and gets the label of this owner
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """What becomes of one object."""

    key: ObjectKey
    action: ChangeAction
    stored: StoredObject | None = None
    wanted: WantedObject | None = None  # None: it is deleted
    # (before, after) of each field that differs
    differences: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    owner: str | None = None  # the label that it has now
    is_drift: bool = False  # somebody edited it since it was applied
    is_allowed: bool = True  # whether the caller may do this

    @property
    def object_id(self) -> int:
        """Of what is there, or of what will be."""
        if self.stored is not None:
            return self.stored.id
        assert self.wanted is not None  # noqa: S101 - a change has one of the two
        return self.wanted.id

    @property
    def executor_id(self) -> int:
        """Whose it is; 0: it belongs to none."""
        one = self.wanted or self.stored
        return 0 if one is None else one.executor_id

    @property
    def place(self) -> int | None:
        """Of its document in the request."""
        return None if self.wanted is None else self.wanted.document.place


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPlan:
    """What would become of all objects of a request."""

    owner: str | None
    changes: Sequence[ObjectChange]  # without those that stay as they are
    unchanged: int
    problems: Sequence[Problem]  # with these nothing is applied
    fingerprint: str  # of the documents and of the state that they were compared with
    is_checked: bool = False  # a transaction tried it, and was rolled back

    @property
    def is_allowed(self) -> bool:
        """Whether the caller may make all of the changes."""
        return all(change.is_allowed for change in self.changes)
