"""How a job's runs are spread over the nodes of its executor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Routing(StrEnum):
    """How a node is chosen among those that may be given a run."""

    ROUND_ROBIN = "round_robin"  # one after the other, per job
    LEAST_BUSY = "least_busy"  # most free slots, then fewest running
    RANDOM = "random"
    WEIGHTED = "weighted"  # by turns, each as often as its weight says
    CONSISTENT_HASH = "consistent_hash"  # the same node for the same job, or parameter
    LEAST_FREQUENTLY_USED = "least_frequently_used"  # the one that had the fewest runs of the job
    LEAST_RECENTLY_USED = "least_recently_used"  # the one whose last run of the job is oldest
    FIRST = "first"  # by name
    LAST = "last"  # by name
    FAILOVER = "failover"  # in the order of `nodes`; later ones only stand in
    BUSY_OVER = "busy_over"  # the first by name that runs nothing of this job
    PINNED = "pinned"  # none but the nodes named in `nodes`, or chosen by `selector`
    BROADCAST = "broadcast"  # a shard of the run for every live node
    SHARDS = "shards"  # a chosen number of shards, each on the least busy node


SHARDED = frozenset({Routing.BROADCAST, Routing.SHARDS})  # a fire of these is expanded when claimed

NAMING = frozenset({Routing.FAILOVER, Routing.PINNED})  # look at `RoutingPolicy.nodes`
# What a strategy must know of the runs before, so that admins agree: the job's turn, or what each
# node had of the job.
BY_TURN = frozenset({Routing.ROUND_ROBIN, Routing.WEIGHTED})
COUNTING = frozenset({Routing.LEAST_FREQUENTLY_USED, Routing.LEAST_RECENTLY_USED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingPolicy:
    """How a job's runs are spread over nodes."""

    strategy: Routing = Routing.ROUND_ROBIN
    shards: int = 1  # 1..1000, with strategy `shards`
    # Names of nodes, `*` standing for any text, at most 50: `failover` takes them in this order,
    # `pinned` takes no others.
    nodes: tuple[str, ...] = ()
    selector: str = ""  # only nodes with these labels, in its normal form; "": any
    hash_by: str | None = None  # with `consistent_hash`: a top-level parameter; None: the job
