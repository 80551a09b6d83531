"""One login at the provider, as the browser that began it carries it along.

The browser keeps one random secret in a cookie. `state`, `nonce` and the PKCE verifier are derived
from it, each by a key of its own, so nothing is stored here and any admin can answer the callback:
whoever brings a fitting pair of cookie and `state` began this login in this browser. The cookie is
not signed: a browser that writes its own only logs itself in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

VALID_MS = 10 * 60_000
_COOKIE = re.compile(r"([0-9]{1,15})\.([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{0,4000})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """What a login at the provider is recognised by."""

    begun_at: int  # database time, epoch ms
    secret: str  # 256 random bits, known to the browser alone
    next_page: str  # where the person wanted to go

    @property
    def state(self) -> str:
        """Comes back with the answer, and must be that of this browser."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """Is in the ID token, which must be of this login."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Whoever redeems the code must know it (PKCE, RFC 7636)."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """S256 of the verifier, which the provider is told at the beginning."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    def is_answered_by(self, state: str) -> bool:
        """Whether an answer belongs to this login."""
        return hmac.compare_digest(self.state.encode(), state.encode("utf-8", "replace"))

    def holds(self, now: int) -> bool:
        """Whether the answer still comes in time."""
        return 0 <= now - self.begun_at < VALID_MS

    def to_cookie(self) -> str:
        """As the browser keeps it."""
        return f"{self.begun_at}.{self.secret}.{_text(self.next_page.encode())}"

    def _derived(self, purpose: str) -> str:
        return _text(hmac.digest(self.secret.encode(), purpose.encode(), "sha256"))


def new_attempt(*, now: int, next_page: str) -> LoginAttempt:
    """A login that begins."""
    return LoginAttempt(begun_at=now, secret=secrets.token_urlsafe(32), next_page=next_page)


def attempt_of_cookie(cookie: str) -> LoginAttempt | None:
    """The login that a browser began; None when the cookie is none of ours."""
    found = _COOKIE.fullmatch(cookie)
    if found is None:
        return None
    try:
        next_page = base64.urlsafe_b64decode(found[3] + "=" * (-len(found[3]) % 4)).decode()
    except ValueError:
        return None
    return LoginAttempt(begun_at=int(found[1]), secret=found[2], next_page=next_page)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
