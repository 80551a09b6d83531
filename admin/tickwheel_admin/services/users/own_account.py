"""What people do with their own account: where they are logged in, how they want to read."""

from __future__ import annotations

import re

import sqlalchemy as sa

from tickwheel_admin.domain.users.preferences import (
    Preferences,
    parse_preferences,
    preferences_from_json,
    preferences_to_json,
    preferences_to_raw,
)
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.users import edits as people_edits
from tickwheel_admin.services.users.base import IdentityPart, sha256
from tickwheel_admin.services.users.lists import KEY_CHARS, SessionItem, read_sessions
from tickwheel_admin.store.system.audit import find_audit, write_audit
from tickwheel_admin.store.users import users

_KEY = re.compile(rf"[0-9a-f]{{{KEY_CHARS}}}")


class OwnAccount(IdentityPart):
    """For any person who is logged in, whatever their grants; not for tokens."""

    async def own_sessions(self, actor: Actor, cookie: str) -> list[SessionItem]:
        """Where the person is logged in, the session used last first."""
        actor.require_in_person()
        return await self._store.read(read_sessions, actor.user_id, current=sha256(cookie))

    async def end_session(self, actor: Actor, cookie: str, key: str) -> None:
        """End one of one's own sessions, also the one that asks.

        Args:
            cookie: of the session that asks.
            key: as `own_sessions` tells it.

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
        audit_id = await self._ids.take("audit")
        await self._store.run(_set_preferences, preferences, actor=actor, audit_id=audit_id)

    async def _end_own(
        self, actor: Actor, *, but: str | None = None, key: str | None = None
    ) -> int:
        audit_id = await self._ids.take("audit")
        ended = await self._store.run(
            people_edits.end_sessions,
            actor.user_id,
            actor=actor,
            audit_id=audit_id,
            but=but,
            key=key,
        )
        self._tell_streams()
        return ended


def _set_preferences(
    conn: sa.Connection, preferences: Preferences, *, actor: Actor, audit_id: int
) -> None:
    if find_audit(conn, audit_id) is not None:
        return
    stored = users.get_preferences(conn, actor.user_id)
    if stored is None:
        raise not_found()
    if preferences_from_json(stored) == preferences:
        return
    users.set_preferences(conn, actor.user_id, preferences_to_json(preferences))
    write_audit(
        conn,
        id=audit_id,
        actor=actor,
        action="user.preferences_changed",
        executor_id=None,
        object_id=actor.user_id,
        detail=preferences_to_raw(preferences),
    )
