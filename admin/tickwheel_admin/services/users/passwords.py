"""Password hashing with argon2id in a few threads, so that many logins cost bounded memory."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION

from tickwheel_admin.domain.errors import InvalidInput, TooMany

T = TypeVar("T")

MIN_PASSWORD_CHARS = 12
MAX_PASSWORD_CHARS = 256
_ONE_TIME_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # nothing that is read wrongly


class Passwords:
    """Hashes and verifies; each hash under way takes 64 MiB with the default parameters."""

    def __init__(
        self, hasher: PasswordHasher | None = None, *, at_once: int = 2, waiting: int = 100
    ) -> None:
        """Nothing is hashed yet.

        Args:
            hasher: parameters; the default is RFC 9106's low-memory recommendation.
            at_once: hashes under way.
            waiting: callers queued beyond those; the next one is told to come back.
        """
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="password")
        self._places = at_once + waiting
        self._decoy = _hash_of_nothing(self._hasher)

    async def hash(self, password: str) -> str:
        return await self._in_thread(lambda: self._hasher.hash(password))

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether the password is the one; with no hash the same work is done for nothing.

        So an unknown person's login takes as long as a known one's.
        """
        expected = password_hash if password_hash is not None else self._decoy

        def check() -> bool:
            try:
                return self._hasher.verify(expected, password)
            except (VerificationError, InvalidHashError):
                return False

        # An overlong one is cut, not refused early: its answer must not be quicker either.
        password = password[: MAX_PASSWORD_CHARS + 1]
        return await self._in_thread(check) and password_hash is not None

    def is_outdated(self, password_hash: str) -> bool:
        """Whether it was made with other parameters than today's."""
        return self._hasher.check_needs_rehash(password_hash)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._places <= 0:
            raise TooMany(
                "login.busy",
                "Too many people are logging in at once; try again in a moment.",
                retry_after_seconds=2,
            )
        self._places -= 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._places += 1


def _hash_of_nothing(hasher: PasswordHasher) -> str:
    """A hash that nobody knows a password for; it takes as long to verify as any other.

    It is not made by hashing, which would be half of what a short command does.
    """
    costs = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    salt, digest = (
        b64encode(secrets.token_bytes(size)).decode().rstrip("=")
        for size in (hasher.salt_len, hasher.hash_len)
    )
    return f"$argon2id$v={ARGON2_VERSION}${costs}${salt}${digest}"


def check_new_password(password: str, *, user_name: str, field: str = "new") -> None:
    """Raise InvalidInput unless it may become somebody's password."""
    if len(password) < MIN_PASSWORD_CHARS:
        raise InvalidInput.one(
            field,
            "password.too_short",
            "Use at least %(count)s characters; a few words in a row are easy to remember.",
            count=MIN_PASSWORD_CHARS,
        )
    if len(password) > MAX_PASSWORD_CHARS:
        raise InvalidInput.one(
            field,
            "password.too_long",
            "Use at most %(count)s characters.",
            count=MAX_PASSWORD_CHARS,
        )
    if len(set(password.lower().replace(user_name.lower(), ""))) < 5:
        raise InvalidInput.one(
            field, "password.too_simple", "This is too easy to guess; choose another one."
        )


def one_time_password() -> str:
    """About 99 bits in four groups that can be read aloud."""
    parts = ("".join(secrets.choice(_ONE_TIME_ALPHABET) for _ in range(5)) for _ in range(4))
    return "-".join(parts)
