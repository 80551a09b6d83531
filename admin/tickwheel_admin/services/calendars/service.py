"""Calendars: named sets of days and times that take fires away from triggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import CalendarSense, CalendarSpec
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed
from tickwheel_admin.domain.fields import CONTROL_CHARACTERS, is_clean
from tickwheel_admin.domain.input.calendar import calendar_to_raw, parse_calendar
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.calendars.imports import CalendarFormat as CalendarFormat
from tickwheel_admin.services.calendars.imports import ImportedDays as ImportedDays
from tickwheel_admin.services.calendars.imports import ImportProblem as ImportProblem
from tickwheel_admin.services.calendars.imports import text_of
from tickwheel_admin.services.calendars.rules import check_base, refuse_if_used
from tickwheel_admin.services.calendars.worker.process import TookTooLong, WorkerProcess
from tickwheel_admin.services.events.events import CALENDARS, TRIGGERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.paging import (
    Page,
    bad_cursor,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.calendars import calendars as store_calendars
from tickwheel_admin.store.calendars import edits as calendar_edits
from tickwheel_admin.store.calendars.calendars import CalendarUser, StoredCalendar
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids

MAX_NAMES = 1_000
MAX_USERS_SHOWN = 200
MAX_TEXT_CHARS = 200


class _Key(NamedTuple):
    """A place in the list: behind this calendar."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarItem:
    """A calendar in a list."""

    id: int
    name: str
    description: str
    spec: CalendarSpec
    version: int  # an edit must name the one it was made from
    changed_at: int
    created_at: int
    triggers: int  # that follow it, of all executors

    @property
    def sense(self) -> CalendarSense:
        return self.spec.sense


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarDetail:
    """One calendar and who uses it."""

    item: CalendarItem
    users: list[CalendarUser]  # jobs that the caller may see, at most 200
    based_on_it: list[tuple[int, str]]  # (id, name) of calendars whose base it is


class Calendars:
    """Use cases of calendars. Everybody may see them; changing one concerns every executor."""

    def __init__(
        self, store: Store, ids: Ids, events: Events, *, worker: WorkerProcess | None = None
    ) -> None:
        self._store = store
        self._ids = ids
        self._audited = AuditedTransactions(store, ids, events)
        self._worker = worker or WorkerProcess()  # reads files: their rules may be without measure

    def close(self) -> None:
        """End the process that reads files."""
        self._worker.close()

    # --- finding -----------------------------------------------------------------------------

    async def page(
        self, actor: Actor, *, text: str = "", cursor: str | None = None, limit: int = 50
    ) -> Page[CalendarItem]:
        """Calendars by name; `text` is a part of a name."""
        actor.require(Permission.LOGGED_IN)
        text = text.strip()[:MAX_TEXT_CHARS]
        if not is_clean(text):
            raise InvalidInput.one("text", "control_characters", CONTROL_CHARACTERS)
        after = _decoded(cursor)
        limit = check_limit(limit)

        def read(conn: sa.Connection) -> Page[CalendarItem]:
            found = store_calendars.page_calendars(conn, text=text, after=after, limit=limit + 1)
            more = len(found) > limit
            items = _items(conn, found[:limit])
            return Page(items=items, next=encode_cursor(_Key(items[-1].name)) if more else None)

        return await self._store.read(read)

    async def names(self, actor: Actor) -> list[str]:
        """What a trigger may name, in order of the alphabet; at most 1,000."""
        actor.require(Permission.LOGGED_IN)
        return await self._store.read(store_calendars.calendar_names, limit=MAX_NAMES)

    async def get(self, actor: Actor, calendar_id: int) -> CalendarDetail:
        """One calendar; of the jobs that use it, those that the caller may see."""
        actor.require(Permission.LOGGED_IN)

        def read(conn: sa.Connection) -> CalendarDetail:
            stored = _get(conn, calendar_id)
            scope = actor.scope(Permission.VIEW)
            return CalendarDetail(
                item=_items(conn, [stored])[0],
                users=store_calendars.users_of(
                    conn, stored.name, limit=MAX_USERS_SHOWN, scope=scope
                ),
                based_on_it=store_calendars.based_on(conn, [stored.name]),
            )

        return await self._store.read(read)

    async def import_preview(
        self,
        actor: Actor,
        content: str | bytes,
        *,
        format: CalendarFormat,  # noqa: A002 - what the field of the form is called
    ) -> ImportedDays:
        """The days in a CSV or iCalendar file, and the lines that are none. Stores nothing.

        Raises:
            InvalidInput: import.too_long, import.not_text, import.not_ical, import.too_many,
                import.zone_rule, import.takes_too_long.
            TooMany: this person's last file, or too many people's, are still being read.
            Unavailable: the process that reads files fails.
        """
        actor.require(Permission.LOGGED_IN)
        text = text_of(content)
        now = await self._store.read(now_ms)
        try:
            return await self._worker.run(
                "import_days",
                {"text": text, "format": format.value, "now": now},
                ImportedDays,
                user_id=actor.user_id,
            )
        except TookTooLong as error:
            raise InvalidInput.one(
                "content",
                "import.takes_too_long",
                "This took too long to read and was stopped at “%(place)s”. Take out a rule that"
                " recurs without measure, or import the file in parts.",
                place=error.at[:100],
            ) from None

    # --- changing ----------------------------------------------------------------------------

    async def create(self, actor: Actor, raw: Mapping[str, Any]) -> int:
        """Add a calendar; returns its id.

        Raises:
            InvalidInput: with every problem found; calendar.unknown, calendar.chain_too_long.
            Conflict: calendar.name_taken.
        """
        if not actor.may(Permission.DEVELOP):
            raise _not_allowed()
        name, description, spec = parse_calendar(raw)
        calendar_id = await self._ids.take("calendar")

        def create(conn: sa.Connection, entry: AuditEntry) -> None:
            create_calendar(conn, entry, (name, description, spec), calendar_id=calendar_id)

        await self._audited.run(actor, create, CALENDARS, TRIGGERS)
        return calendar_id

    async def update(
        self, actor: Actor, calendar_id: int, raw: Mapping[str, Any], *, version: int
    ) -> int:
        """Replace what a calendar says; returns its new version.

        Triggers that follow it are computed anew within seconds; a fire that one of them was due
        for still happens.

        Args:
            version: the one the change was made from.

        Raises:
            InvalidInput: with every problem found; calendar.renamed, calendar.unknown,
                calendar.circle, calendar.chain_too_long.
            Conflict: calendar.changed when `version` is no longer current.
        """
        await self._require_change(actor, calendar_id)
        name, description, spec = parse_calendar(raw)

        def update(conn: sa.Connection, entry: AuditEntry) -> int:
            new = (name, description, spec)
            return update_calendar(conn, entry, calendar_id, new, version=version)

        return await self._audited.run(
            actor, update, CALENDARS, TRIGGERS, repeated=lambda noted: int(noted.detail["version"])
        )

    async def delete(self, actor: Actor, calendar_id: int) -> None:
        """Remove a calendar that nothing uses.

        Raises:
            Conflict: calendar.in_use, calendar.is_base, naming some of the users.
        """
        await self._require_change(actor, calendar_id)

        def delete(conn: sa.Connection, entry: AuditEntry) -> None:
            delete_calendar(conn, entry, calendar_id)

        await self._audited.run(actor, delete, CALENDARS, TRIGGERS)

    async def _require_change(self, actor: Actor, calendar_id: int) -> None:
        """Refuse before the input is looked at: its problems are not for everybody."""
        if not actor.may(Permission.DEVELOP):
            await self._store.read(_get, calendar_id)
            raise _not_allowed()


