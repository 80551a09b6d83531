"""The routing of a job in its form: which fields belong to which strategy, read and written."""

from __future__ import annotations

from typing import Any

from tickwheel_admin.console.frame.units import FormFields
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import STRATEGIES, Routing
from tickwheel_admin.domain.routing.strategy import Split

DEFAULTS = {
    "routing": Routing.ROUND_ROBIN.value,
    "shards": "",
    "nodes": "",
    "selector": "",
    "hash_by": "",
}


def values_of(policy: RoutingPolicy) -> dict[str, str]:
    """The fields of a stored policy."""
    return {
        "routing": policy.strategy.value,
        "shards": str(policy.shards) if policy.record.split is Split.BY_NUMBER else "",
        "nodes": "\n".join(policy.nodes),
        "selector": policy.selector,
        "hash_by": policy.hash_by or "",
    }


def read(typed: FormFields) -> dict[str, Any]:
    """The raw routing of a job.

    Fields of a strategy that is not chosen are not shown, so what they hold does not count.
    """
    strategy = typed.text("routing")
    raw: dict[str, Any] = {"routing": strategy}
    record = STRATEGIES[Routing(strategy)] if strategy in frozenset(Routing) else None
    if record and record.split is Split.BY_NUMBER:
        raw["shards"] = typed.whole("shards")
    if record and record.names and (nodes := node_names(typed.text("nodes"))):
        raw["nodes"] = nodes
    if record and record.hashes and (name := typed.text("hash_by")):
        raw["hash_by"] = name
    if selector := typed.text("selector"):
        raw["selector"] = selector
    return raw


def node_names(text: str) -> list[str]:
    """Names of nodes, one on each line."""
    return [line.strip() for line in text.splitlines() if line.strip()]
