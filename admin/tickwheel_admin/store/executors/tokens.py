"""Tokens of executors: the current one, and the one before it while their overlap lasts."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from tickwheel_admin.store.database.clock import database_now
from tickwheel_admin.store.database.tables import ALIVE, executor


def executor_of_token(conn: sa.Connection, token_hash: str) -> tuple[int, str] | None:
    """(id, name) of the executor that the token belongs to."""
    return executors_of_tokens(conn, [token_hash]).get(token_hash)


def executors_of_tokens(
    conn: sa.Connection, token_hashes: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """(id, name) of the executors that tokens belong to, by token; those that open nothing miss."""
    hashes = sorted(set(token_hashes))
    if not hashes:
        return {}
    current, old = _opens(hashes)
    columns = (executor.c.id, executor.c.name)
    found = conn.execute(sa.select(executor.c.token_hash.label("hash"), *columns).where(current))
    opened = {row.hash: (row.id, row.name) for row in found}
    if len(opened) < len(hashes):
        found = conn.execute(
            sa.select(executor.c.old_token_hash.label("hash"), *columns).where(old)
        )
        opened = {row.hash: (row.id, row.name) for row in found} | opened
    return opened


def _opens(token_hashes: list[str]) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Whose current token is among these; and whose token before it, while that still works."""
    alive = executor.c.deleted_at == ALIVE
    return (
        sa.and_(executor.c.token_hash.in_(token_hashes), alive),
        sa.and_(
            executor.c.old_token_hash.in_(token_hashes),
            executor.c.old_token_until > database_now(),
            alive,
        ),
    )


def replace_token(
    conn: sa.Connection, executor_id: int, *, token_hash: str, old_until: int | None
) -> None:
    """Let the executor have another token.

    Args:
        old_until: until when the one that is replaced works as well; None: from the commit on it
            opens nothing. One that was replaced before opens nothing in any case.
    """
    of_it = executor.c.id == executor_id
    # Two statements, for MySQL would read the new value where the old one is meant.
    old = None if old_until is None else executor.c.token_hash
    conn.execute(
        sa.update(executor).where(of_it).values(old_token_hash=old, old_token_until=old_until)
    )
    conn.execute(sa.update(executor).where(of_it).values(token_hash=token_hash))


def revoke_old_token(conn: sa.Connection, executor_id: int) -> None:
    """From the commit on only the current token works."""
    conn.execute(
        sa.update(executor)
        .where(executor.c.id == executor_id)
        .values(old_token_hash=None, old_token_until=None)
    )
