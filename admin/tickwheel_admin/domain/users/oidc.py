"""Login at an OpenID provider: what an admin is told about it, and what its claims mean here."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tickwheel_admin.domain.users.user import ROLE_PERMISSIONS, Grant, Role, may_have_scripts

MAX_GROUPS = 10_000  # of one person; more than any provider puts into a token
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._@-]+")
_WITH_SCRIPTS = "+scripts"
_RULE_FORM = "must be group=role or group=role@executor, such as ops=operator@billing"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRule:
    """What the members of a group may do here."""

    group: str  # as the provider spells it
    grant: Grant
    executor: str | None  # by name; None: all executors


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """The provider, and what this installation is to it."""

    issuer: str  # exactly as its tokens say it
    client_id: str
    client_secret: str | None = field(repr=False)  # None: a public client, which has PKCE alone
    name: str  # on the button
    redirect_url: str  # where the provider sends browsers back to; must be known to it
    username_claim: str
    roles_claim: str
    roles: tuple[RoleRule, ...]  # empty: roles are given here, by people


def parse_role_rules(items: Iterable[str]) -> tuple[RoleRule, ...]:
    """Rules from "group=role", "group=role@executor", "group=role+scripts@executor".

    The last "=" counts: names of groups in a directory have some of their own.

    Raises:
        ValueError: with the rule that was broken, and by what.
    """
    return tuple(_rule(item.strip()) for item in items if item.strip())


def _rule(item: str) -> RoleRule:
    group, equals, right = item.rpartition("=")
    role_name, at, executor = right.partition("@")
    with_scripts = role_name.strip().endswith(_WITH_SCRIPTS)
    role_name = role_name.strip().removesuffix(_WITH_SCRIPTS).lower()
    if not equals or not group.strip() or not role_name or (at and not executor.strip()):
        raise ValueError(f"{item!r} {_RULE_FORM}")
    if role_name not in set(Role):
        raise ValueError(f"{item!r} has no role of {', '.join(Role)}")
    role = Role(role_name)
    if with_scripts and not may_have_scripts(role):
        raise ValueError(f"{item!r}: scripts go with the roles developer and admin only")
    return RoleRule(
        group=group.strip(),
        grant=Grant(role, scripts=with_scripts),
        executor=executor.strip() if at else None,
    )


def grants_of_groups(groups: frozenset[str], rules: Sequence[RoleRule]) -> dict[str | None, Grant]:
    """Executor name (None: all) → the most that any of the groups may do there."""
    grants: dict[str | None, Grant] = {}
    for rule in rules:
        if rule.group not in groups:
            continue
        before = grants.get(rule.executor, rule.grant)
        role = max(before.role, rule.grant.role, key=lambda each: len(ROLE_PERMISSIONS[each]))
        scripts = before.scripts or rule.grant.scripts
        grants[rule.executor] = Grant(role, scripts=scripts)
    return grants


def claim_at(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by a path through nested ones: "realm_access.roles"."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def groups_of(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """The groups that the provider names; a claim of another shape names none."""
    found = claim_at(claims, claim)
    if isinstance(found, str):
        return frozenset({found})
    if not isinstance(found, list):
        return frozenset()
    return frozenset(each for each in found[:MAX_GROUPS] if isinstance(each, str))


def user_name_of(claims: Mapping[str, Any], claim: str) -> str | None:
    """What the person is called here; None when nothing of the claim can be a name.

    Our names are of a-z, 0-9 and ". _ @ -": capitals are made small, accents dropped, whatever else
    there is becomes a hyphen.
    """
    found = claim_at(claims, claim)
    if not isinstance(found, str):
        return None
    plain = unicodedata.normalize("NFKD", found[:400]).encode("ascii", "ignore").decode().lower()
    name = _NOT_IN_NAMES.sub("-", plain.strip()).strip("-").lstrip("._@-")[:100]
    return name or None


def oidc_key(issuer: str, subject: str) -> str:
    """What a person is found by: their name at the provider may change, or be given to another."""
    return hashlib.sha256(f"{issuer}\0{subject}".encode()).hexdigest()


def is_loopback(host: str | None) -> bool:
    """Whether what is sent to it never leaves this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
