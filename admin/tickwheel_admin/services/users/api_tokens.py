"""API tokens: bearer secrets of programs that act for a person, with as much as they have or less.

A token follows its person: what is taken from them is taken from it, and it ends with their
password. It cannot do what would make it outlive its end: `Actor.require_in_person`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotLoggedIn
from tickwheel_admin.domain.fields import checked_name, is_clean
from tickwheel_admin.domain.users.user import Actor, Permission, Role
from tickwheel_admin.services.events.events import USERS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.users.credentials import new_secret, sha256
from tickwheel_admin.services.users.edits import check_executors, known_user
from tickwheel_admin.services.users.lists import TokenItem, read_tokens, token_item
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.users import api_tokens, identity, sessions, users
from tickwheel_admin.store.users.api_tokens import StoredApiToken

API_TOKEN_PREFIX = "twt_"  # noqa: S105 - recognised by people and secret scanners
MAX_TOKENS = 100  # of one person
MAX_EXECUTORS = 500  # of one token
MAX_VALID_DAYS = 3_650
TOUCH_MS = 60_000  # `used_at` is written at most this often
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was just made; the secret is told this once."""

    id: int
    secret: str  # what programs send


class ApiTokens:
    """Make, list, use and revoke them."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._audited = AuditedTransactions(store, ids, events)

    async def actor_of(self, bearer: str, *, address: str) -> Actor | None:
        """Whoever a token acts for; None when it is unknown or expired, or they are out."""
        if not bearer.startswith(API_TOKEN_PREFIX):
            return None
        found = await self._store.read(identity.find_token_actor, sha256(bearer), address)
        if found is None:
            return None
        actor, token, now = found
        if token.used_at is None or now - token.used_at >= TOUCH_MS:
            await self._store.run(api_tokens.touch_api_token, token.id, now=now, every_ms=TOUCH_MS)
        return actor

    async def own(self, actor: Actor) -> list[TokenItem]:
        """The person's own tokens, by name; a token sees itself alone."""
        items = await self._store.read(read_tokens, actor.user_id, actor.name)
        return [each for each in items if actor.token_id in (None, each.id)]

    async def page(
        self, actor: Actor, cursor: str | None = None, *, limit: int = 50
    ) -> Page[TokenItem]:
        """Everybody's tokens, the newest first.

        Raises:
            InvalidInput: on "cursor" or "limit".
        """
        actor.require(Permission.ADMINISTER)
        before = decode_cursor(cursor, Number)
        rows = await self._store.read(
            api_tokens.page_api_tokens, before=before, limit=check_limit(limit) + 1
        )
        items = [token_item(token, user_name) for token, user_name in rows[:limit]]
        more = len(rows) > limit
        return Page(items=items, next=encode_cursor(items[-1].id) if more else None)

    async def create(
        self,
        actor: Actor,
        *,
        name: str,
        role: Role | None = None,
        executors: Iterable[int] | None = None,
        valid_days: int | None = None,
    ) -> NewToken:
        """Make a token for oneself.

        Args:
            name: what it is for; unique among the person's.
            role: at most this one; None: what the person may do.
            executors: only on these; None: wherever the person may do something.
            valid_days: 1 to 3,650; None: until the password changes.

        Raises:
            NotAllowed: token.not_in_person.
            NotLoggedIn: the session ended meanwhile.
            InvalidInput: on "name", "executors" or "valid_days".
            Conflict: token.name_taken, token.too_many.
        """
        actor.require_in_person()
        wanted = None if executors is None else frozenset(executors)
        for executor_id in sorted(wanted or ()):
            if not actor.may(Permission.VIEW, executor_id):
                raise _unknown_executor(executor_id)
        return await self._create(
            actor, actor.user_id, name=name, role=role, executors=wanted, valid_days=valid_days
        )

    async def create_for(
        self,
        actor: Actor,
        user_name: str,
        *,
        name: str,
        role: Role | None = None,
        executors: Iterable[int] | None = None,
        valid_days: int | None = None,
    ) -> str:
        """A token for somebody; as `create`.

        Raises:
            NotFound: user.unknown.
        """
        actor.require(Permission.ADMINISTER)
        actor.require_in_person()
        wanted = None if executors is None else frozenset(executors)
        new = await self._create(
            actor, user_name, name=name, role=role, executors=wanted, valid_days=valid_days
        )
        return new.secret

    async def revoke(self, actor: Actor, token_id: int) -> None:
        """End a token at once: one's own, or anybody's for who administers everything.

        A token can end itself.

        Raises:
            NotFound: there is no such token, or it is somebody else's.
        """
        await self._audited.run(actor, partial(_revoke, token_id=token_id), USERS)

    async def _create(
        self,
        actor: Actor,
        who: int | str,
        *,
        name: str,
        role: Role | None,
        executors: frozenset[int] | None,
        valid_days: int | None,
    ) -> NewToken:
        name = checked_name("name", name)
        if not 1 <= len(name) <= 100 or not is_clean(name):
            raise InvalidInput.one(
                "name", "token.name_invalid", "Use 1 to 100 printable characters."
            )
        if valid_days is not None and not 1 <= valid_days <= MAX_VALID_DAYS:
            raise InvalidInput.one(
                "valid_days", "token.days_invalid", "Use a number of days from 1 to 3650."
            )
        if executors is not None and not 1 <= len(executors) <= MAX_EXECUTORS:
            raise InvalidInput.one(
                "executors",
                "token.executors_invalid",
                "Name 1 to %(limit)s executors, or leave this out for all.",
                limit=MAX_EXECUTORS,
            )
        secret = API_TOKEN_PREFIX + new_secret()
        token_id = await self._ids.take("api_token")
        new = StoredApiToken(
            id=token_id,
            user_id=0,
            name=name,
            token_hash=sha256(secret),
            role=role,
            executors=executors,
            created_at=0,
            expires_at=None,
            used_at=None,
        )
        valid_ms = None if valid_days is None else valid_days * DAY_MS
        await self._audited.run(actor, partial(_create, who=who, new=new, valid_ms=valid_ms))
        return NewToken(id=token_id, secret=secret)


