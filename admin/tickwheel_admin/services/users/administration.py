"""Administration of people: for whoever administers every executor, and the command line.

A token of such a person takes away, shuts out and forgets. It neither adds nor gives nor lets in:
somebody could act on for who found it, long after it has ended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.fields import CONTROL_CHARACTERS, is_clean
from tickwheel_admin.domain.input.grants import check_grants
from tickwheel_admin.domain.users.user import (
    Actor,
    Grant,
    Permission,
    Role,
    everywhere,
)
from tickwheel_admin.services.lists.paging import (
    Page,
    bad_cursor,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.users import edits as people_edits
from tickwheel_admin.services.users.base import COMMAND_LINE, IdentityPart, sha256
from tickwheel_admin.services.users.lists import PersonDetail, PersonItem, read_people, read_person
from tickwheel_admin.services.users.passwords import one_time_password
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.users import users
from tickwheel_admin.store.users.users import StoredUser

FIRST_ADMIN = "admin"
MAX_LISTED = 1_000
_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPerson:
    """Somebody who was just added; the password is told this once."""

    id: int
    name: str
    password: str  # to be changed at the first login


class PeopleAdministration(IdentityPart):
    """Who there is and what they may do."""

    async def ensure_first_admin(self) -> str | None:
        """The one-time password of a new person "admin", when there is nobody yet."""
        if await self._store.read(users.has_users):
            return None
        first = everywhere(Role.ADMIN)
        new = await self._add(COMMAND_LINE, FIRST_ADMIN, first, only_first=True)
        return None if new is None else new.password

    async def people(self, actor: Actor) -> list[PersonItem]:
        """Everybody, by name; at most 1,000."""
        actor.require(Permission.ADMINISTER)
        return await self._store.read(read_people, limit=MAX_LISTED)

    async def people_page(
        self, actor: Actor, *, part: str = "", cursor: str | None = None, limit: int = 50
    ) -> Page[PersonItem]:
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
            read_people, after=after, part=part.strip().lower(), limit=check_limit(limit) + 1
        )
        more = len(items) > limit
        items = items[:limit]
        return Page(items=items, next=encode_cursor(items[-1].name) if more else None)

    async def person(self, actor: Actor, user_id: int, *, cookie: str = "") -> PersonDetail:
        """One of them, with the sessions and tokens that act for them.

        Args:
            cookie: marks the session that asks as the current one.
        """
        actor.require(Permission.ADMINISTER)
        return await self._store.read(read_person, user_id, current_session=sha256(cookie))

    async def find_person(self, actor: Actor, name: str) -> PersonItem:
        """The person with this name; NotFound (user.unknown) when there is nobody."""
        actor.require(Permission.ADMINISTER)
        user = await self._store.read(people_edits.known_user, name)
        return (await self._store.read(read_person, user.id)).item

    async def add_user(self, actor: Actor, name: str, *, grants: Mapping[int, Grant]) -> str:
        """A new person; returns the one-time password. As `new_person`."""
        return (await self.new_person(actor, name, grants=grants)).password

    async def new_person(
        self, actor: Actor, name: str, *, grants: Mapping[int, Grant]
    ) -> NewPerson:
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
        audit_id = await self._ids.take("audit")
        await self._store.run(
            people_edits.set_grants,
            user_id,
            grants,
            actor=actor,
            audit_id=audit_id,
            instead_of=instead_of,
        )
        self._tell_streams()

    async def reset_password(self, actor: Actor, who: int | str) -> str:
        """A new one-time password; every session and API token of the person ends.

        Args:
            who: id or name.
        """
        actor.require(Permission.ADMINISTER)
        actor.require_in_person()
        password = one_time_password()
        audit_id = await self._ids.take("audit")
        await self._store.run(
            people_edits.reset_password,
            who,
            password_hash=await self._passwords.hash(password),
            actor=actor,
            audit_id=audit_id,
        )
        self._tell_streams()
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
        audit_id = await self._ids.take("audit")
        await self._store.run(
            people_edits.set_disabled, who, disabled=disabled, actor=actor, audit_id=audit_id
        )
        self._tell_streams()

    async def delete_user(self, actor: Actor, user_id: int) -> None:
        """Forget a person with all that acts for them; the audit keeps the name.

        Raises:
            Conflict: user.last_admin, user.own_account.
        """
        actor.require(Permission.ADMINISTER)
        audit_id = await self._ids.take("audit")
        await self._store.run(people_edits.delete_user, user_id, actor=actor, audit_id=audit_id)
        self._tell_streams()

    async def end_sessions_of(self, actor: Actor, user_id: int) -> int:
        """Log a person out everywhere; returns how many sessions ended."""
        actor.require(Permission.ADMINISTER)
        audit_id = await self._ids.take("audit")
        ended = await self._store.run(
            people_edits.end_sessions, user_id, actor=actor, audit_id=audit_id
        )
        self._tell_streams()
        return ended

    async def _add(
        self, actor: Actor, name: str, grants: Mapping[int, Grant], *, only_first: bool = False
    ) -> NewPerson | None:
        """None when the name is taken, or there is anybody already."""
        password = one_time_password()
        user_id, audit_id = await self._ids.take("user"), await self._ids.take("audit")
        new = StoredUser(
            id=user_id,
            name=name,
            password_hash=await self._passwords.hash(password),
            must_change_password=True,
            disabled=False,
            created_at=await self._store.read(now_ms),
        )
        created = await self._store.run(
            people_edits.create_user,
            new,
            grants,
            actor=actor,
            audit_id=audit_id,
            only_first=only_first,
        )
        return NewPerson(id=user_id, name=name, password=password) if created else None
