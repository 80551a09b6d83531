"""Locks that serialize edits of one kind, on every database."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import setting


def lock_edits(conn: sa.Connection, name: str) -> None:
    """Wait for the lock of this name, and hold it until the transaction ends.

    It is a setting that counts the edits: locking it also writes a new value, so that the lock
    holds on clusters whose row locks are local.
    """
    named = setting.c.name == name
    count = conn.execute(sa.select(setting.c.value).where(named).with_for_update()).scalar()
    if count is None:
        # A race between two admins ends in a duplicate key; the loser's transaction is repeated.
        conn.execute(sa.insert(setting).values(name=name, value="1"))
    else:
        conn.execute(sa.update(setting).where(named).values(value=str(int(count) + 1)))