def create_calendar(
    conn: sa.Connection, entry: AuditEntry, new: tuple[str, str, CalendarSpec], *, calendar_id: int
) -> None:
    """Write a new one: its name, description and content; raises as `Calendars.create`."""
    name, description, spec = new
    calendar_edits.lock_calendars(conn)
    if store_calendars.calendar_of_name(conn, name) is not None:
        raise Conflict(
            "calendar.name_taken",
            "There is already a calendar named “%(name)s”.",
            name=name,
        )
    check_base(conn, name, spec)
    version = calendar_edits.add_calendar(
        conn,
        calendar_id=calendar_id,
        name=name,
        description=description,
        spec=spec,
        now=now_ms(conn),
    )
    entry.write("calendar.created", calendar_id, name=name, version=version)


def update_calendar(
    conn: sa.Connection,
    entry: AuditEntry,
    calendar_id: int,
    said: tuple[str, str, CalendarSpec],
    *,
    version: int,
) -> int:
    """Change one; returns its new version, and raises as `Calendars.update`."""
    name, description, spec = said
    calendar_edits.lock_calendars(conn)
    old = _get(conn, calendar_id)
    if old.version != version:
        raise Conflict(
            "calendar.changed",
            "Somebody else changed this calendar, or one that it is based on, meanwhile;"
            " it is at version %(version)d now. Load it again and repeat your change.",
            version=old.version,
        )
    if name != old.name:
        raise InvalidInput.one(
            "name",
            "calendar.renamed",
            "Triggers name it, so a calendar keeps its name “%(name)s”; add another one instead.",
            name=old.name,
        )
    before = calendar_to_raw(old.name, old.description, old.spec)
    after = calendar_to_raw(name, description, spec)
    changed = [field for field in after if after[field] != before[field]]
    if not changed:
        return old.version
    check_base(conn, name, spec)
    now = now_ms(conn)
    calendar_edits.revise_calendar(conn, calendar_id, description=description, spec=spec, now=now)
    calendar_edits.raise_versions(conn, name, now=now)
    new = old.version + 1
    entry.write("calendar.updated", calendar_id, name=name, version=new, changed=changed)
    return new


def delete_calendar(conn: sa.Connection, entry: AuditEntry, calendar_id: int) -> None:
    """Remove one; raises as `Calendars.delete`."""
    calendar_edits.lock_calendars(conn)
    old = _get(conn, calendar_id)
    # From here on no job can begin to follow it: saving one holds this row as well.
    calendar_edits.hold_calendars(conn, [old.name])
    refuse_if_used(conn, old.name)
    calendar_edits.delete_calendar(conn, calendar_id, now=now_ms(conn))
    entry.write("calendar.deleted", calendar_id, name=old.name)


def _items(conn: sa.Connection, stored: list[StoredCalendar]) -> list[CalendarItem]:
    triggers = store_calendars.count_users(conn, [each.name for each in stored])
    return [
        CalendarItem(
            id=each.id,
            name=each.name,
            description=each.description,
            spec=each.spec,
            version=each.version,
            changed_at=each.changed_at,
            created_at=each.created_at,
            triggers=triggers.get(each.name, 0),
        )
        for each in stored
    ]


def _get(conn: sa.Connection, calendar_id: int) -> StoredCalendar:
    found = store_calendars.get_calendar(conn, calendar_id)
    if found is None:
        raise not_found()
    return found


def _not_allowed() -> NotAllowed:
    return NotAllowed(
        "not_allowed",
        "Calendars belong to no executor; to change them, your role needs the permission"
        " “%(permission)s” on all executors.",
        permission=Permission.DEVELOP.value,
    )


def _decoded(cursor: str | None) -> str | None:
    key = decode_cursor(cursor, _Key)
    if key is not None and not is_clean(key.name):  # no name of a calendar
        raise bad_cursor()
    return None if key is None else key.name
