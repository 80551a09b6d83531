"""Sessions of people's browsers; the cookie itself is never stored, only its hash."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.tables import session


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A row of `session`."""

    id_hash: str
    user_id: int
    csrf_token: str
    created_at: int
    seen_at: int  # last request by the person, to about a minute
    address: str
    user_agent: str


def insert_session(conn: sa.Connection, new: StoredSession) -> None:
    conn.execute(
        sa.insert(session).values(
            id_hash=new.id_hash,
            user_id=new.user_id,
            csrf_token=new.csrf_token,
            created_at=new.created_at,
            seen_at=new.seen_at,
            address=new.address[:100],
            user_agent=new.user_agent[:300],
        )
    )


def get_session(conn: sa.Connection, id_hash: str) -> StoredSession | None:
    row = conn.execute(sa.select(session).where(session.c.id_hash == id_hash)).first()
    if row is None:
        return None
    return StoredSession(
        id_hash=row.id_hash,
        user_id=row.user_id,
        csrf_token=row.csrf_token,
        created_at=row.created_at,
        seen_at=row.seen_at,
        address=row.address,
        user_agent=row.user_agent,
    )


def touch_session(conn: sa.Connection, id_hash: str, *, now: int) -> None:
    conn.execute(
        sa.update(session)
        .where(session.c.id_hash == id_hash, session.c.seen_at < now)
        .values(seen_at=now)
    )


def delete_session(conn: sa.Connection, id_hash: str) -> None:
    conn.execute(sa.delete(session).where(session.c.id_hash == id_hash))


def delete_sessions_of(conn: sa.Connection, user_id: int) -> None:
    """Log a person out everywhere."""
    conn.execute(sa.delete(session).where(session.c.user_id == user_id))


def delete_idle_sessions(conn: sa.Connection, *, seen_before: int, limit: int = 100) -> None:
    """Forget sessions that can never be used again."""
    idle = conn.execute(
        sa.select(session.c.id_hash).where(session.c.seen_at < seen_before).limit(limit)
    )
    hashes = list(idle.scalars())
    if hashes:
        conn.execute(sa.delete(session).where(session.c.id_hash.in_(hashes)))
