"""How this admin is configured, for the settings page: no secret, and where each value is from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from yarl import URL

from tickwheel_admin.config import Config
from tickwheel_admin.domain.users.oidc import RoleRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """One setting of this admin."""

    name: str
    value: str  # "" when there is none, or when it is secret
    is_secret: bool  # it is set, and nobody is shown it
    place: str | None  # "--port", "TICKWHEEL_PORT", "tickwheel.toml: port"; None: its default


def configured(config: Config) -> list[Configured]:
    """Every setting; what the configuration's own repr leaves out is not shown here either."""
    rows = []
    for field in dataclasses.fields(config):
        if field.name == "given_at":
            continue
        value = getattr(config, field.name)
        shown = _database(value) if field.name == "database_url" else _text(value)
        is_secret = not field.repr and field.name != "database_url"
        rows.append(
            Configured(
                name=field.name,
                value="" if is_secret else shown,
                is_secret=is_secret and bool(value),
                place=config.given_at.get(field.name),
            )
        )
    return rows


def _database(url: str) -> str:
    """Which database it is, without what opens it: passwords can stand in the query as well."""
    kind, _separator, _rest = url.partition("://")
    if kind == "sqlite":
        return url.partition("?")[0]  # a file
    try:
        return str(URL(url).with_query(None).with_password(None))
    except ValueError:
        return kind


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, RoleRule):
        return f"{value.group}={_grant(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_text(each) for each in value)
    return str(value)


def _grant(rule: RoleRule) -> str:
    scripts = "+scripts" if rule.grant.scripts else ""
    return f"{rule.grant.role}{scripts}" + (f"@{rule.executor}" if rule.executor else "")
