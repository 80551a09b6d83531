"""Secrets of executors, as they are stored: encrypted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import secret

USED_TO_MS = 3_600_000  # how exactly the last use is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """A secret with everything that is kept of it."""

    executor_id: int
    name: str
    ciphertext: str = field(repr=False)
    version: int  # from 1; rises each time that a value is set
    created_at: int
    created_by: str
    updated_at: int  # when its value was set
    updated_by: str
    last_used_at: int | None  # to the hour; None: no run was given it yet


def read_secrets(
    conn: sa.Connection, executor_id: int, names: Collection[str] | None = None
) -> list[StoredSecret]:
    """Those of an executor, by name; None: all."""
    wanted = sa.select(secret).where(secret.c.executor_id == executor_id).order_by(secret.c.name)
    if names is not None:
        wanted = wanted.where(secret.c.name.in_(sorted(names)))
    return [_secret(row) for row in conn.execute(wanted)]


def secret_names_of(conn: sa.Connection, executor_ids: Collection[int]) -> dict[int, set[str]]:
    """The names that there are, by executor."""
    rows = conn.execute(
        sa.select(secret.c.executor_id, secret.c.name).where(
            secret.c.executor_id.in_(sorted(executor_ids))
        )
    )
    found: dict[int, set[str]] = {each: set() for each in executor_ids}
    for row in rows:
        found[row.executor_id].add(row.name)
    return found


def add_secret(
    conn: sa.Connection, executor_id: int, name: str, *, ciphertext: str, by: str, now: int
) -> None:
    """Insert a new one."""
    conn.execute(
        sa.insert(secret).values(
            executor_id=executor_id,
            name=name,
            ciphertext=ciphertext,
            version=1,
            created_at=now,
            created_by=by[:100],
            updated_at=now,
            updated_by=by[:100],
        )
    )


def replace_secret(
    conn: sa.Connection, executor_id: int, name: str, *, ciphertext: str, by: str, now: int
) -> None:
    """Set another value."""
    conn.execute(
        sa.update(secret)
        .where(secret.c.executor_id == executor_id, secret.c.name == name)
        .values(
            ciphertext=ciphertext,
            version=secret.c.version + 1,
            updated_at=now,
            updated_by=by[:100],
        )
    )


def encrypt_secret_anew(conn: sa.Connection, old: StoredSecret, *, ciphertext: str) -> bool:
    """The same value under another key; False: another value was set meanwhile."""
    changed = conn.execute(
        sa.update(secret)
        .where(
            secret.c.executor_id == old.executor_id,
            secret.c.name == old.name,
            secret.c.version == old.version,
        )
        .values(ciphertext=ciphertext)
    )
    return changed.rowcount == 1


def page_secrets(conn: sa.Connection, *, after: tuple[int, str], limit: int) -> list[StoredSecret]:
    """Of all executors, in the order of their keys, from behind one on."""
    executor_id, name = after
    rows = conn.execute(
        sa.select(secret)
        .where(
            secret.c.executor_id >= executor_id,
            sa.or_(secret.c.executor_id > executor_id, secret.c.name > name),
        )
        .order_by(secret.c.executor_id, secret.c.name)
        .limit(limit)
    )
    return [_secret(row) for row in rows]


def note_secret_use(
    conn: sa.Connection, executor_id: int, names: Collection[str], *, now: int
) -> None:
    """Runs were given these."""
    conn.execute(
        sa.update(secret)
        .where(secret.c.executor_id == executor_id, secret.c.name.in_(sorted(names)))
        .values(last_used_at=now)
    )


def delete_secret(conn: sa.Connection, executor_id: int, name: str) -> None:
    """Remove one."""
    conn.execute(
        sa.delete(secret).where(secret.c.executor_id == executor_id, secret.c.name == name)
    )


def delete_secrets(conn: sa.Connection, executor_id: int) -> None:
    """Remove all of an executor."""
    conn.execute(sa.delete(secret).where(secret.c.executor_id == executor_id))


def _secret(row: Any) -> StoredSecret:
    return StoredSecret(
        executor_id=row.executor_id,
        name=row.name,
        ciphertext=row.ciphertext,
        version=row.version,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
        last_used_at=row.last_used_at,
    )
