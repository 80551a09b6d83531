"""What is told of people, their sessions and their tokens: never a hash, never a secret."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.users import api_tokens, sessions, users
from tickwheel_admin.store.users.api_tokens import StoredApiToken
from tickwheel_admin.store.users.grants import grants_of, grants_of_many
from tickwheel_admin.store.users.users import StoredUser

KEY_CHARS = 16  # of a session's hash: enough to tell one's sessions apart, useless as a cookie


@dataclass(frozen=True, slots=True, kw_only=True)
class UserItem:
    """A user in a list."""

    id: int
    name: str
    grants: dict[int, Grant]  # by executor id (0: all)
    disabled: bool
    must_change_password: bool
    has_password: bool  # else they come in through the OpenID provider alone
    is_from_oidc: bool  # logged in through the OpenID provider at least once
    created_at: int
    logged_in_at: int | None  # last login; None: never


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionItem:
    """A browser in which somebody is logged in."""

    key: str  # names it among the person's sessions
    created_at: int
    seen_at: int  # last request, to about a minute
    address: str
    user_agent: str
    current: bool  # the one that asks


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenItem:
    """An API token, without what makes it one."""

    id: int
    user_name: str
    name: str
    role: Role | None  # at most this one; None: as the person
    executors: list[int] | None  # only on these; None: as the person
    created_at: int
    expires_at: int | None  # None: with the person's password
    used_at: int | None  # last request, to about a minute; None: never


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDetail:
    """A user with all that acts for them."""

    item: UserItem
    sessions: list[SessionItem]
    tokens: list[TokenItem]


def read_users(
    conn: sa.Connection, *, after: str = "", part: str = "", limit: int
) -> list[UserItem]:
    """People by name, beyond `after`, with `part` in their names."""
    found = users.list_users(conn, after=after, part=part, limit=limit)
    grants = grants_of_many(conn, [user.id for user in found])
    return [_user_item(user, grants.get(user.id, {})) for user in found]


def read_user(
    conn: sa.Connection, user_id: int, *, current_session: str | None = None
) -> UserDetail:
    """One of them; NotFound when there is nobody with this id."""
    user = users.get_user(conn, user_id)
    if user is None:
        raise not_found()
    return UserDetail(
        item=_user_item(user, grants_of(conn, user.id)),
        sessions=read_sessions(conn, user.id, current=current_session),
        tokens=read_tokens(conn, user.id, user.name),
    )


def read_sessions(conn: sa.Connection, user_id: int, *, current: str | None) -> list[SessionItem]:
    """A person's sessions that hold, the one used last first; `current` is a hash."""
    return [
        SessionItem(
            key=each.id_hash[:KEY_CHARS],
            created_at=each.created_at,
            seen_at=each.seen_at,
            address=each.address,
            user_agent=each.user_agent,
            current=each.id_hash == current,
        )
        for each in sessions.list_sessions(conn, user_id, now=now_ms(conn))
    ]


def read_tokens(conn: sa.Connection, user_id: int, user_name: str) -> list[TokenItem]:
    """A person's tokens, by name."""
    return [token_item(each, user_name) for each in api_tokens.list_api_tokens(conn, user_id)]


def token_item(token: StoredApiToken, user_name: str) -> TokenItem:
    return TokenItem(
        id=token.id,
        user_name=user_name,
        name=token.name,
        role=token.role,
        executors=None if token.executors is None else sorted(token.executors),
        created_at=token.created_at,
        expires_at=token.expires_at,
        used_at=token.used_at,
    )


def _user_item(user: StoredUser, grants: dict[int, Grant]) -> UserItem:
    return UserItem(
        id=user.id,
        name=user.name,
        grants=grants,
        disabled=user.disabled,
        must_change_password=user.must_change_password,
        has_password=user.password_hash is not None,
        is_from_oidc=user.oidc_key is not None,
        created_at=user.created_at,
        logged_in_at=user.logged_in_at,
    )
