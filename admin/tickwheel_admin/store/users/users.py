"""People: rows in, values out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.edit_locks import lock_edits
from tickwheel_admin.store.database.tables import grant, saved_view, user

CHANGES = "people_changes"  # name of the setting that counts how often rights were changed


# Asked for with every request; preferences are not.
_COLUMNS = [column for column in user.columns if column is not user.c.preferences]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUser:
    """A row of `user`, without its preferences."""

    id: int
    name: str
    password_hash: str | None  # None: nobody can log in with a password
    must_change_password: bool
    disabled: bool
    oidc_key: str | None = None  # None: never logged in at the OpenID provider
    created_at: int
    logged_in_at: int | None = None


def lock_users(conn: sa.Connection) -> None:
    """Let changes of people's rights go one after the other; taken before all other locks.

    So each of two administrators who take the other's role sees what the other one did.
    """
    lock_edits(conn, CHANGES)


def has_users(conn: sa.Connection) -> bool:
    return conn.execute(sa.select(user.c.id).limit(1)).first() is not None


def get_user(conn: sa.Connection, user_id: int) -> StoredUser | None:
    return _one(conn, user.c.id == user_id)


def find_user(conn: sa.Connection, name: str) -> StoredUser | None:
    return _one(conn, user.c.name == name)


def find_oidc_user(conn: sa.Connection, oidc_key: str) -> StoredUser | None:
    """The user who logged in with this issuer and subject before."""
    user_id = conn.execute(sa.select(user.c.id).where(user.c.oidc_key == oidc_key)).scalar()
    return None if user_id is None else get_user(conn, user_id)


def list_users(
    conn: sa.Connection, *, after: str = "", part: str = "", limit: int
) -> list[StoredUser]:
    """By name.

    Args:
        after: names beyond this one.
        part: what the name has in it.
    """
    wanted = sa.select(*_COLUMNS).where(user.c.name > after).order_by(user.c.name).limit(limit)
    if part:
        wanted = wanted.where(user.c.name.contains(part, autoescape=True))
    return [_user_from_row(row) for row in conn.execute(wanted)]


def insert_user(conn: sa.Connection, new: StoredUser) -> None:
    conn.execute(
        sa.insert(user).values(
            id=new.id,
            name=new.name,
            password_hash=new.password_hash,
            must_change_password=new.must_change_password,
            disabled=new.disabled,
            oidc_key=new.oidc_key,
            preferences="{}",
            created_at=new.created_at,
            logged_in_at=new.logged_in_at,
        )
    )


def note_login(conn: sa.Connection, known: StoredUser, *, now: int) -> bool:
    """Whether they may still come in as they were found: not shut out, the same password.

    A write, so that a change of the password at the same time is over or waits for this one.
    """
    return bool(
        conn.execute(
            sa.update(user)
            .where(
                user.c.id == known.id,
                user.c.disabled == sa.false(),
                _same(known.password_hash),
            )
            .values(logged_in_at=now)
        ).rowcount
    )


def set_password(
    conn: sa.Connection, user_id: int, *, password_hash: str, must_change_password: bool
) -> None:
    conn.execute(
        sa.update(user)
        .where(user.c.id == user_id)
        .values(password_hash=password_hash, must_change_password=must_change_password)
    )


def change_password(conn: sa.Connection, known: StoredUser, *, password_hash: str) -> bool:
    """Give them a password of their own; False when it was changed since it was checked."""
    return bool(
        conn.execute(
            sa.update(user)
            .where(user.c.id == known.id, _same(known.password_hash))
            .values(password_hash=password_hash, must_change_password=False)
        ).rowcount
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


def delete_user(conn: sa.Connection, user_id: int) -> None:
    """Delete a person with what they may do and the views they kept."""
    conn.execute(sa.delete(grant).where(grant.c.user_id == user_id))
    conn.execute(sa.delete(saved_view).where(saved_view.c.user_id == user_id))
    conn.execute(sa.delete(user).where(user.c.id == user_id))


def get_preferences(conn: sa.Connection, user_id: int) -> str | None:
    """JSON of `domain.preferences`; None when there is no such person."""
    return conn.execute(
        sa.select(user.c.preferences).where(user.c.id == user_id)
    ).scalar_one_or_none()


def set_preferences(conn: sa.Connection, user_id: int, preferences: str) -> None:
    conn.execute(sa.update(user).where(user.c.id == user_id).values(preferences=preferences))


def _same(password_hash: str | None) -> sa.ColumnElement[bool]:
    if password_hash is None:
        return user.c.password_hash.is_(None)
    return user.c.password_hash == password_hash


def _one(conn: sa.Connection, condition: sa.ColumnElement[bool]) -> StoredUser | None:
    row = conn.execute(sa.select(*_COLUMNS).where(condition)).first()
    return None if row is None else _user_from_row(row)


def _user_from_row(row: sa.Row[Any]) -> StoredUser:
    return StoredUser(
        id=row.id,
        name=row.name,
        password_hash=row.password_hash,
        must_change_password=bool(row.must_change_password),
        disabled=bool(row.disabled),
        oidc_key=row.oidc_key,
        created_at=row.created_at,
        logged_in_at=row.logged_in_at,
    )
