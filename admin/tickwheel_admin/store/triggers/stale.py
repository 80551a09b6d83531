"""Triggers whose next fire was computed with an old calendar or old time zone data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database.batch import update_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Repeat
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import ALIVE, calendar, job, run, setting, trigger
from tickwheel_admin.store.runs.events.writer import delete_queued
from tickwheel_admin.store.self_audit.periods import begin_periods
from tickwheel_admin.store.triggers.planning import trigger_from_row
from tickwheel_admin.store.triggers.triggers import StoredTrigger

TZDATA = "tzdata_version"  # name of the setting: the zone data that all triggers were computed with

# Shards belong to a fire that was claimed, though a clock that was set back says it is to come.
_AHEAD = sa.and_(run.c.state == RunState.QUEUED.value, run.c.attempt == 0, run.c.fire_id.is_(None))


_SELECTED = sa.select(trigger, job.c.paused.label("job_paused")).join(
    job, job.c.id == trigger.c.job_id
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleTrigger(StoredTrigger):
    """A trigger to be recomputed."""

    job_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshedTrigger:
    """A trigger after it was recomputed."""

    trigger_id: int
    version: int  # as it was read
    next_fire_at: int | None
    last_fire_at: int | None
    fires: int
    calendar_version: int | None
    state: TriggerState
    reason: str | None = None


def stale_calendars(conn: sa.Connection) -> dict[str, int]:
    """Versions of the calendars that some trigger was computed with an older version of.

    One index look-up a calendar.
    """
    oldest = (
        sa.select(sa.func.min(trigger.c.calendar_version))
        .where(trigger.c.calendar == calendar.c.name)
        .scalar_subquery()
    )
    rows = conn.execute(
        sa.select(calendar.c.name, calendar.c.version, oldest.label("oldest")).where(
            calendar.c.deleted_at == ALIVE
        )
    )
    return {
        row.name: row.version for row in rows if row.oldest is not None and row.oldest < row.version
    }


def triggers_behind(
    conn: sa.Connection, name: str, version: int, *, limit: int
) -> list[StaleTrigger]:
    """Triggers that follow a calendar and were computed with an older version of it."""
    behind = (
        _SELECTED.where(trigger.c.calendar == name, trigger.c.calendar_version < version)
        .order_by(trigger.c.calendar_version)
        .limit(limit)
    )
    return _stale(conn, reading(behind, trigger, "ix_trigger_of_calendar"))


def triggers_after(conn: sa.Connection, after: int, *, limit: int) -> list[StaleTrigger]:
    """Triggers by id, from behind `after`."""
    page = _SELECTED.where(trigger.c.id > after).order_by(trigger.c.id).limit(limit)
    return _stale(conn, reading(page, trigger, "PRIMARY"))


def lock_unchanged(conn: sa.Connection, stale: Sequence[StaleTrigger]) -> list[StaleTrigger]:
    """Those that were not planned or edited since they were read, locked in order of ids."""
    rows = conn.execute(
        sa.select(trigger.c.id, trigger.c.version, trigger.c.next_fire_at)
        .where(trigger.c.id.in_([each.trigger.id for each in stale]))
        .order_by(trigger.c.id)
        .with_for_update()
    )
    unchanged = {(row.id, row.version, row.next_fire_at) for row in rows}
    return [
        each
        for each in stale
        if (each.trigger.id, each.trigger.version, each.trigger.next_fire_at) in unchanged
    ]


def take_back_fires(
    conn: sa.Connection, trigger_ids: Iterable[int], *, after: int
) -> dict[int, int]:
    """Delete fires that were planned ahead for instants after `after`; their number by trigger.

    The triggers must be locked.
    """
    ahead = sa.and_(run.c.trigger_id.in_(sorted(trigger_ids)), run.c.scheduled_at > after, _AHEAD)
    counted = conn.execute(
        sa.select(run.c.trigger_id, sa.func.count().label("fires"))
        .where(ahead)
        .group_by(run.c.trigger_id)
    )
    found = {row.trigger_id: int(row.fires) for row in counted}
    if found:
        delete_queued(conn, sa.and_(ahead, run.c.trigger_id.in_(sorted(found))))
    return found


def last_fires(conn: sa.Connection, trigger_ids: Iterable[int]) -> dict[int, int]:
    """By trigger, the nominal instant of its newest run; one index look-up each."""
    newest = (
        sa.select(sa.func.max(run.c.scheduled_at))
        .where(run.c.trigger_id == trigger.c.id)
        .scalar_subquery()
    )
    rows = conn.execute(
        sa.select(trigger.c.id, newest.label("at")).where(trigger.c.id.in_(sorted(trigger_ids)))
    )
    return {row.id: row.at for row in rows if row.at is not None}


def begin_anew(conn: sa.Connection, since: Mapping[int, int], *, now: int) -> None:
    """Keep how triggers stood until now, before they are written as they go on.

    Args:
        since: by trigger, after which instant it is planned from now on.
    """
    begin_periods(conn, since, now=now)


def write_refreshed(conn: sa.Connection, refreshed: Sequence[RefreshedTrigger]) -> None:
    """Write how triggers stand; plans made from what they were become void.

    Raises:
        Repeat: one of them was changed meanwhile; nothing may be committed.
    """
    rows = [
        {
            "id": each.trigger_id,
            "version": each.version + 1,
            "next_fire_at": each.next_fire_at,
            "last_fire_at": each.last_fire_at,
            "fires": each.fires,
            "calendar_version": each.calendar_version,
            "state": each.state.value,
            "reason": each.reason,
        }
        for each in refreshed
    ]
    written = update_rows(
        conn,
        trigger,
        rows,
        match=("id",),
        values=(
            "version",
            "next_fire_at",
            "last_fire_at",
            "fires",
            "calendar_version",
            "state",
            "reason",
        ),
        where="t.version = b.version - 1",
        reads=("version",),
    )
    if written != len(rows):
        raise Repeat(f"{len(rows) - written} triggers had changed")
    broken = [each for each in refreshed if each.state is TriggerState.ERROR]
    if broken:
        now = now_ms(conn)
        add_signals(
            conn,
            [
                AlarmSignal(
                    kind=AlarmKind.TRIGGER_ERROR,
                    subject_id=each.trigger_id,
                    number=each.version + 1,
                    at=now,
                    text=each.reason,
                )
                for each in broken
            ],
        )


# --- zone data -------------------------------------------------------------------------------


def zone_data(conn: sa.Connection) -> str | None:
    """The version of the zone data that all triggers were computed with; None: not noted yet."""
    named = sa.select(setting.c.value).where(setting.c.name == TZDATA)
    return conn.execute(named).scalar_one_or_none()


def note_zone_data(conn: sa.Connection, version: str) -> None:
    """From now on all triggers count as computed with this version."""
    noted = conn.execute(sa.update(setting).where(setting.c.name == TZDATA).values(value=version))
    if noted.rowcount == 0:
        # A race between two admins ends in a duplicate key; the loser's transaction is repeated.
        conn.execute(sa.insert(setting).values(name=TZDATA, value=version))


def _stale(conn: sa.Connection, statement: sa.Select[Any]) -> list[StaleTrigger]:
    return [
        StaleTrigger(
            trigger=trigger_from_row(row),
            saved_at=row.created_at,
            job_paused=bool(row.job_paused),
        )
        for row in conn.execute(statement)
    ]
