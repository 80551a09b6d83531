"""Base URLs of admins."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def normal_url(text: str) -> str:
    """The base URL of an admin in one spelling, so that the same one is recognised.

    Raises:
        ValueError: not a base URL; the message says why and does not repeat the text.
    """
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https"):
        raise ValueError("it must start with http:// or https://")
    if not parts.hostname:
        raise ValueError("it names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not contain a user or password")
    if parts.query or parts.fragment:
        raise ValueError("it must not contain ? or #")
    if any(character.isspace() or not character.isprintable() for character in text.strip()):
        raise ValueError("it contains white space")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default = {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port in (None, default) else f":{parts.port}"  # .port checks the range
    return urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", ""))
