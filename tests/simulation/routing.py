"""What simulated nodes say of themselves, and how jobs are routed by it: every strategy."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tickwheel_admin.domain.routing.strategies import STRATEGIES, Routing

# In every cluster with two nodes each of these chooses some and leaves out others.
_SELECTORS = ("zone=eu", "zone!=eu", "gpu", "!gpu", "zone in (eu, asia)", "number notin (1,2),zone")
# workload.py draws those that cut a run into shards.
_STRATEGIES = tuple(each.value for each in Routing if STRATEGIES[each].split is None)


def labels_of(name: str) -> dict[str, str]:
    """The labels of `node-3` and the like."""
    number = int(name.rpartition("-")[2])
    labels = {"zone": "eu" if number % 2 else "us", "number": str(number)}
    return labels | {"gpu": "yes"} if number > 2 else labels


def weight_of(name: str) -> int:
    """The weight of `node-3` and the like."""
    return int(name.rpartition("-")[2])


def draw_routing(random: Random, nodes: Mapping[str, int]) -> tuple[dict[str, Any], int]:
    """The fields of a job's routing, and how many slots its runs can have at once.

    Args:
        nodes: of its executor, by name, with their slots; at least one of them fits in any case.
    """
    strategy = random.choice(_STRATEGIES)
    policy: dict[str, Any] = {"routing": strategy}
    fitting = dict(nodes)
    if strategy == "failover" and random.random() < 0.8:
        policy["nodes"] = random.sample((*nodes, "nowhere-*"), random.randint(1, len(nodes)))
    if strategy == "pinned":
        named = random.choice((*nodes, "node-*"))
        policy["nodes"] = [named, "nowhere"]
        fitting = {name: nodes[name] for name in nodes if named in (name, "node-*")}
    if strategy == "consistent_hash" and random.random() < 0.5:
        policy["hash_by"] = "own"
    if random.random() < 0.3:
        selector = random.choice(_SELECTORS)
        selected = {name: nodes[name] for name in fitting if fits(selector, labels_of(name))}
        if selected:
            policy["selector"], fitting = selector, selected
    if strategy == "busy_over":
        return policy, len(fitting)
    return policy, sum(fitting.values())


def fits(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels fit a selector: the second opinion about those that are drawn here."""
    zone, number, gpu = labels["zone"], labels["number"], "gpu" in labels
    verdict = {
        "zone=eu": zone == "eu",
        "zone!=eu": zone != "eu",
        "gpu": gpu,
        "!gpu": not gpu,
        "zone in (eu,asia)": zone == "eu",
        "number notin (1,2),zone": number not in ("1", "2"),
    }
    return verdict[selector.replace(", ", ",")]
