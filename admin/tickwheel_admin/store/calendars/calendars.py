"""Calendars: read together with those they are based on, and who uses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec
from tickwheel_admin.domain.calendars.calendar_json import calendar_from_json
from tickwheel_admin.store.database.tables import ALIVE, calendar, executor, job, trigger

MAX_CHAIN = 10  # calendars based on each other, the first one included


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCalendar:
    """A calendar as its row has it, without those it is based on."""

    id: int
    name: str
    description: str
    spec: CalendarSpec
    version: int
    changed_at: int
    created_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarUser:
    """A job some of whose triggers follow a calendar."""

    job_id: int
    job_name: str
    executor_id: int
    executor_name: str
    triggers: int


# --- as schedules use them -------------------------------------------------------------------


class CalendarCache:
    """Current calendars by name; keeps what it read, since a version never changes.

    Shared by the threads of one admin.
    """

    def __init__(self) -> None:
        self._known: dict[str, Calendar] = {}

    def get_many(self, conn: sa.Connection, names: Iterable[str | None]) -> dict[str, Calendar]:
        """Those of the calendars that exist; one statement when all of them are known."""
        wanted = {name for name in names if name is not None}
        if not wanted:
            return {}
        versions = current_versions(conn, wanted)
        known = self._known
        found = {
            name: known[name]
            for name, version in versions.items()
            if name in known and known[name].version == version
        }
        missing = versions.keys() - found.keys()
        if missing:
            read = read_calendars(conn, missing)
            found |= read
            self._known = self._known | read
        return found


def current_versions(conn: sa.Connection, names: Iterable[str]) -> dict[str, int]:
    """Versions of those of the calendars that exist."""
    rows = conn.execute(
        sa.select(calendar.c.name, calendar.c.version).where(
            calendar.c.name.in_(sorted(set(names))), calendar.c.deleted_at == ALIVE
        )
    )
    return {row.name: row.version for row in rows}


def read_calendars(conn: sa.Connection, names: Iterable[str]) -> dict[str, Calendar]:
    """Those of the calendars that exist, each with those it is based on.

    At most `MAX_CHAIN` statements. One that changes between two of them is read half old, half new,
    under its old version: its next user finds the new version, and recomputes.
    """
    wanted = set(names)
    rows: dict[str, StoredCalendar] = {}
    level = wanted
    for _ in range(MAX_CHAIN):
        if not level:
            break
        found = {each.name: each for each in _of_names(conn, level)}
        rows |= found
        bases = {each.spec.base for each in found.values() if each.spec.base is not None}
        level = bases - rows.keys()
    chains = ((name, chained(name, rows)) for name in wanted)
    return {name: chain for name, chain in chains if chain is not None}


def chained(name: str | None, rows: Mapping[str, StoredCalendar]) -> Calendar | None:
    """A calendar with those it is based on, out of rows by name; None when it is not there.

    A base that is missing takes nothing away.
    """
    line: list[StoredCalendar] = []
    while name is not None and (row := rows.get(name)) is not None and len(line) < MAX_CHAIN:
        line.append(row)
        name = row.spec.base
    found: Calendar | None = None
    for row in reversed(line):
        found = Calendar(
            name=row.name,
            version=row.version,
            spec=row.spec,
            base=found,
            changed_at=row.changed_at,
        )
    return found


# --- for people ------------------------------------------------------------------------------


def page_calendars(
    conn: sa.Connection, *, text: str = "", after: str | None = None, limit: int
) -> list[StoredCalendar]:
    """By name, from behind the name `after`; `text` is a part of a name in any case."""
    statement = _SELECTED.order_by(calendar.c.name).limit(limit)
    if after is not None:
        statement = statement.where(calendar.c.name > after)
    if text:
        escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        # Both sides lowered by the database: SQLite lowers ASCII only, Python would lower more.
        part = sa.func.lower(sa.bindparam("part", f"%{escaped}%"))
        statement = statement.where(sa.func.lower(calendar.c.name).like(part, escape="\\"))
    return [_stored(row) for row in conn.execute(statement)]


def calendar_names(conn: sa.Connection, *, limit: int) -> list[str]:
    """In order of the alphabet."""
    named = sa.select(calendar.c.name).where(calendar.c.deleted_at == ALIVE)
    return list(conn.execute(named.order_by(calendar.c.name).limit(limit)).scalars())


def get_calendar(conn: sa.Connection, calendar_id: int) -> StoredCalendar | None:
    """The calendar, unless it is deleted."""
    row = conn.execute(_SELECTED.where(calendar.c.id == calendar_id)).one_or_none()
    return None if row is None else _stored(row)


def calendar_of_name(conn: sa.Connection, name: str) -> StoredCalendar | None:
    """The calendar that has the name now."""
    row = conn.execute(_SELECTED.where(calendar.c.name == name)).one_or_none()
    return None if row is None else _stored(row)


def count_users(conn: sa.Connection, names: Sequence[str]) -> dict[str, int]:
    """Triggers by the calendar that they follow."""
    rows = conn.execute(
        sa.select(trigger.c.calendar, sa.func.count().label("triggers"))
        .where(trigger.c.calendar.in_(names))
        .group_by(trigger.c.calendar)
    )
    return {row.calendar: row.triggers for row in rows}


def users_of(
    conn: sa.Connection, name: str, *, limit: int, scope: frozenset[int] | None = None
) -> list[CalendarUser]:
    """Jobs with triggers that follow the calendar, by name of executor and job.

    Args:
        scope: of these executors only; None: of all.
    """
    statement = (
        sa.select(
            job.c.id,
            job.c.name,
            job.c.executor_id,
            executor.c.name.label("executor_name"),
            sa.func.count().label("triggers"),
        )
        .select_from(trigger)
        .join(job, job.c.id == trigger.c.job_id)
        .join(executor, executor.c.id == job.c.executor_id)
        .where(trigger.c.calendar == name)
        .group_by(job.c.id, job.c.name, job.c.executor_id, executor.c.name)
        .order_by(executor.c.name, job.c.name)
        .limit(limit)
    )
    if scope is not None:
        statement = statement.where(trigger.c.executor_id.in_(sorted(scope)))
    return [
        CalendarUser(
            job_id=row.id,
            job_name=row.name,
            executor_id=row.executor_id,
            executor_name=row.executor_name,
            triggers=row.triggers,
        )
        for row in conn.execute(statement)
    ]


def based_on(conn: sa.Connection, names: Iterable[str]) -> list[tuple[int, str]]:
    """(id, name) of the calendars that name one of these as their base, by name."""
    rows = conn.execute(
        sa.select(calendar.c.id, calendar.c.name)
        .where(calendar.c.base.in_(sorted(set(names))), calendar.c.deleted_at == ALIVE)
        .order_by(calendar.c.name)
    )
    return [(row.id, row.name) for row in rows]


# --- rows ------------------------------------------------------------------------------------

_SELECTED = sa.select(
    calendar.c.id,
    calendar.c.name,
    calendar.c.description,
    calendar.c.spec,
    calendar.c.version,
    calendar.c.changed_at,
    calendar.c.created_at,
).where(calendar.c.deleted_at == ALIVE)


def _of_names(conn: sa.Connection, names: Iterable[str]) -> list[StoredCalendar]:
    rows = conn.execute(_SELECTED.where(calendar.c.name.in_(sorted(names))))
    return [_stored(row) for row in rows]


def _stored(row: Any) -> StoredCalendar:
    return StoredCalendar(
        id=row.id,
        name=row.name,
        description=row.description,
        spec=calendar_from_json(row.spec),
        version=row.version,
        changed_at=row.changed_at,
        created_at=row.created_at,
    )
