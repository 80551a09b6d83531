"""Bearer tokens for the API; only their hashes are stored."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.tables import api_token


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredApiToken:
    """A row of `api_token`."""

    id: int
    user_id: int  # whose grants it acts with
    name: str  # unique per person: "deploy pipeline"
    token_hash: str  # SHA-256 in hex
    created_at: int
    expires_at: int | None


def insert_api_token(conn: sa.Connection, new: StoredApiToken) -> None:
    conn.execute(
        sa.insert(api_token).values(
            id=new.id,
            user_id=new.user_id,
            name=new.name,
            token_hash=new.token_hash,
            created_at=new.created_at,
            expires_at=new.expires_at,
        )
    )


def find_api_token(conn: sa.Connection, token_hash: str) -> StoredApiToken | None:
    row = conn.execute(sa.select(api_token).where(api_token.c.token_hash == token_hash)).first()
    if row is None:
        return None
    return StoredApiToken(
        id=row.id,
        user_id=row.user_id,
        name=row.name,
        token_hash=row.token_hash,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )


def has_api_token_named(conn: sa.Connection, user_id: int, name: str) -> bool:
    found = conn.execute(
        sa.select(api_token.c.id).where(api_token.c.user_id == user_id, api_token.c.name == name)
    )
    return found.first() is not None


def delete_api_tokens_of(conn: sa.Connection, user_id: int) -> int:
    """Revoke every token of a person; returns how many there were."""
    return conn.execute(sa.delete(api_token).where(api_token.c.user_id == user_id)).rowcount
