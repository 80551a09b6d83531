"""Sessions of people: they begin with a login and end with it, the password, the role, the person.

A browser holds a random cookie; the database has only its SHA-256, and decides at every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from tickwheel_admin.domain.errors import InvalidInput, NotLoggedIn
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.events.events import USERS, Events
from tickwheel_admin.services.users.credentials import new_secret, sha256
from tickwheel_admin.services.users.passwords import Passwords, check_new_password
from tickwheel_admin.services.users.throttle import LoginThrottle
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.users import identity, sessions, users
from tickwheel_admin.store.users.identity import SessionView as SessionView
from tickwheel_admin.store.users.users import StoredUser

log = structlog.get_logger(__name__)

TOUCH_MS = 60_000  # `seen_at` is written at most this often


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What a browser is given at login; `cookie` is told nowhere else."""

    cookie: str
    csrf_token: str
    must_change_password: bool


class Logins:
    """Log in, log out, be known by a cookie, change the password."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        events: Events,
        passwords: Passwords,
        *,
        throttle: LoginThrottle | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        self._passwords = passwords
        self._throttle = throttle or LoginThrottle()
        self._sleep = sleep

    def close(self) -> None:
        """End the hashing threads."""
        self._passwords.close()

    async def login(
        self, name: str, password: str, *, address: str, user_agent: str, replaces: str = ""
    ) -> NewSession:
        """Begin a session.

        Args:
            name: as typed; capitals do not matter.
            replaces: a cookie that came with the request; its session ends.

        Raises:
            NotLoggedIn: login.failed, the same for an unknown name, a wrong password and a
                disabled person.
            TooMany: too many failures, for this name or from this address.
        """
        name = name.strip().lower()[:100]
        user = await self._check_password(name, password, address=address)
        if user is None:
            raise NotLoggedIn("login.failed", identity.LOGIN_FAILED)
        return await self.begin_session(
            user, address=address, user_agent=user_agent, replaces=replaces
        )

    async def begin_session(
        self,
        user: StoredUser,
        *,
        address: str,
        user_agent: str,
        replaces: str,
        detail: dict[str, object] | None = None,
    ) -> NewSession:
        """For whoever has shown who they are; `detail` tells the audit how."""
        cookie, csrf_token = new_secret(), new_secret()
        audit_id = await self._ids.take("audit")
        must_change = await self._store.run(
            identity.begin_session,
            user,
            cookie_hash=sha256(cookie),
            csrf_token=csrf_token,
            replaces=sha256(replaces) if replaces else None,
            address=address,
            user_agent=user_agent,
            audit_id=audit_id,
            detail=detail,
        )
        log.info("login.succeeded", user=user.name, address=address)
        return NewSession(cookie=cookie, csrf_token=csrf_token, must_change_password=must_change)

    async def session(
        self, cookie: str, *, address: str = "", touch: bool = True
    ) -> SessionView | None:
        """The session behind a cookie, if it still holds.

        Args:
            touch: whether the person did something; what pages fetch by themselves must not keep
                a session alive.
        """
        found = await self._store.read(identity.find_session, sha256(cookie), address)
        if found is None:
            return None
        view, stored, now = found
        if touch and now - stored.seen_at >= TOUCH_MS:
            await self._store.run(sessions.touch_session, stored.id_hash, now=now)
        return view

    async def sessions(self, asked: Sequence[tuple[str, str]]) -> list[SessionView | None]:
        """The sessions behind (cookie, address), as far as they hold; keeps none of them alive."""
        wanted = {(sha256(cookie), address) for cookie, address in asked if cookie}
        found = await self._store.read(identity.find_sessions, sorted(wanted))
        return [found.get((sha256(cookie), address)) for cookie, address in asked]

    async def logout(self, cookie: str) -> None:
        """End this session."""
        await self._store.run(sessions.delete_session, sha256(cookie))
        self._events.publish(USERS)

    async def change_password(self, actor: Actor, cookie: str, *, old: str, new: str) -> NewSession:
        """Set one's own password. Every session and API token of the person ends; a new begins.

        Raises:
            NotAllowed: token.not_in_person.
            InvalidInput: on "old" or "new".
            TooMany: too many wrong old passwords.
        """
        actor.require_in_person()
        user = await self._check_password(actor.name, old, address=actor.address)
        if user is None:
            raise InvalidInput.one("old", "password.wrong", "This is not your current password.")
        check_new_password(new, user_name=user.name)
        if new == old:
            raise InvalidInput.one(
                "new", "password.unchanged", "Choose a password other than the current one."
            )
        new_hash = await self._passwords.hash(new)
        next_cookie, csrf_token = new_secret(), new_secret()
        audit_id = await self._ids.take("audit")
        await self._store.run(
            identity.change_password,
            user,
            actor,
            password_hash=new_hash,
            old_session=sha256(cookie),
            new_session=sha256(next_cookie),
            csrf_token=csrf_token,
            audit_id=audit_id,
        )
        self._events.publish(USERS)
        log.info("password.changed", user=user.name)
        return NewSession(cookie=next_cookie, csrf_token=csrf_token, must_change_password=False)

    async def _check_password(self, name: str, password: str, *, address: str) -> StoredUser | None:
        """The person, when the password is theirs and they may log in.

        To whoever guesses, the right password of a person who is shut out is one more wrong one: it
        takes as long, counts as much, and makes no address familiar.

        Raises:
            TooMany: too many wrong ones, for this name or from this address.
        """
        admission = self._throttle.admit(name, address)
        if admission.delay_seconds:
            await self._sleep(admission.delay_seconds)
        user = await self._store.read(users.find_user, name)
        known = user.password_hash if user else None
        right = await self._passwords.verify(known, password)
        if user is None or known is None or not right or user.disabled:
            # Not the name as typed: somebody may have typed a password there.
            log.warning("login.failed", user=user.name if user else None, address=address)
            return None
        self._throttle.succeeded(admission)
        if self._passwords.is_outdated(known):
            renewed = await self._passwords.hash(password)
            await self._store.run(users.replace_hash, user.id, old=known, new=renewed)
            user = replace(user, password_hash=renewed)
        return user
