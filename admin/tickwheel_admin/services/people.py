"""Who may come in: people, their sessions, their API tokens.

Sessions and API tokens live in the database and end with the password, the role or the person, at
the next request. What a browser or a program holds is random; the database has only its SHA-256.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import structlog

from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotLoggedIn
from tickwheel_admin.domain.user import ALL_EXECUTORS, Actor, Permission, Role
from tickwheel_admin.services.passwords import Passwords, check_new_password, one_time_password
from tickwheel_admin.services.throttle import LoginThrottle
from tickwheel_admin.store import identity, sessions, users
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.identity import PersonItem as PersonItem
from tickwheel_admin.store.identity import SessionView as SessionView
from tickwheel_admin.store.ids import Ids
from tickwheel_admin.store.users import StoredUser

log = structlog.get_logger(__name__)

TOUCH_MS = 60_000  # `seen_at` is written at most this often

FIRST_ADMIN = "admin"
API_TOKEN_PREFIX = "twt_"  # noqa: S105 - recognised by people and secret scanners
_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,99}")

COMMAND_LINE = Actor(user_id=0, name="command line", grants={ALL_EXECUTORS: Role.ADMIN})
"""Acts for whoever can start `tickwheel` on the admin's own configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What a browser is given at login; `cookie` is told nowhere else."""

    cookie: str
    csrf_token: str
    must_change_password: bool


