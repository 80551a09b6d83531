"""Bearer tokens for the API; only their hashes are stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.tables import api_token, user


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredApiToken:
    """A row of `api_token`."""

    id: int
    user_id: int  # whose grants it acts with
    name: str  # unique per person: "deploy pipeline"
    token_hash: str  # SHA-256 in hex
    role: Role | None  # at most this one; None: as the person
    executors: frozenset[int] | None  # only on these; None: as the person
    created_at: int
    expires_at: int | None
    used_at: int | None  # last request, to about a minute


def insert_api_token(conn: sa.Connection, new: StoredApiToken) -> None:
    conn.execute(
        sa.insert(api_token).values(
            id=new.id,
            user_id=new.user_id,
            name=new.name,
            token_hash=new.token_hash,
            role=None if new.role is None else new.role.value,
            executors=None if new.executors is None else json.dumps(sorted(new.executors)),
            created_at=new.created_at,
            expires_at=new.expires_at,
            used_at=new.used_at,
        )
    )


def find_api_token(conn: sa.Connection, token_hash: str) -> StoredApiToken | None:
    return _one(conn, api_token.c.token_hash == token_hash)


def get_api_token(conn: sa.Connection, token_id: int) -> StoredApiToken | None:
    return _one(conn, api_token.c.id == token_id)


def list_api_tokens(conn: sa.Connection, user_id: int) -> list[StoredApiToken]:
    """A person's tokens, by name."""
    rows = conn.execute(
        sa.select(api_token).where(api_token.c.user_id == user_id).order_by(api_token.c.name)
    )
    return [_token_from_row(row) for row in rows]


def page_api_tokens(
    conn: sa.Connection, *, before: int | None, limit: int
) -> list[tuple[StoredApiToken, str]]:
    """Everybody's tokens with their people's names, the newest ids first."""
    wanted = sa.select(api_token, user.c.name.label("user_name")).join(
        user, user.c.id == api_token.c.user_id
    )
    if before is not None:
        wanted = wanted.where(api_token.c.id < before)
    rows = conn.execute(wanted.order_by(api_token.c.id.desc()).limit(limit))
    return [(_token_from_row(row), row.user_name) for row in rows]


def touch_api_token(conn: sa.Connection, token_id: int, *, now: int, every_ms: int) -> None:
    """Note that it was used, unless that was noted less than `every_ms` ago."""
    conn.execute(
        sa.update(api_token)
        .where(
            api_token.c.id == token_id,
            sa.or_(api_token.c.used_at.is_(None), api_token.c.used_at <= now - every_ms),
        )
        .values(used_at=now)
    )


def delete_api_token(conn: sa.Connection, token_id: int) -> None:
    conn.execute(sa.delete(api_token).where(api_token.c.id == token_id))


def delete_api_tokens_of(conn: sa.Connection, user_id: int) -> int:
    """Revoke every token of a person; returns how many there were."""
    return conn.execute(sa.delete(api_token).where(api_token.c.user_id == user_id)).rowcount


def remove_expired_tokens(conn: sa.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete tokens that ended longer ago than that; returns how many."""
    ids = list(
        conn.execute(
            sa.select(api_token.c.id)
            .where(api_token.c.expires_at < now_ms(conn) - older_than_ms)
            .limit(limit)
        ).scalars()
    )
    if ids:
        conn.execute(sa.delete(api_token).where(api_token.c.id.in_(ids)))
    return len(ids)


def _one(conn: sa.Connection, condition: sa.ColumnElement[bool]) -> StoredApiToken | None:
    row = conn.execute(sa.select(api_token).where(condition)).first()
    return None if row is None else _token_from_row(row)


def _token_from_row(row: sa.Row[Any]) -> StoredApiToken:
    return StoredApiToken(
        id=row.id,
        user_id=row.user_id,
        name=row.name,
        token_hash=row.token_hash,
        role=None if row.role is None else Role(row.role),
        executors=None if row.executors is None else frozenset(json.loads(row.executors)),
        created_at=row.created_at,
        expires_at=row.expires_at,
        used_at=row.used_at,
    )
