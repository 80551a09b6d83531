"""Changes of people in transactions: each reads, decides and writes, with its audit row.

Taking rights away, shutting out and deleting happen one after the other, so that somebody who
administers everything is always left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotFound
from tickwheel_admin.domain.input.grants import grants_mark, grants_to_raw
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Grant, Role, rights_of
from tickwheel_admin.services.events.transactions import AuditEntry
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.executors.executors import living_executors
from tickwheel_admin.store.system.audit import AuditedChange
from tickwheel_admin.store.users import api_tokens, sessions, users
from tickwheel_admin.store.users.grants import grants_of, has_other_admin, replace_grants
from tickwheel_admin.store.users.users import StoredUser


def known_user(conn: sa.Connection, who: int | str) -> StoredUser:
    """The person with this id or name; NotFound when there is nobody."""
    if isinstance(who, int):
        found = users.get_user(conn, who)
        if found is None:
            raise not_found()
        return found
    found = users.find_user(conn, who.strip().lower())
    if found is None:
        raise NotFound("user.unknown", "There is no person called %(name)s.", name=who)
    return found


def create_user(
    conn: sa.Connection,
    entry: AuditEntry,
    new: StoredUser,
    grants: Mapping[int, Grant],
    *,
    only_first: bool = False,
) -> bool:
    """Whether the person was added; not when the name is taken (or, if asked, anybody exists)."""
    if users.has_users(conn) if only_first else users.find_user(conn, new.name) is not None:
        return False
    check_executors(conn, grants.keys())
    users.insert_user(conn, new)
    replace_grants(conn, new.id, grants)
    _write(entry, "user.created", new, grants=grants_to_raw(grants))
    return True


def set_grants(
    conn: sa.Connection,
    entry: AuditEntry,
    user_id: int,
    grants: Mapping[int, Grant],
    *,
    instead_of: str | None = None,
) -> None:
    """Give a person these grants and no others.

    When anything is taken away, their sessions end, and those API tokens that could do it.
    """
    users.lock_users(conn)
    user = known_user(conn, user_id)
    before = grants_of(conn, user.id)
    if before == dict(grants):
        return
    if instead_of is not None and instead_of != grants_mark(before):
        raise Conflict(
            "user.grants_changed_meanwhile",
            "Somebody else changed the roles of %(name)s meanwhile. Load the page again, then"
            " repeat your change.",
            name=user.name,
        )
    check_executors(conn, grants.keys() - before.keys())
    then, now = rights_of(before), rights_of(grants)
    if not then.covers(now):
        entry.actor.require_in_person()
    takes = not now.covers(then)
    if takes and user.id == entry.actor.user_id:
        raise Conflict(
            "user.own_grants", "You cannot take a role from yourself; another administrator can."
        )
    if not _administers_all(grants):
        _check_another_admin(conn, user, before)
    replace_grants(conn, user.id, grants)
    ended, revoked = 0, 0
    if takes:
        ended = sessions.delete_sessions_of(conn, user.id)
        for token in api_tokens.list_api_tokens(conn, user.id):
            scope = token.role, token.executors
            if not now.narrowed(*scope).covers(then.narrowed(*scope)):
                api_tokens.delete_api_token(conn, token.id)
                revoked += 1
    _write(
        entry,
        "user.grants_changed",
        user,
        before=grants_to_raw(before),
        grants=grants_to_raw(grants),
        sessions_ended=ended,
        api_tokens_revoked=revoked,
    )


def reset_password(
    conn: sa.Connection, entry: AuditEntry, who: int | str, *, password_hash: str
) -> None:
    """Give a person a password to be changed; every session and API token of theirs ends."""
    user = known_user(conn, who)
    users.set_password(conn, user.id, password_hash=password_hash, must_change_password=True)
    ended, revoked = _end_everything(conn, user.id)
    _write(
        entry,
        "user.password_reset",
        user,
        sessions_ended=ended,
        api_tokens_revoked=revoked,
    )


def set_disabled(conn: sa.Connection, entry: AuditEntry, who: int | str, *, disabled: bool) -> None:
    """Shut a person out, or let them in again; their API tokens rest meanwhile."""
    users.lock_users(conn)
    user = known_user(conn, who)
    if user.disabled == disabled:
        return
    if disabled:
        _check_not_oneself(user, entry.actor)
        _check_another_admin(conn, user, grants_of(conn, user.id))
    users.set_disabled(conn, user.id, disabled=disabled)
    ended = sessions.delete_sessions_of(conn, user.id) if disabled else 0
    action = "user.disabled" if disabled else "user.enabled"
    _write(entry, action, user, **({"sessions_ended": ended} if disabled else {}))


def delete_user(conn: sa.Connection, entry: AuditEntry, user_id: int) -> None:
    """Forget a person with all that acts for them; the audit and runs keep the name."""
    users.lock_users(conn)
    user = known_user(conn, user_id)
    _check_not_oneself(user, entry.actor)
    _check_another_admin(conn, user, grants_of(conn, user.id))
    ended, revoked = _end_everything(conn, user.id)
    users.delete_user(conn, user.id)
    _write(
        entry,
        "user.deleted",
        user,
        sessions_ended=ended,
        api_tokens_revoked=revoked,
    )


def end_sessions(
    conn: sa.Connection,
    entry: AuditEntry,
    user_id: int,
    *,
    but: str | None = None,
    key: str | None = None,
) -> int:
    """End sessions of a person; returns how many. See `sessions.delete_sessions_of`."""
    user = known_user(conn, user_id)
    ended = sessions.delete_sessions_of(conn, user.id, but=but, key=key)
    if ended:
        _write(entry, "user.sessions_ended", user, sessions_ended=ended)
    return ended


def sessions_ended(change: AuditedChange) -> int:
    """What `end_sessions` answered."""
    return int(change.detail["sessions_ended"])


def check_executors(
    conn: sa.Connection, executor_ids: Iterable[int], *, field: str = "grants"
) -> None:
    """Refuse ids that are no executor's.

    Raises:
        InvalidInput: on `field`.
    """
    wanted = set(executor_ids) - {ALL_EXECUTORS}
    for missing in sorted(wanted - living_executors(conn, wanted)):
        raise InvalidInput.one(
            field, "executor.unknown", "There is no executor %(id)s.", id=missing
        )


def _administers_all(grants: Mapping[int, Grant]) -> bool:
    return ALL_EXECUTORS in grants and grants[ALL_EXECUTORS].role is Role.ADMIN


def _check_another_admin(
    conn: sa.Connection, user: StoredUser, grants: Mapping[int, Grant]
) -> None:
    """Refuse what would leave nobody who administers everything; under the lock of people."""
    if _administers_all(grants) and not user.disabled and not has_other_admin(conn, user.id):
        raise Conflict(
            "user.last_admin",
            "%(name)s is the last administrator; give somebody else that role for all executors"
            " first.",
            name=user.name,
        )


def _check_not_oneself(user: StoredUser, actor: Actor) -> None:
    if user.id == actor.user_id:
        raise Conflict(
            "user.own_account",
            "You cannot shut yourself out or delete yourself; another administrator can.",
        )


def _end_everything(conn: sa.Connection, user_id: int) -> tuple[int, int]:
    """How many sessions and tokens ended."""
    return sessions.delete_sessions_of(conn, user_id), api_tokens.delete_api_tokens_of(
        conn, user_id
    )


def _write(entry: AuditEntry, action: str, user: StoredUser, **more: Any) -> None:
    entry.write(action, user.id, name=user.name, **more)
