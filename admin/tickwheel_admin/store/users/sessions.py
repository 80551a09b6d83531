"""Sessions of people's browsers; the cookie itself is never stored, only its hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import session

IDLE_MS = 30 * 60_000  # a session ends so long after the person's last request
ABSOLUTE_MS = 12 * 3_600_000  # and so long after login in any case
MAX_LISTED = 200  # sessions of one person


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

    def holds(self, now: int) -> bool:
        """Whether it can still be used."""
        return now - self.seen_at < IDLE_MS and now - self.created_at < ABSOLUTE_MS


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
    return None if row is None else _session_from_row(row)


def list_sessions(conn: sa.Connection, user_id: int, *, now: int) -> list[StoredSession]:
    """A person's sessions that hold, the one used last first."""
    rows = conn.execute(
        sa.select(session)
        .where(
            session.c.user_id == user_id,
            session.c.seen_at > now - IDLE_MS,
            session.c.created_at > now - ABSOLUTE_MS,
        )
        .order_by(session.c.seen_at.desc(), session.c.id_hash)
        .limit(MAX_LISTED)
    )
    return [_session_from_row(row) for row in rows]


def touch_session(conn: sa.Connection, id_hash: str, *, now: int) -> None:
    conn.execute(
        sa.update(session)
        .where(session.c.id_hash == id_hash, session.c.seen_at < now)
        .values(seen_at=now)
    )


def hold_session(conn: sa.Connection, id_hash: str, *, now: int) -> bool:
    """Whether the session is still there, and stays until the transaction ends.

    A write, as every lock that protects a decision: a transaction that ends the session waits.
    """
    return bool(
        conn.execute(
            sa.update(session).where(session.c.id_hash == id_hash).values(seen_at=now)
        ).rowcount
    )


def delete_session(conn: sa.Connection, id_hash: str) -> None:
    conn.execute(sa.delete(session).where(session.c.id_hash == id_hash))


def delete_sessions_of(
    conn: sa.Connection, user_id: int, *, but: str | None = None, key: str | None = None
) -> int:
    """Log a person out everywhere; returns how many sessions there were.

    Args:
        but: hash of the one session that stays.
        key: with what the hash begins of those that go.
    """
    going = sa.delete(session).where(session.c.user_id == user_id)
    if but is not None:
        going = going.where(session.c.id_hash != but)
    if key is not None:
        going = going.where(session.c.id_hash.startswith(key, autoescape=True))
    return conn.execute(going).rowcount


def delete_idle_sessions(conn: sa.Connection, *, seen_before: int, limit: int = 100) -> None:
    """Forget sessions that can never be used again."""
    idle = conn.execute(
        sa.select(session.c.id_hash).where(session.c.seen_at < seen_before).limit(limit)
    )
    hashes = list(idle.scalars())
    if hashes:
        conn.execute(sa.delete(session).where(session.c.id_hash.in_(hashes)))


def _session_from_row(row: sa.Row[Any]) -> StoredSession:
    return StoredSession(
        id_hash=row.id_hash,
        user_id=row.user_id,
        csrf_token=row.csrf_token,
        created_at=row.created_at,
        seen_at=row.seen_at,
        address=row.address,
        user_agent=row.user_agent,
    )
