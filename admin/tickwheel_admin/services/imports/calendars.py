"""Calendars of another scheduler: what becomes of each, and the transaction that writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.calendars.calendar_json import calendar_to_json
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.foreign import ForeignCalendar, note_of_problem
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.input.calendar import parse_calendar
from tickwheel_admin.services.calendars.rules import check_base
from tickwheel_admin.services.events.transactions import AuditEntry
from tickwheel_admin.store.calendars import edits as calendar_edits
from tickwheel_admin.store.calendars.calendars import calendar_of_name, get_calendar
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.imports.records import (
    StoredImport,
    lock_imports,
    read_imports,
    write_imports,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarImport:
    """A foreign calendar, and what becomes of it here."""

    of: ForeignCalendar
    fate: Fate
    our_id: int | None = None
    spec: CalendarSpec | None = None
    description: str = ""
    notes: tuple[ImportNote, ...] = ()
    reasons: tuple[ImportNote, ...] = ()


def plan_calendars(
    conn: sa.Connection, source: str, calendars: Sequence[ForeignCalendar]
) -> list[CalendarImport]:
    """What becomes of them; one that stays as it is here although it differs is told."""
    stored = read_imports(conn, source, kind=ImportKind.CALENDAR)
    return [
        _planned(conn, each, stored.get((ImportKind.CALENDAR, each.their_id))) for each in calendars
    ]


def _planned(
    conn: sa.Connection, calendar: ForeignCalendar, stored: StoredImport | None
) -> CalendarImport:
    planned = CalendarImport(
        of=calendar, fate=Fate.CANNOT, notes=calendar.notes, reasons=calendar.reasons
    )
    if calendar.reasons:
        return planned
    try:
        name, description, spec = parse_calendar(calendar.raw)
    except InvalidInput as error:
        return replace(planned, reasons=tuple(note_of_problem(each) for each in error.problems))
    planned = replace(planned, spec=spec, description=description)
    ours = calendar_of_name(conn, name)
    if ours is None:
        return replace(planned, fate=Fate.CREATED)
    planned = replace(planned, fate=Fate.UNCHANGED, our_id=ours.id)
    if ours.spec == spec:
        return replace(planned, notes=())
    was = None if stored is None else stored.content.get("spec")
    if was == calendar_to_json(ours.spec):
        return replace(planned, fate=Fate.CHANGED)
    text = "is here already and says something else: jobs follow the one that is here"
    return replace(planned, notes=(note("kept", text),))


def write_calendar(
    conn: sa.Connection, entry: AuditEntry, source: str, planned: CalendarImport, new_id: int
) -> None:
    """Add or change one; raises UserError when something changed meanwhile."""
    assert planned.spec is not None  # noqa: S101 - it was planned to be written
    lock_imports(conn)
    calendar_edits.lock_calendars(conn)
    name, now = planned.of.name, now_ms(conn)
    check_base(conn, name, planned.spec)
    if planned.our_id is None:
        if calendar_of_name(conn, name) is not None:
            raise Conflict("import.raced", "Somebody else imports at the same time.")
        version = calendar_edits.add_calendar(
            conn,
            calendar_id=new_id,
            name=name,
            description=planned.description,
            spec=planned.spec,
            now=now,
        )
        entry.write("calendar.created", new_id, name=name, version=version)
    else:
        old = get_calendar(conn, planned.our_id)
        if old is None:
            raise Conflict("import.raced", "Somebody else imports at the same time.")
        calendar_edits.revise_calendar(
            conn, old.id, description=old.description, spec=planned.spec, now=now
        )
        calendar_edits.raise_versions(conn, name, now=now)
        entry.write(
            "calendar.updated", old.id, name=name, version=old.version + 1, changed=["imported"]
        )
    row = StoredImport(
        kind=ImportKind.CALENDAR,
        their_id=planned.of.their_id,
        our_id=planned.our_id or new_id,
        content={"spec": calendar_to_json(planned.spec)},
    )
    write_imports(conn, source, [row], now=now)