def _create(
    conn: sa.Connection,
    entry: AuditEntry,
    *,
    who: int | str,
    new: StoredApiToken,
    valid_ms: int | None,
) -> None:
    """Insert the token for the person; whose it is and its times are found here.

    Tokens end with the password: one that is made while it changes must not be left over.
    """
    now, actor = now_ms(conn), entry.actor
    if actor.session is not None and not sessions.hold_session(conn, actor.session, now=now):
        raise NotLoggedIn("login.required", "Your session has ended; log in again.")
    user = known_user(conn, who)
    if new.executors is not None:
        check_executors(conn, new.executors, field="executors")
    existing = api_tokens.list_api_tokens(conn, user.id)
    if any(each.name == new.name for each in existing):
        raise Conflict(
            "token.name_taken",
            "%(user)s already has a token called %(name)s.",
            user=user.name,
            name=new.name,
        )
    if len(existing) >= MAX_TOKENS:
        raise Conflict(
            "token.too_many",
            "%(user)s already has %(limit)s tokens; revoke some first.",
            user=user.name,
            limit=MAX_TOKENS,
        )
    expires_at = None if valid_ms is None else now + valid_ms
    api_tokens.insert_api_token(
        conn, replace(new, user_id=user.id, created_at=now, expires_at=expires_at)
    )
    entry.write(
        "token.created",
        new.id,
        user=user.name,
        name=new.name,
        role=None if new.role is None else new.role.value,
        executors=None if new.executors is None else sorted(new.executors),
        expires_at=expires_at,
    )


def _revoke(conn: sa.Connection, entry: AuditEntry, token_id: int) -> None:
    token = api_tokens.get_api_token(conn, token_id)
    if token is None or not _may_revoke(entry.actor, token):
        raise not_found()
    owner = users.get_user(conn, token.user_id)
    api_tokens.delete_api_token(conn, token.id)
    entry.write("token.revoked", token.id, user=owner.name if owner else None, name=token.name)


def _may_revoke(actor: Actor, token: StoredApiToken) -> bool:
    if actor.may(Permission.ADMINISTER):
        return True
    return token.user_id == actor.user_id and actor.token_id in (None, token.id)


def _unknown_executor(executor_id: int) -> InvalidInput:
    return InvalidInput.one(
        "executors", "executor.unknown", "There is no executor %(id)s.", id=executor_id
    )
