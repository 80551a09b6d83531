"""What people do with their own account: where they are logged in, how they want to read."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.users.preferences import (
    Preferences,
    parse_preferences,
    preferences_from_json,
    preferences_to_json,
    preferences_to_raw,
)
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.events.events import USERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.users import edits
from tickwheel_admin.services.users.credentials import sha256
from tickwheel_admin.services.users.lists import KEY_CHARS, SessionItem, read_sessions
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.users import users

_KEY = re.compile(rf"[0-9a-f]{{{KEY_CHARS}}}")


class OwnAccount:
    """For any person who is logged in, whatever their grants; not for tokens."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._audited = AuditedTransactions(store, ids, events)

    async def sessions(self, actor: Actor, cookie: str) -> list[SessionItem]:
        """Where the person is logged in, the session used last first."""
        actor.require_in_person()
        return await self._store.read(read_sessions, actor.user_id, current=sha256(cookie))

    async def end_session(self, actor: Actor, cookie: str, key: str) -> None:
        """End one of one's own sessions, also the one that asks.

        Args:
            cookie: of the session that asks.
            key: as `sessions` tells it.

        Raises:
            NotFound: the person has no such session.
        """
        actor.require_in_person()
        if not _KEY.fullmatch(key) or not await self._end_own(actor, key=key):
            raise not_found()

    async def end_other_sessions(self, actor: Actor, cookie: str) -> int:
        """Log out everywhere but here; returns how many sessions ended."""
        actor.require_in_person()
        return await self._end_own(actor, but=sha256(cookie))

    async def has_password(self, actor: Actor) -> bool:
        """Whether there is one to change; who comes in through a provider alone has none."""
        user = await self._store.read(users.get_user, actor.user_id)
        return user is not None and user.password_hash is not None

    async def preferences(self, actor: Actor) -> Preferences:
        """How the person wants to read."""
        stored = await self._store.read(users.get_preferences, actor.user_id)
        return preferences_from_json(stored or "{}")

    async def set_preferences(self, actor: Actor, preferences: Preferences) -> None:
        """Keep them.

        Raises:
            NotAllowed: token.not_in_person.
            InvalidInput: on "language", "theme" or "timezone".
        """
        actor.require_in_person()
        parse_preferences(preferences_to_raw(preferences))
        await self._audited.run(actor, partial(_set_preferences, preferences=preferences))

    async def _end_own(
        self, actor: Actor, *, but: str | None = None, key: str | None = None
    ) -> int:
        return await self._audited.run(
            actor,
            partial(edits.end_sessions, user_id=actor.user_id, but=but, key=key),
            USERS,
            repeated=edits.sessions_ended,
        )


def _set_preferences(conn: sa.Connection, entry: AuditEntry, preferences: Preferences) -> None:
    user_id = entry.actor.user_id
    stored = users.get_preferences(conn, user_id)
    if stored is None:
        raise not_found()
    if preferences_from_json(stored) == preferences:
        return
    users.set_preferences(conn, user_id, preferences_to_json(preferences))
    detail: dict[str, Any] = {**preferences_to_raw(preferences)}
    entry.write("user.preferences_changed", user_id, **detail)
