"""What browsers and programs hold, and what is stored instead of it."""

from __future__ import annotations

import hashlib
import secrets


def new_secret() -> str:
    """256 random bits as text."""
    return secrets.token_urlsafe(32)


def sha256(secret: str) -> str:
    """What is stored instead of a secret."""
    # A fast hash is enough: nobody guesses 256 random bits.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
