"""Which nodes a job may run on, by their names and labels, and in which order it looks at them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tickwheel_admin.domain.routing.policy import NAMING, Routing, RoutingPolicy
from tickwheel_admin.domain.routing.pool import Candidate
from tickwheel_admin.domain.routing.selector import parse_selector


def admits(policy: RoutingPolicy, *, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a job with this policy may run on a node of this name and these labels."""
    if policy.strategy is Routing.PINNED and policy.nodes and place_of(policy.nodes, name) is None:
        return False
    return not policy.selector or parse_selector(policy.selector).matches(labels)


@lru_cache(maxsize=65_536)  # the router asks for every live node with every batch
def place_of(patterns: tuple[str, ...], name: str) -> int | None:
    """The place of the first pattern that a node's name matches, from 1; None: it matches none."""
    found = _expression(patterns).fullmatch(name)
    return None if found is None else found.lastindex


def in_order(nodes: Sequence[Candidate], policy: RoutingPolicy) -> list[Candidate]:
    """Nodes that are sorted by name, in the order in which the policy's strategy looks at them."""
    if policy.strategy is Routing.LAST:
        return list(reversed(nodes))
    if policy.strategy is Routing.FAILOVER and policy.nodes:
        others = len(policy.nodes) + 1
        return sorted(nodes, key=lambda node: place_of(policy.nodes, node.name) or others)
    return list(nodes)


def what_narrows(policy: RoutingPolicy) -> tuple[object, ...]:
    """Policies that are alike in this share a pool."""
    ordered = policy.strategy if policy.strategy in {*NAMING, Routing.LAST} else None
    return policy.selector, policy.nodes, ordered


@lru_cache(maxsize=1_024)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One group for each pattern, so that the group that matched tells its place."""
    return re.compile("|".join(f"({_wildcard(pattern)})" for pattern in patterns), re.DOTALL)


def _wildcard(pattern: str) -> str:
    """A regular expression for a name with `*`, whose time grows with the name only.

    Each part between two stars may be taken where it first occurs, so nothing is tried again.
    """
    head, *parts = map(re.escape, pattern.split("*"))
    if not parts:
        return head
    middle = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    return f"{head}{middle}.*{parts[-1]}"
