"""People and their grants: rows in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.user import Role
from tickwheel_admin.store.tables import grant, user


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUser:
    """A row of `user`."""

    id: int
    name: str
    password_hash: str
    must_change_password: bool
    disabled: bool
    created_at: int


def has_users(conn: sa.Connection) -> bool:
    return conn.execute(sa.select(user.c.id).limit(1)).first() is not None


def get_user(conn: sa.Connection, user_id: int) -> StoredUser | None:
    return _one(conn, user.c.id == user_id)


def find_user(conn: sa.Connection, name: str) -> StoredUser | None:
    return _one(conn, user.c.name == name)


def list_users(conn: sa.Connection, *, limit: int = 1_000) -> list[StoredUser]:
    """By name."""
    rows = conn.execute(sa.select(user).order_by(user.c.name).limit(limit))
    return [_user_from_row(row) for row in rows]


def grants_of(conn: sa.Connection, user_id: int) -> Mapping[int, Role]:
    """Executor id (0: all) → role."""
    rows = conn.execute(
        sa.select(grant.c.executor_id, grant.c.role).where(grant.c.user_id == user_id)
    )
    return {executor_id: Role(role) for executor_id, role in rows}


def insert_user(conn: sa.Connection, new: StoredUser, *, grants: Mapping[int, Role]) -> None:
    conn.execute(
        sa.insert(user).values(
            id=new.id,
            name=new.name,
            password_hash=new.password_hash,
            must_change_password=new.must_change_password,
            disabled=new.disabled,
            preferences="{}",
            created_at=new.created_at,
        )
    )
    for executor_id, role in grants.items():
        conn.execute(
            sa.insert(grant).values(
                user_id=new.id, executor_id=executor_id, role=role.value, scripts=False
            )
        )


def set_password(
    conn: sa.Connection, user_id: int, *, password_hash: str, must_change_password: bool
) -> None:
    conn.execute(
        sa.update(user)
        .where(user.c.id == user_id)
        .values(password_hash=password_hash, must_change_password=must_change_password)
    )


def replace_hash(conn: sa.Connection, user_id: int, *, old: str, new: str) -> None:
    """Store the same password under newer parameters, unless it was changed meanwhile."""
    conn.execute(
        sa.update(user)
        .where(user.c.id == user_id, user.c.password_hash == old)
        .values(password_hash=new)
    )


def set_disabled(conn: sa.Connection, user_id: int, *, disabled: bool) -> None:
    conn.execute(sa.update(user).where(user.c.id == user_id).values(disabled=disabled))


def _one(conn: sa.Connection, condition: sa.ColumnElement[bool]) -> StoredUser | None:
    row = conn.execute(sa.select(user).where(condition)).first()
    return None if row is None else _user_from_row(row)


def _user_from_row(row: sa.Row[Any]) -> StoredUser:
    return StoredUser(
        id=row.id,
        name=row.name,
        password_hash=row.password_hash,
        must_change_password=bool(row.must_change_password),
        disabled=bool(row.disabled),
        created_at=row.created_at,
    )
