"""Readers of the settings about logging in at an OpenID provider."""

from __future__ import annotations

from typing import Any

from yarl import URL

from tickwheel_admin.domain.users.oidc import RoleRule, is_loopback, parse_role_rules

CALLBACK_PATH = "/login/oidc/callback"


def issuer(value: Any) -> str:
    """An issuer as its tokens will say it: a slash at the end counts.

    Raises:
        ValueError: with the rule that was broken.
    """
    rule = "must be the https:// address of the provider, without ? and #"
    text = value.strip() if isinstance(value, str) else ""
    try:
        url = URL(text)
        usable = url.scheme in ("http", "https") and url.host and url.port
    except ValueError:
        raise ValueError(rule) from None
    if not usable or url.user or "?" in text or "#" in text or not text.isprintable():
        raise ValueError(rule)
    if url.scheme == "http" and not is_loopback(url.host):
        raise ValueError(f"{rule}; http:// is for a provider on this machine only")
    return text


def role_rules(value: Any) -> tuple[RoleRule, ...]:
    """Rules of a text, separated by commas, or of a list, whose groups may contain commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError("must be a list such as ops=operator@billing, admins=admin")
    return parse_role_rules(items)


def yes_or_no(value: Any) -> bool:
    """A truth value of a file, or its word in the environment."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
        raise ValueError("must be true or false")
    return word in ("true", "1", "yes", "on")


def secret(value: Any) -> str:
    """A secret; no message repeats it."""
    if not isinstance(value, str) or not value.strip() or len(value) > 1_000:
        raise ValueError("must be a text of 1 to 1000 characters")
    return value.strip()


def conflicts(
    *, has_issuer: bool, has_client_id: bool, others: list[str], password_login: bool
) -> list[str]:
    """What is wrong with the settings together.

    Args:
        others: names of settings that were given and mean nothing without a provider.
    """
    if has_issuer and not has_client_id:
        return ["oidc_client_id: is needed with oidc_issuer: the name that the provider knows"]
    if has_issuer:
        return []
    given = (["oidc_client_id"] if has_client_id else []) + others
    problems = [f"{name}: means nothing without oidc_issuer" for name in given]
    if not password_login:
        problems.append("password_login: false without oidc_issuer would let nobody in")
    return problems