class People:
    """Use cases of identity."""

    def __init__(
        self,
        store: Store,
        ids: Ids,
        *,
        passwords: Passwords | None = None,
        throttle: LoginThrottle | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._ids = ids
        self._passwords = passwords or Passwords()
        self._throttle = throttle or LoginThrottle()
        self._sleep = sleep

    def close(self) -> None:
        """End the hashing threads."""
        self._passwords.close()

    # --- sessions ----------------------------------------------------------------------------

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
        if user is None or user.disabled:
            raise NotLoggedIn("login.failed", identity.LOGIN_FAILED)
        cookie, csrf_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        audit_id = await self._ids.take("audit")
        must_change = await self._store.run(
            identity.begin_session,
            user,
            cookie_hash=_sha256(cookie),
            csrf_token=csrf_token,
            replaces=_sha256(replaces) if replaces else None,
            address=address,
            user_agent=user_agent,
            audit_id=audit_id,
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
        found = await self._store.read(identity.find_session, _sha256(cookie), address)
        if found is None:
            return None
        view, stored, now = found
        if touch and now - stored.seen_at >= TOUCH_MS:
            await self._store.run(sessions.touch_session, stored.id_hash, now=now)
        return view

    async def logout(self, cookie: str) -> None:
        """End this session."""
        await self._store.run(sessions.delete_session, _sha256(cookie))

    async def change_password(self, actor: Actor, cookie: str, *, old: str, new: str) -> NewSession:
        """Set one's own password. Every session and API token of the person ends; a new begins.

        Raises:
            InvalidInput: on "old" or "new".
            TooMany: too many wrong old passwords.
        """
        user = await self._check_password(actor.name, old, address=actor.address)
        if user is None:
            raise InvalidInput.one("old", "password.wrong", "This is not your current password.")
        check_new_password(new, user_name=user.name)
        if new == old:
            raise InvalidInput.one(
                "new", "password.unchanged", "Choose a password other than the current one."
            )
        new_hash = await self._passwords.hash(new)
        next_cookie, csrf_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        audit_id = await self._ids.take("audit")
        await self._store.run(
            identity.change_password,
            user,
            actor,
            password_hash=new_hash,
            old_session=_sha256(cookie),
            new_session=_sha256(next_cookie),
            csrf_token=csrf_token,
            audit_id=audit_id,
        )
        log.info("password.changed", user=user.name)
        return NewSession(cookie=next_cookie, csrf_token=csrf_token, must_change_password=False)

    async def actor_of_token(self, bearer: str, *, address: str) -> Actor | None:
        """Whoever an API token acts for; None when it is unknown or expired, or they are out."""
        if not bearer.startswith(API_TOKEN_PREFIX):
            return None
        return await self._store.read(identity.find_token_actor, _sha256(bearer), address)

    async def _check_password(self, name: str, password: str, *, address: str) -> StoredUser | None:
        admission = self._throttle.admit(name, address)
        if admission.delay_seconds:
            await self._sleep(admission.delay_seconds)
        user = await self._store.read(users.find_user, name)
        right = await self._passwords.verify(user.password_hash if user else None, password)
        if user is None or not right:
            # Not the name as typed: somebody may have typed a password there.
            log.warning("login.failed", user=user.name if user else None, address=address)
            return None
        self._throttle.succeeded(admission)
        if self._passwords.is_outdated(user.password_hash):
            renewed = await self._passwords.hash(password)
            await self._store.run(users.replace_hash, user.id, old=user.password_hash, new=renewed)
            user = replace(user, password_hash=renewed)
        return user

    # --- administration ----------------------------------------------------------------------

    async def ensure_first_admin(self) -> str | None:
        """The one-time password of a new person "admin", when there is nobody yet."""
        if await self._store.read(users.has_users):
            return None
        password = one_time_password()
        user_id, audit_id = await self._ids.take("user"), await self._ids.take("audit")
        created = await self._store.run(
            identity.create_user,
            user_id,
            FIRST_ADMIN,
            password_hash=await self._passwords.hash(password),
            grants={ALL_EXECUTORS: Role.ADMIN},
            actor=COMMAND_LINE,
            audit_id=audit_id,
            only_first=True,
        )
        return password if created else None

    async def people(self, actor: Actor) -> list[PersonItem]:
        """Everybody, by name."""
        actor.require(Permission.ADMINISTER)
        return await self._store.read(identity.list_people)

    async def add_user(self, actor: Actor, name: str, *, role: Role) -> str:
        """A new person with a role on all executors; returns the one-time password.

        Raises:
            InvalidInput: on "name".
            Conflict: user.name_taken.
        """
        actor.require(Permission.ADMINISTER)
        name = name.strip().lower()
        if not _USER_NAME.fullmatch(name):
            raise InvalidInput.one(
                "name",
                "user.name_invalid",
                "Use 1 to 100 small letters, digits and . _ @ -, beginning with a letter or digit.",
            )
        password = one_time_password()
        user_id, audit_id = await self._ids.take("user"), await self._ids.take("audit")
        created = await self._store.run(
            identity.create_user,
            user_id,
            name,
            password_hash=await self._passwords.hash(password),
            grants={ALL_EXECUTORS: role},
            actor=actor,
            audit_id=audit_id,
        )
        if not created:
            raise Conflict(
                "user.name_taken", "There is already a person called %(name)s.", name=name
            )
        return password

    async def reset_password(self, actor: Actor, name: str) -> str:
        """A new one-time password; every session and API token of the person ends."""
        actor.require(Permission.ADMINISTER)
        password = one_time_password()
        audit_id = await self._ids.take("audit")
        await self._store.run(
            identity.reset_password,
            name,
            password_hash=await self._passwords.hash(password),
            actor=actor,
            audit_id=audit_id,
        )
        return password

    async def set_disabled(self, actor: Actor, name: str, *, disabled: bool) -> None:
        """Shut a person out at once, tokens included, or let them in again."""
        actor.require(Permission.ADMINISTER)
        audit_id = await self._ids.take("audit")
        await self._store.run(
            identity.set_disabled, name, disabled=disabled, actor=actor, audit_id=audit_id
        )

    async def create_api_token(
        self, actor: Actor, user_name: str, *, name: str, valid_days: int | None = None
    ) -> str:
        """A bearer token that acts with the person's grants; shown once.

        Raises:
            NotFound: user.unknown.
            InvalidInput: on "name" or "valid_days".
            Conflict: token.name_taken.
        """
        actor.require(Permission.ADMINISTER)
        if not 1 <= len(name.strip()) <= 100 or not name.isprintable():
            raise InvalidInput.one(
                "name", "token.name_invalid", "Use 1 to 100 printable characters."
            )
        if valid_days is not None and not 1 <= valid_days <= 3_650:
            raise InvalidInput.one(
                "valid_days", "token.days_invalid", "Use a number of days from 1 to 3650."
            )
        token = API_TOKEN_PREFIX + secrets.token_urlsafe(32)
        token_id, audit_id = await self._ids.take("api_token"), await self._ids.take("audit")
        await self._store.run(
            identity.create_api_token,
            token_id,
            user_name,
            name=name.strip(),
            token_hash=_sha256(token),
            valid_ms=None if valid_days is None else valid_days * 86_400_000,
            actor=actor,
            audit_id=audit_id,
        )
        return token


def _sha256(secret: str) -> str:
    # A fast hash is enough: nobody guesses 256 random bits.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
