"""Identity in transactions: each function reads, decides and writes, with its audit row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, NotFound, NotLoggedIn
from tickwheel_admin.domain.user import Actor, Role
from tickwheel_admin.store import api_tokens, sessions, users
from tickwheel_admin.store.audit import find_audit, write_audit
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.sessions import StoredSession
from tickwheel_admin.store.users import StoredUser

IDLE_MS = 30 * 60_000  # a session ends so long after the person's last request
ABSOLUTE_MS = 12 * 3_600_000  # and so long after login in any case

LOGIN_FAILED = "The name or the password is wrong."


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session that holds."""

    actor: Actor
    csrf_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonItem:
    """A person in a list."""

    name: str
    roles: tuple[Role, ...]
    disabled: bool
    must_change_password: bool


def _actor(conn: sa.Connection, user: StoredUser, *, address: str) -> Actor:
    return Actor(
        user_id=user.id,
        name=user.name,
        grants=users.grants_of(conn, user.id),
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
) -> bool:
    """Insert the session; whether the person must change the password first."""
    now = now_ms(conn)
    current = users.get_user(conn, user.id)
    if current is None or current.disabled or current.password_hash != user.password_hash:
        # Disabled, or given another password, while this one was being checked.
        raise NotLoggedIn("login.failed", LOGIN_FAILED)
    if find_audit(conn, audit_id) is not None:
        return current.must_change_password
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
    actor = _actor(conn, current, address=address)
    write_audit(
        conn,
        id=audit_id,
        actor=actor,
        action="user.logged_in",
        executor_id=None,
        object_id=user.id,
        detail={},
    )
    return current.must_change_password


def find_session(
    conn: sa.Connection, cookie_hash: str, address: str
) -> tuple[SessionView, StoredSession, int] | None:
    stored = sessions.get_session(conn, cookie_hash)
    if stored is None:
        return None
    now = now_ms(conn)
    if now - stored.seen_at >= IDLE_MS or now - stored.created_at >= ABSOLUTE_MS:
        return None
    user = users.get_user(conn, stored.user_id)
    if user is None or user.disabled:
        return None
    view = SessionView(actor=_actor(conn, user, address=address), csrf_token=stored.csrf_token)
    return view, stored, now


def find_token_actor(conn: sa.Connection, token_hash: str, address: str) -> Actor | None:
    token = api_tokens.find_api_token(conn, token_hash)
    if token is None or (token.expires_at is not None and token.expires_at <= now_ms(conn)):
        return None
    user = users.get_user(conn, token.user_id)
    if user is None or user.disabled:
        return None
    # Programs have no password to change: somebody who only owns tokens never logs in.
    actor = _actor(conn, user, address=address)
    return replace(actor, token_id=token.id, must_change_password=False)


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
    if find_audit(conn, audit_id) is not None:
        return
    now = now_ms(conn)
    before = sessions.get_session(conn, old_session)
    if before is None or before.user_id != user.id:
        raise NotLoggedIn("login.required", "Your session has ended; log in again.")
    users.set_password(conn, user.id, password_hash=password_hash, must_change_password=False)
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


def create_user(
    conn: sa.Connection,
    user_id: int,
    name: str,
    *,
    password_hash: str,
    grants: dict[int, Role],
    actor: Actor,
    audit_id: int,
    only_first: bool = False,
) -> bool:
    """Whether the person was added; not when the name is taken (or, if asked, anybody exists)."""
    if find_audit(conn, audit_id) is not None:
        return True
    if users.has_users(conn) if only_first else users.find_user(conn, name) is not None:
        return False
    users.insert_user(
        conn,
        StoredUser(
            id=user_id,
            name=name,
            password_hash=password_hash,
            must_change_password=True,
            disabled=False,
            created_at=now_ms(conn),
        ),
        grants=grants,
    )
    write_audit(
        conn,
        id=audit_id,
        actor=actor,
        action="user.created",
        executor_id=None,
        object_id=user_id,
        detail={"name": name, "roles": sorted(role.value for role in grants.values())},
    )
    return True


def _known_user(conn: sa.Connection, name: str) -> StoredUser:
    user = users.find_user(conn, name.strip().lower())
    if user is None:
        raise NotFound("user.unknown", "There is no person called %(name)s.", name=name)
    return user


def reset_password(
    conn: sa.Connection, name: str, *, password_hash: str, actor: Actor, audit_id: int
) -> None:
    if find_audit(conn, audit_id) is not None:
        return
    user = _known_user(conn, name)
    users.set_password(conn, user.id, password_hash=password_hash, must_change_password=True)
    sessions.delete_sessions_of(conn, user.id)
    tokens = api_tokens.delete_api_tokens_of(conn, user.id)
    write_audit(
        conn,
        id=audit_id,
        actor=actor,
        action="user.password_reset",
        executor_id=None,
        object_id=user.id,
        detail={"name": user.name, "api_tokens_revoked": tokens},
    )


def set_disabled(
    conn: sa.Connection, name: str, *, disabled: bool, actor: Actor, audit_id: int
) -> None:
    if find_audit(conn, audit_id) is not None:
        return
    user = _known_user(conn, name)
    users.set_disabled(conn, user.id, disabled=disabled)
    if disabled:
        sessions.delete_sessions_of(conn, user.id)
    write_audit(
        conn,
        id=audit_id,
        actor=actor,
        action="user.disabled" if disabled else "user.enabled",
        executor_id=None,
        object_id=user.id,
        detail={"name": user.name},
    )


def create_api_token(
    conn: sa.Connection,
    token_id: int,
    user_name: str,
    *,
    name: str,
    token_hash: str,
    valid_ms: int | None,
    actor: Actor,
    audit_id: int,
) -> None:
    if find_audit(conn, audit_id) is not None:
        return
    user = _known_user(conn, user_name)
    if api_tokens.has_api_token_named(conn, user.id, name):
        raise Conflict(
            "token.name_taken",
            "%(user)s already has a token called %(name)s.",
            user=user.name,
            name=name,
        )
    now = now_ms(conn)
    api_tokens.insert_api_token(
        conn,
        api_tokens.StoredApiToken(
            id=token_id,
            user_id=user.id,
            name=name,
            token_hash=token_hash,
            created_at=now,
            expires_at=None if valid_ms is None else now + valid_ms,
        ),
    )
    write_audit(
        conn,
        id=audit_id,
        actor=actor,
        action="token.created",
        executor_id=None,
        object_id=token_id,
        detail={"user": user.name, "name": name},
    )


def list_people(conn: sa.Connection) -> list[PersonItem]:
    return [
        PersonItem(
            name=user.name,
            roles=tuple(users.grants_of(conn, user.id).values()),
            disabled=user.disabled,
            must_change_password=user.must_change_password,
        )
        for user in users.list_users(conn)
    ]
