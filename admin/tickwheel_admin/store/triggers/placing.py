"""Triggers whose start in a window the engine chooses: whose turn it is, and what was chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import Trigger
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import trigger
from tickwheel_admin.store.self_audit.periods import begin_periods
from tickwheel_admin.store.triggers.triggers import StoredTrigger, stored_trigger

MAX_AT_ONCE = 100


class ToPlace(NamedTuple):
    """One whose turn it is."""

    trigger_id: int
    executor_id: int
    place_at: int  # as it was read


def triggers_to_place(conn: sa.Connection) -> list[ToPlace]:
    """Those whose turn it is of the executor that waits longest, at most MAX_AT_ONCE.

    One index look-up when there are none.
    """
    statement = (
        sa.select(trigger.c.id, trigger.c.executor_id, trigger.c.place_at)
        .where(trigger.c.place_at <= now_ms(conn))
        .order_by(trigger.c.place_at)
        .limit(MAX_AT_ONCE)
    )
    rows = conn.execute(reading(statement, trigger, "ix_trigger_to_place")).all()
    return [
        ToPlace(row.id, row.executor_id, row.place_at)
        for row in rows
        if row.executor_id == rows[0].executor_id
    ]


def claim_placing(conn: sa.Connection, found: Sequence[ToPlace], *, for_ms: int) -> int | None:
    """Take them, so that no other admin looks at them for so long.

    Returns:
        Their new `place_at`, by which whoever took them knows them; None: another admin was faster.
    """
    seen = {each.trigger_id: each.place_at for each in found}
    rows = conn.execute(
        sa.select(trigger.c.id, trigger.c.place_at)
        .where(trigger.c.id.in_(sorted(seen)))
        .order_by(trigger.c.id)
        .with_for_update()
    )
    if {row.id: row.place_at for row in rows} != seen:
        return None  # one was deleted, or they are taken
    until = now_ms(conn) + for_ms
    look_again(conn, seen, at=until)
    return until


def look_again(conn: sa.Connection, trigger_ids: Collection[int], *, at: int) -> None:
    """When it is their turn the next time, UTC epoch ms; without taking any plan back."""
    if trigger_ids:
        which = trigger.c.id.in_(sorted(trigger_ids))
        conn.execute(sa.update(trigger).where(which).values(place_at=at))


def lock_claimed(
    conn: sa.Connection, trigger_ids: Collection[int], *, place_at: int
) -> list[StoredTrigger]:
    """Those that are still claimed, locked in order of ids; planning and edits of them wait."""
    rows = conn.execute(
        sa.select(trigger)
        .where(trigger.c.id.in_(sorted(trigger_ids)))
        .order_by(trigger.c.id)
        .with_for_update()
    )
    return [stored_trigger(row) for row in rows if row.place_at == place_at]


class PlacedTrigger(NamedTuple):
    """One that gets another start."""

    before: Trigger
    spec: TriggerSpec
    next_fire_at: int | None


def write_placed(conn: sa.Connection, placed: Sequence[PlacedTrigger], *, now: int) -> None:
    """Let them go on with another start; they must be locked, and nothing may be due.

    How they stood until now is kept, for the self-audit.
    """
    since: Mapping[int, int] = {
        each.before.id: max(now, each.before.last_fire_at or 0) for each in placed
    }
    begin_periods(conn, since, now=now)
    for each in placed:
        conn.execute(
            sa.update(trigger)
            .where(trigger.c.id == each.before.id)
            .values(
                spec=spec_to_json(each.spec),
                next_fire_at=each.next_fire_at,
                version=each.before.version + 1,
            )
        )
