"""Changing calendars; who follows them learns it by their versions."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.calendars.calendar_json import calendar_to_json
from tickwheel_admin.store.calendars.calendars import based_on
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.edit_locks import lock_edits
from tickwheel_admin.store.database.tables import ALIVE, calendar, calendar_period, trigger

CHANGES = "calendar_changes"  # name of the setting that counts how often calendars were changed


def lock_calendars(conn: sa.Connection) -> None:
    """Let edits of calendars go one after the other; taken before all other locks."""
    lock_edits(conn, CHANGES)


def hold_calendars(conn: sa.Connection, names: Iterable[str]) -> None:
    """Hold off the deletion and any change of these calendars until the transaction ends.

    A write, so that it holds on clusters whose row locks are local; a millisecond to and fro.
    """
    at = calendar.c.created_at
    for name in sorted(set(names)):
        conn.execute(
            sa.update(calendar)
            .where(calendar.c.name == name, calendar.c.deleted_at == ALIVE)
            .values(created_at=at + 1 - 2 * (at % 2))
        )


def add_calendar(
    conn: sa.Connection,
    *,
    calendar_id: int,
    name: str,
    description: str,
    spec: CalendarSpec,
    now: int,
) -> int:
    """Insert a calendar, its unique name the database's to guard; returns its version.

    That goes on from the version of an earlier calendar of the same name, so that no trigger takes
    the new one for the old one.
    """
    before = conn.execute(
        sa.select(sa.func.max(calendar.c.version)).where(calendar.c.name == name)
    ).scalar()
    followed = conn.execute(
        sa.select(sa.func.max(trigger.c.calendar_version)).where(trigger.c.calendar == name)
    ).scalar()
    version = max(before or 0, followed or 0) + 1
    conn.execute(
        sa.insert(calendar).values(
            id=calendar_id,
            name=name,
            description=description,
            spec=calendar_to_json(spec),
            base=spec.base,
            version=version,
            changed_at=now,
            created_at=now,
            deleted_at=ALIVE,
        )
    )
    return version


def revise_calendar(
    conn: sa.Connection, calendar_id: int, *, description: str, spec: CalendarSpec, now: int
) -> None:
    """Write what a calendar says; its version is `raise_versions`' to raise."""
    _keep_past(conn, calendar_id, now=now)
    conn.execute(
        sa.update(calendar)
        .where(calendar.c.id == calendar_id)
        .values(description=description, spec=calendar_to_json(spec), base=spec.base)
    )


def raise_versions(conn: sa.Connection, name: str, *, now: int) -> None:
    """A new version of a calendar and of all that are based on it, near and far."""
    changed: set[str] = set()
    level = {name}
    while level:
        changed |= level
        level = {based for _, based in based_on(conn, level)} - changed
    conn.execute(
        sa.update(calendar)
        .where(calendar.c.name.in_(sorted(changed)), calendar.c.deleted_at == ALIVE)
        .values(version=calendar.c.version + 1, changed_at=now)
    )


def delete_calendar(conn: sa.Connection, calendar_id: int, *, now: int) -> None:
    """Mark it deleted; its name is free again."""
    _keep_past(conn, calendar_id, now=now)
    conn.execute(
        sa.update(calendar).where(calendar.c.id == calendar_id).values(deleted_at=now, base=None)
    )


def _keep_past(conn: sa.Connection, calendar_id: int, *, now: int) -> None:
    """Keep what a calendar says until now, for the self-audit of the last hours."""
    said = conn.execute(
        sa.select(calendar.c.name, calendar.c.spec).where(calendar.c.id == calendar_id)
    ).one_or_none()
    if said is not None:
        row = {"name": said.name, "until_at": now, "spec": said.spec}
        # Of two changes within a millisecond, the first one's past is what stood until then.
        insert_rows(
            conn,
            calendar_period,
            [row],
            columns=tuple(row),
            ignore_duplicates_of=("name", "until_at"),
        )
