"""The person behind a cookie or a token, and transactions that begin and end sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import NotLoggedIn
from tickwheel_admin.domain.users.user import Actor, grants_to_actor
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.system.audit import find_audit, write_audit
from tickwheel_admin.store.users import api_tokens, sessions, users
from tickwheel_admin.store.users.api_tokens import StoredApiToken
from tickwheel_admin.store.users.grants import grants_of
from tickwheel_admin.store.users.sessions import IDLE_MS, StoredSession
from tickwheel_admin.store.users.users import StoredUser

LOGIN_FAILED = "The name or the password is wrong."


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session that holds."""

    actor: Actor
    csrf_token: str


def actor_of_user(conn: sa.Connection, user: StoredUser, *, address: str = "") -> Actor:
    """A person with what they may do now."""
    grants, scripts = grants_to_actor(grants_of(conn, user.id))
    return Actor(
        user_id=user.id,
        name=user.name,
        grants=grants,
        scripts=scripts,
        address=address,
        must_change_password=user.must_change_password,
    )


def begin_session(
    conn: sa.Connection,
    user: StoredUser,
    *,
    cookie_hash: str,
    csrf_token: str,
    replaces: str | None,
    address: str,
    user_agent: str,
    audit_id: int,
    detail: Mapping[str, object] | None = None,
) -> bool:
    """Insert the session; whether the person must change the password first.

    Args:
        user: as they were found when what they came with was checked.
        replaces: hash of the session that ends.
        detail: what the audit is told about the way they came in.

    Raises:
        NotLoggedIn: login.failed; shut out or given another password meanwhile.
    """
    now = now_ms(conn)
    if not users.note_login(conn, user, now=now):
        raise NotLoggedIn("login.failed", LOGIN_FAILED)
    if find_audit(conn, audit_id) is not None:
        return user.must_change_password
    if replaces is not None:
        sessions.delete_session(conn, replaces)
    sessions.delete_idle_sessions(conn, seen_before=now - IDLE_MS)
    sessions.insert_session(
        conn,
        StoredSession(
            id_hash=cookie_hash,
            user_id=user.id,
            csrf_token=csrf_token,
            created_at=now,
            seen_at=now,
            address=address,
            user_agent=user_agent,
        ),
    )
    write_audit(
        conn,
        id=audit_id,
        actor=actor_of_user(conn, user, address=address),
        action="user.logged_in",
        executor_id=None,
        object_id=user.id,
        detail=detail or {},
    )
    return user.must_change_password


def find_session(
    conn: sa.Connection, cookie_hash: str, address: str
) -> tuple[SessionView, StoredSession, int] | None:
    """The session that holds behind a cookie, and the time now."""
    stored = sessions.get_session(conn, cookie_hash)
    if stored is None:
        return None
    now = now_ms(conn)
    user = users.get_user(conn, stored.user_id) if stored.holds(now) else None
    if user is None or user.disabled:
        return None
    actor = replace(actor_of_user(conn, user, address=address), session=cookie_hash)
    return SessionView(actor=actor, csrf_token=stored.csrf_token), stored, now


def find_sessions(
    conn: sa.Connection, asked: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], SessionView]:
    """Those of the sessions behind (hash of the cookie, address) that hold."""
    found = {each: find_session(conn, *each) for each in asked}
    return {each: session[0] for each, session in found.items() if session is not None}


def find_token_actor(
    conn: sa.Connection, token_hash: str, address: str
) -> tuple[Actor, StoredApiToken, int] | None:
    """The person that a token acts for, limited to its scope, and the time now."""
    token = api_tokens.find_api_token(conn, token_hash)
    if token is None:
        return None
    now = now_ms(conn)
    if token.expires_at is not None and token.expires_at <= now:
        return None
    user = users.get_user(conn, token.user_id)
    if user is None or user.disabled:
        return None
    actor = actor_of_user(conn, user, address=address).narrowed(token.role, token.executors)
    # Programs have no password to change: somebody who only owns tokens never logs in.
    return replace(actor, token_id=token.id, must_change_password=False), token, now


def change_password(
    conn: sa.Connection,
    user: StoredUser,
    actor: Actor,
    *,
    password_hash: str,
    old_session: str,
    new_session: str,
    csrf_token: str,
    audit_id: int,
) -> None:
    """Give a person the password of their choice; every session and token ends but this one.

    Raises:
        NotLoggedIn: the session ended, or somebody else changed the password, meanwhile.
    """
    if find_audit(conn, audit_id) is not None:
        return
    now = now_ms(conn)
    changed = users.change_password(conn, user, password_hash=password_hash)
    before = sessions.get_session(conn, old_session)
    if not changed or before is None or before.user_id != user.id:
        raise NotLoggedIn("login.required", "Your session has ended; log in again.")
    sessions.delete_sessions_of(conn, user.id)
    tokens = api_tokens.delete_api_tokens_of(conn, user.id)
    sessions.insert_session(
        conn,
        replace(before, id_hash=new_session, csrf_token=csrf_token, created_at=now, seen_at=now),
    )
    write_audit(
        conn,
        id=audit_id,
        actor=actor,
        action="user.password_changed",
        executor_id=None,
        object_id=user.id,
        detail={"api_tokens_revoked": tokens},
    )
