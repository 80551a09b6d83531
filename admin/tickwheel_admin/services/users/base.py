"""What the use cases of identity share; each group of them is a part of `People`."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import structlog

from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.services.events.events import PEOPLE, Events
from tickwheel_admin.services.users.passwords import Passwords
from tickwheel_admin.services.users.throttle import LoginThrottle
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.users import users
from tickwheel_admin.store.users.users import StoredUser

log = structlog.get_logger(__name__)

COMMAND_LINE = Actor(user_id=0, name="command line", grants={ALL_EXECUTORS: Role.ADMIN})
"""Acts for whoever can start `tickwheel` on the admin's own configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What a browser is given at login; `cookie` is told nowhere else."""

    cookie: str
    csrf_token: str
    must_change_password: bool


class IdentityPart:
    """A group of use cases over the same store, hashing threads and throttle."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        *,
        events: Events | None = None,
        passwords: Passwords | None = None,
        throttle: LoginThrottle | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._ids = ids
        self._events = events or Events()
        self._passwords = passwords or Passwords()
        self._throttle = throttle or LoginThrottle()
        self._sleep = sleep

    def close(self) -> None:
        """End the hashing threads."""
        self._passwords.close()

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

    def _tell_streams(self) -> None:
        """Let open streams look at once whether their sessions still hold."""
        self._events.publish(PEOPLE)


def new_secret() -> str:
    """256 random bits as text."""
    return secrets.token_urlsafe(32)


def sha256(secret: str) -> str:
    """What is stored instead of a secret."""
    # A fast hash is enough: nobody guesses 256 random bits.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
