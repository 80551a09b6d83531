"""Locks that let edits of one kind go one after the other, on every database."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import setting


def lock_edits(conn: sa.Connection, name: str) -> None:
    """Wait for whoever holds the lock of this name, and hold it until the transaction ends.

    A count of the edits in a setting: the lock is also a write of a new value, so that it holds on
    clusters whose locks are local.
    """
    named = setting.c.name == name
    count = conn.execute(sa.select(setting.c.value).where(named).with_for_update()).scalar()
    if count is None:
        # A race between two admins ends in a duplicate key; the loser's transaction is repeated.
        conn.execute(sa.insert(setting).values(name=name, value="1"))
    else:
        conn.execute(sa.update(setting).where(named).values(value=str(int(count) + 1)))
