"""What a job asks for: its strategy, and which nodes it may run on, by their names and labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.routing.node_names import place_of
from tickwheel_admin.domain.routing.pool import Candidate
from tickwheel_admin.domain.routing.selector import parse_selector
from tickwheel_admin.domain.routing.strategies import STRATEGIES, Routing
from tickwheel_admin.domain.routing.strategy import NodeNames, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPolicy:
    """How a job's runs are spread over the nodes of its executor."""

    strategy: Routing = Routing.ROUND_ROBIN
    shards: int = 1  # 1..1000, with a strategy that asks for their number
    # With a strategy that goes by names: at most 50, `*` standing for any text.
    nodes: tuple[str, ...] = ()
    selector: str = ""  # only nodes with these labels, in its normal form; "": any
    # With a strategy that hashes: a top-level parameter; None: the job.
    hash_by: str | None = None

    @property
    def record(self) -> Strategy:
        """What there is to know about its strategy."""
        return STRATEGIES[self.strategy]


def admits(policy: RoutingPolicy, *, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a job with this policy may run on a node of this name and these labels."""
    only_named = policy.record.names is NodeNames.REQUIRED
    if only_named and policy.nodes and place_of(policy.nodes, name) is None:
        return False
    return not policy.selector or parse_selector(policy.selector).matches(labels)


def in_order(nodes: Sequence[Candidate], policy: RoutingPolicy) -> list[Candidate]:
    """Nodes that are sorted by name, in the order in which the policy's strategy looks at them."""
    strategy = policy.record
    if strategy.from_last:
        return list(reversed(nodes))
    if strategy.names is NodeNames.PREFERRED and policy.nodes:
        others = len(policy.nodes) + 1
        return sorted(nodes, key=lambda node: place_of(policy.nodes, node.name) or others)
    return list(nodes)


def pool_key(policy: RoutingPolicy) -> tuple[Hashable, ...]:
    """Policies with equal keys admit the same nodes, in the same order."""
    return policy.selector, policy.nodes, policy.record.names, policy.record.from_last
