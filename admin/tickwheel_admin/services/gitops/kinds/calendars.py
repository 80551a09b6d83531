"""Calendars as documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.input.calendar import calendar_to_raw, parse_calendar
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.calendars.service import (
    create_calendar,
    delete_calendar,
    update_calendar,
)
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
from tickwheel_admin.services.gitops.refusals import changed_meanwhile
from tickwheel_admin.store.calendars import calendars as store
from tickwheel_admin.store.calendars.calendars import StoredCalendar
from tickwheel_admin.store.calendars.edits import lock_calendars

MAX_READ = 10_000


class CalendarObjects(ObjectKind):
    """They belong to no executor."""

    type: ClassVar = ObjectType.CALENDAR

    def ids(
        self, conn: sa.Connection, keys: Collection[ObjectKey], executors: Mapping[str, int]
    ) -> dict[ObjectKey, int]:
        found = {key: store.calendar_of_name(conn, key.name) for key in keys}
        return {key: each.id for key, each in found.items() if each is not None}

    def stored(self, view: PlanView, object_ids: Collection[int]) -> list[StoredObject]:
        found = (store.get_calendar(view.conn, each) for each in sorted(object_ids))
        return [_object(each) for each in found if each is not None]

    def all_ids(self, view: PlanView) -> list[int]:
        found = store.page_calendars(view.conn, text="", after=None, limit=MAX_READ)
        return [each.id for each in found]

    def read(
        self,
        view: PlanView,
        document: ObjectDocument,
        object_id: int,
        stored: StoredObject | None,
    ) -> WantedObject:
        said = parse_calendar({**document.fields, "name": document.key.name})
        return WantedObject(
            document=document,
            id=object_id,
            executor_id=0,
            fields=calendar_to_raw(*said),
            content=said,
        )

    def may_write(self, actor: Actor, executor_id: int) -> bool:
        return actor.may(Permission.DEVELOP)

    def ordered(self, changes: Sequence[ObjectChange]) -> list[ObjectChange]:
        """What others are based on comes first."""
        by_name = {change.key.name: change for change in changes}
        ordered: dict[str, ObjectChange] = {}
        for change in changes:
            way: list[ObjectChange] = []
            at: ObjectChange | None = change
            while at is not None and at.key.name not in ordered and at not in way:
                way.append(at)
                at = by_name.get(_spec(at).base or "")
            ordered |= {each.key.name: each for each in reversed(way)}
        return list(ordered.values())

    def lock(self, writing: PlanWriting, changes: Sequence[ObjectChange]) -> None:
        lock_calendars(writing.conn)

    def write(self, writing: PlanWriting, change: ObjectChange) -> None:
        assert change.wanted is not None  # noqa: S101 - what is deleted does not come here
        said = change.wanted.content
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        if change.stored is None:
            create_calendar(writing.conn, entry, said, calendar_id=change.object_id)
        else:
            version = _current(writing, change).version
            update_calendar(writing.conn, entry, change.object_id, said, version=version)

    def delete(self, writing: PlanWriting, change: ObjectChange) -> None:
        _current(writing, change)
        entry = AuditEntry(writing.conn, writing.take_one("audit"), writing.actor)
        delete_calendar(writing.conn, entry, change.object_id)

    def marks(self, conn: sa.Connection, object_ids: Collection[int]) -> dict[int, str]:
        found = (store.get_calendar(conn, each) for each in object_ids)
        return {each.id: str(each.version) for each in found if each is not None}


def _object(found: StoredCalendar) -> StoredObject:
    return StoredObject(
        key=ObjectKey(type=ObjectType.CALENDAR, name=found.name),
        id=found.id,
        executor_id=0,
        fields=calendar_to_raw(found.name, found.description, found.spec),
        mark=str(found.version),
        content=(found.name, found.description, found.spec),
    )


def _current(writing: PlanWriting, change: ObjectChange) -> StoredCalendar:
    """The calendar, if it says what was planned from. Its version rises with those below it, and
    one of these may have been changed just now, in this transaction."""
    found = store.get_calendar(writing.conn, change.object_id)
    assert change.stored is not None  # noqa: S101 - it was there
    if found is None or _object(found).content != change.stored.content:
        raise changed_meanwhile(change.key)
    return found


def _spec(change: ObjectChange) -> CalendarSpec:
    one = change.wanted or change.stored
    assert one is not None  # noqa: S101 - a change has one of the two
    spec: CalendarSpec = one.content[2]
    return spec
