"""How a job's runs are spread over nodes, as people write it.

A field that the chosen strategy does not look at is refused with the reason; null counts as not
given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwheel_admin.domain.fields import INVISIBLE_CHARACTER, Fields, is_clean
from tickwheel_admin.domain.names import normal_name, unseen_character
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.selector import (
    MAX_SELECTOR_CHARS,
    SelectorError,
    parse_selector,
)
from tickwheel_admin.domain.routing.strategies import STRATEGIES, Routing
from tickwheel_admin.domain.routing.strategy import NodeNames, Split

ROUTING_FIELDS = ("routing", "shards", "nodes", "selector", "hash_by")

MAX_SHARDS = 1_000
MAX_NODES = 50
MAX_NODE_CHARS = 200  # a node's name has no more
MAX_HASH_BY_CHARS = 200


def read_routing(fields: Fields) -> RoutingPolicy:
    """The strategy with what belongs to it."""
    strategy = fields.member("routing", Routing, default=Routing.ROUND_ROBIN)
    policy = RoutingPolicy(
        strategy=strategy,
        shards=_read_shards(fields, strategy),
        nodes=_read_nodes(fields, strategy),
        selector=_read_selector(fields),
        hash_by=_read_hash_by(fields, strategy),
    )
    if (
        policy.record.names is NodeNames.REQUIRED
        and not fields.has("nodes")
        and not policy.selector
    ):
        fields.refuse(
            "nodes",
            "required",
            "Routing “pinned” needs the names of nodes, or a selector, such as zone=eu.",
        )
    return policy


def routing_to_raw(policy: RoutingPolicy) -> dict[str, Any]:
    """What `read_routing` reads as this policy."""
    return {
        "routing": policy.strategy.value,
        "shards": policy.shards if policy.record.split is Split.BY_NUMBER else None,
        "nodes": list(policy.nodes) if policy.nodes else None,
        "selector": policy.selector,
        "hash_by": policy.hash_by,
    }


def _read_shards(fields: Fields, strategy: Routing) -> int:
    """How many shards each run has; 1 where the routing does not ask for a number."""
    shards = fields.integer("shards", low=1, high=MAX_SHARDS, default=1)
    if STRATEGIES[strategy].split is Split.BY_NUMBER:
        if not fields.has("shards"):
            fields.refuse(
                "shards", "required", "Routing “shards” needs the number of shards of each run."
            )
        return shards
    if fields.has("shards"):
        fields.refuse("shards", "does_not_apply", "A number of shards needs routing “shards”.")
    return 1


def _read_nodes(fields: Fields, strategy: Routing) -> tuple[str, ...]:
    if not fields.has("nodes"):
        return ()
    meaning = STRATEGIES[strategy].names
    if meaning is None:
        fields.refuse(
            "nodes",
            "does_not_apply",
            "Names of nodes need routing “failover” or “pinned”; a selector goes with any routing.",
        )
        return ()
    value = fields.raw["nodes"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse("nodes", "wrong_type", "This must be a list of texts.")
        return ()
    if len(value) > MAX_NODES:
        fields.refuse("nodes", "too_many", "At most %(limit)d, please.", limit=MAX_NODES)
        return ()
    names: list[str] = []
    for index, name in enumerate(value):
        text = normal_name(name) if isinstance(name, str) else ""
        if (unseen := unseen_character(text)) is not None and is_clean(text):
            fields.refuse(
                f"nodes[{index}]", "invisible_character", INVISIBLE_CHARACTER, character=unseen
            )
        elif not 0 < len(text) <= MAX_NODE_CHARS or not is_clean(text):
            fields.refuse(
                f"nodes[{index}]",
                "node.invalid",
                "The name of a node is a text of 1 to %(limit)d characters; * stands for any text.",
                limit=MAX_NODE_CHARS,
            )
        names.append(text)
    if not names and meaning is NodeNames.REQUIRED and not fields.has("selector"):
        fields.refuse("nodes", "required", "Name at least one node.")
    return tuple(dict.fromkeys(names))


def _read_selector(fields: Fields) -> str:
    text = fields.text("selector", max_chars=MAX_SELECTOR_CHARS)
    try:
        normal = parse_selector(text).text
        parse_selector(normal)  # it may be longer than what was written
        return normal
    except SelectorError as error:
        fields.refuse("selector", "selector.invalid", error.template, **error.params)
        return ""


def _read_hash_by(fields: Fields, strategy: Routing) -> str | None:
    name = fields.text("hash_by", max_chars=MAX_HASH_BY_CHARS)
    if name and not STRATEGIES[strategy].hashes:
        fields.refuse(
            "hash_by", "does_not_apply", "A parameter to hash by needs routing “consistent_hash”."
        )
        return None
    return name or None
