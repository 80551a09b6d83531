"""Administration of people: for whoever administers every executor, and the command line.

A token of such a person takes away, shuts out and forgets. It neither adds nor gives nor lets in:
somebody could act on for who found it, long after it has ended.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.fields import CONTROL_CHARACTERS, is_clean
from tickwheel_admin.domain.input.grants import check_grants
from tickwheel_admin.domain.users.user import (
    ALL_EXECUTORS,
    Actor,
    Grant,
    Permission,
    Role,
    everywhere,
)
from tickwheel_admin.services.events.events import USERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions
from tickwheel_admin.services.lists.paging import (
    Page,
    bad_cursor,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.users import edits
from tickwheel_admin.services.users.credentials import sha256
from tickwheel_admin.services.users.lists import UserDetail, UserItem, read_user, read_users
from tickwheel_admin.services.users.passwords import Passwords, one_time_password
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.users import users
from tickwheel_admin.store.users.users import StoredUser

COMMAND_LINE = Actor(
    user_id=0,
    name="command line",
    grants={ALL_EXECUTORS: Role.ADMIN},
    scripts=frozenset({ALL_EXECUTORS}),
)
"""Acts for whoever can start `tickwheel` on the admin's own configuration."""

FIRST_ADMIN = "admin"
MAX_LISTED = 1_000
_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser:
    """Somebody who was just added; the password is told this once."""

    id: int
    name: str
    password: str  # to be changed at the first login


