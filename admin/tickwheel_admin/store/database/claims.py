"""Work that one admin at a time does: who does it, and until when the others leave it alone."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import setting


def claim_work(conn: sa.Connection, name: str, admin_id: int, *, now: int, for_ms: int) -> bool:
    """Whether this admin does it for a while.

    Args:
        name: of the setting that says which admin does it.
    """
    value = conn.execute(
        sa.select(setting.c.value).where(setting.c.name == name)
    ).scalar_one_or_none()
    mine = f"{admin_id}:{now + for_ms}"
    if value is None:
        # Of two at once, the loser meets a duplicate key, and its transaction is repeated.
        conn.execute(sa.insert(setting).values(name=name, value=mine))
        return True
    owner, _, until = value.partition(":")
    # A time far ahead is one of a clock that was set back since.
    if int(owner) != admin_id and now < int(until) <= now + 2 * for_ms:
        return False
    taken = sa.update(setting).where(setting.c.name == name, setting.c.value == value)
    return conn.execute(taken.values(value=mine)).rowcount == 1