class UserAdministration:
    """Who there is and what they may do."""

    def __init__(self, store: Store, ids: Ids, events: Events, passwords: Passwords) -> None:
        self._store = store
        self._ids = ids
        self._passwords = passwords
        self._audited = AuditedTransactions(store, ids, events)

    async def ensure_first_admin(self) -> str | None:
        """The one-time password of a new person "admin", when there is nobody yet."""
        if await self._store.read(users.has_users):
            return None
        first = everywhere(Role.ADMIN)
        new = await self._add(COMMAND_LINE, FIRST_ADMIN, first, only_first=True)
        return None if new is None else new.password

    async def list(self, actor: Actor) -> builtins.list[UserItem]:
        """Everybody, by name; at most 1,000."""
        actor.require(Permission.ADMINISTER)
        return await self._store.read(read_users, limit=MAX_LISTED)

    async def page(
        self, actor: Actor, *, part: str = "", cursor: str | None = None, limit: int = 50
    ) -> Page[UserItem]:
        """People by name.

        Args:
            part: what the name has in it; capitals do not matter.
            limit: 1 to 500.

        Raises:
            InvalidInput: on "text", "cursor" or "limit".
        """
        actor.require(Permission.ADMINISTER)
        if not is_clean(part):  # PostgreSQL takes no NUL in a text
            raise InvalidInput.one("text", "control_characters", CONTROL_CHARACTERS)
        after = decode_cursor(cursor, str) or ""
        if not is_clean(after):
            raise bad_cursor()
        items = await self._store.read(
            read_users, after=after, part=part.strip().lower(), limit=check_limit(limit) + 1
        )
        more = len(items) > limit
        items = items[:limit]
        return Page(items=items, next=encode_cursor(items[-1].name) if more else None)

    async def get(self, actor: Actor, user_id: int, *, cookie: str = "") -> UserDetail:
        """One of them, with the sessions and tokens that act for them.

        Args:
            cookie: marks the session that asks as the current one.
        """
        actor.require(Permission.ADMINISTER)
        return await self._store.read(read_user, user_id, current_session=sha256(cookie))

    async def find(self, actor: Actor, name: str) -> UserItem:
        """The person with this name; NotFound (user.unknown) when there is nobody."""
        actor.require(Permission.ADMINISTER)
        user = await self._store.read(edits.known_user, name)
        return (await self._store.read(read_user, user.id)).item

    async def create(self, actor: Actor, name: str, *, grants: Mapping[int, Grant]) -> NewUser:
        """Add a person.

        Raises:
            NotAllowed: token.not_in_person.
            InvalidInput: on "name" or "grants".
            Conflict: user.name_taken.
        """
        actor.require(Permission.ADMINISTER)
        actor.require_in_person()
        name = name.strip().lower()
        if not _USER_NAME.fullmatch(name):
            raise InvalidInput.one(
                "name",
                "user.name_invalid",
                "Use 1 to 100 small letters, digits and . _ @ -, beginning with a letter or digit.",
            )
        check_grants(grants)
        new = await self._add(actor, name, grants)
        if new is None:
            raise Conflict(
                "user.name_taken", "There is already a person called %(name)s.", name=name
            )
        return new

    async def set_grants(
        self,
        actor: Actor,
        user_id: int,
        grants: Mapping[int, Grant],
        *,
        instead_of: str | None = None,
    ) -> None:
        """Give a person these grants and no others.

        When anything is taken away, their sessions and open streams end at once, and those API
        tokens that could do it.

        Args:
            instead_of: `grants_mark` of those that the caller saw; None: of whichever there are.

        Raises:
            NotAllowed: token.not_in_person, when a token gives anything.
            InvalidInput: on "grants".
            Conflict: user.grants_changed_meanwhile; user.last_admin; user.own_grants, when one
                takes something from oneself.
        """
        actor.require(Permission.ADMINISTER)
        check_grants(grants)
        work = partial(edits.set_grants, user_id=user_id, grants=grants, instead_of=instead_of)
        await self._audited.run(actor, work, USERS)

    async def reset_password(self, actor: Actor, who: int | str) -> str:
        """A new one-time password; every session and API token of the person ends.

        Args:
            who: id or name.
        """
        actor.require(Permission.ADMINISTER)
        actor.require_in_person()
        password = one_time_password()
        password_hash = await self._passwords.hash(password)
        work = partial(edits.reset_password, who=who, password_hash=password_hash)
        await self._audited.run(actor, work, USERS)
        return password

    async def set_disabled(self, actor: Actor, who: int | str, *, disabled: bool) -> None:
        """Shut a person out at once, tokens included, or let them in again.

        Args:
            who: id or name.

        Raises:
            NotAllowed: token.not_in_person, when a token lets somebody in.
            Conflict: user.last_admin, user.own_account.
        """
        actor.require(Permission.ADMINISTER)
        if not disabled:
            actor.require_in_person()
        work = partial(edits.set_disabled, who=who, disabled=disabled)
        await self._audited.run(actor, work, USERS)

    async def delete(self, actor: Actor, user_id: int) -> None:
        """Forget a person with all that acts for them; the audit keeps the name.

        Raises:
            Conflict: user.last_admin, user.own_account.
        """
        actor.require(Permission.ADMINISTER)
        await self._audited.run(actor, partial(edits.delete_user, user_id=user_id), USERS)

    async def end_sessions(self, actor: Actor, user_id: int) -> int:
        """Log a person out everywhere; returns how many sessions ended."""
        actor.require(Permission.ADMINISTER)
        return await self._audited.run(
            actor,
            partial(edits.end_sessions, user_id=user_id),
            USERS,
            repeated=edits.sessions_ended,
        )

    async def _add(
        self, actor: Actor, name: str, grants: Mapping[int, Grant], *, only_first: bool = False
    ) -> NewUser | None:
        """None when the name is taken, or there is anybody already."""
        password = one_time_password()
        user_id = await self._ids.take("user")
        new = StoredUser(
            id=user_id,
            name=name,
            password_hash=await self._passwords.hash(password),
            must_change_password=True,
            disabled=False,
            created_at=await self._store.read(now_ms),
        )
        work = partial(edits.create_user, new=new, grants=grants, only_first=only_first)
        created = await self._audited.run(actor, work, repeated=lambda _: True)
        return NewUser(id=user_id, name=name, password=password) if created else None
