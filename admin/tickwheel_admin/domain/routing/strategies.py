"""The routing strategies: for each a small pure function that chooses a node, and its record.

A pool holds no dead node, and `Pool.open`, which is never empty here, none that is full, cordoned,
draining or has refused; a strategy chooses among those, so none can choose what may not be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tickwheel_admin.domain.routing.choice import short
from tickwheel_admin.domain.routing.node_names import place_of
from tickwheel_admin.domain.routing.pool import Candidate, Pool
from tickwheel_admin.domain.routing.strategy import (
    Memory,
    NodeNames,
    Pick,
    RunToPlace,
    Split,
    Strategy,
)
from tickwheel_admin.domain.routing.uses import NEVER, Use

MAX_TURNS_PASSED = 1_000  # of full nodes, for one run


class Routing(StrEnum):
    """The strategies by their stored values, which are those of the API; see STRATEGIES."""

    ROUND_ROBIN = "round_robin"
    RANDOM = "random"
    LEAST_BUSY = "least_busy"
    WEIGHTED = "weighted"
    CONSISTENT_HASH = "consistent_hash"
    LEAST_FREQUENTLY_USED = "least_frequently_used"
    LEAST_RECENTLY_USED = "least_recently_used"
    FIRST = "first"
    LAST = "last"
    FAILOVER = "failover"
    BUSY_OVER = "busy_over"
    PINNED = "pinned"
    BROADCAST = "broadcast"
    SHARDS = "shards"


# --- how they choose -----------------------------------------------------------------------------


def first(pool: Pool, run: RunToPlace) -> Pick:
    """The first in the pool's order: by name, by name from the end, or as the job names them."""
    node = pool.open[0]
    return Pick(node, passed=pool.before(node))


def failover(pool: Pool, run: RunToPlace) -> Pick:
    """The first in the job's order, and its place there."""
    node, _, passed = first(pool, run)
    place = place_of(run.nodes, node.name) if run.nodes else None
    return Pick(node, () if place is None else (place,), passed)


def random(pool: Pool, run: RunToPlace) -> Pick:
    """Any."""
    return Pick(pool.open[run.random.randrange(len(pool.open))])


def round_robin(pool: Pool, run: RunToPlace) -> Pick:
    """One after the other."""
    place = run.turn % len(pool.open)
    return Pick(pool.open[place], (place + 1,))


def weighted(pool: Pool, run: RunToPlace) -> Pick:
    """One after the other, each as often as its weight; the turn of a full one goes to the next."""
    for turn in range(run.turn, run.turn + MAX_TURNS_PASSED):
        node = pool.of_turn(turn)
        if pool.why_not(node) is None:
            break
    else:  # the heavy ones are full, and the turns of the others may be a million away
        node = pool.open[run.turn % len(pool.open)]
    return Pick(node, (node.weight, pool.weight))


def least_busy(pool: Pool, run: RunToPlace) -> Pick:
    """Most free slots, then fewest running."""
    return Pick(pool.best("busyness", busyness))


def consistent_hash(pool: Pool, run: RunToPlace) -> Pick:
    """The node that the key belongs to, or the next one on the ring that can take the run."""
    node, passed = pool.owner(run.key)
    return Pick(node, () if run.hash_by is None else (short(run.hash_by), short(run.key)), passed)


def least_frequently_used(pool: Pool, run: RunToPlace) -> Pick:
    """The one with the fewest runs of the job; of equal ones that which had none for longest."""
    node = pool.best((run.job_id, "frequency"), run.uses.frequency)
    return Pick(node, _runs(run.uses.of(node.node_id)))


def least_recently_used(pool: Pool, run: RunToPlace) -> Pick:
    """The one whose last run of the job is longest ago; those that had none go first."""
    node = pool.best((run.job_id, "recency"), run.uses.recency)
    return Pick(node, _runs(run.uses.of(node.node_id)))


def busy_over(pool: Pool, run: RunToPlace) -> Pick | None:
    """The first by name that runs nothing of the job; None: each runs it, so the run waits."""
    node = next((each for each in pool.open if each.node_id not in run.busy), None)
    return None if node is None else Pick(node, passed=pool.before(node))


def busyness(node: Candidate) -> tuple[int, int]:
    """Less is less busy."""
    return -node.free, node.slots - node.free


def _runs(use: Use) -> tuple[int, ...]:
    return () if use.last_turn == NEVER else (use.runs,)


# --- the records ---------------------------------------------------------------------------------

TURNS_GROUP = "One after the other"
LOAD_GROUP = "By how busy they are"
SAME_NODE_GROUP = "Always the same node"
ALL_AT_ONCE_GROUP = "Several nodes at once"

STRATEGIES: Mapping[Routing, Strategy] = {  # in the order in which people should meet them
    Routing.ROUND_ROBIN: Strategy(
        choose=round_robin,
        title="Round robin",
        hint="One node after the other. Right for most jobs.",
        group=TURNS_GROUP,
        reason="Round robin: the turn of number %(turn)d of %(nodes)d nodes.",
        detail=("turn",),
        memory=Memory.TURN,
    ),
    Routing.WEIGHTED: Strategy(
        choose=weighted,
        title="Weighted",
        hint="By turns, a node of weight 3 three times as often as one of weight 1.",
        group=TURNS_GROUP,
        reason="Weighted: its turn, with a weight of %(weight)d of %(total)d in all.",
        detail=("weight", "total"),
        memory=Memory.TURN,
        weighs=True,
    ),
    Routing.LEAST_RECENTLY_USED: Strategy(
        choose=least_recently_used,
        title="Least recently used",
        hint="The node whose last run of this job is the longest ago.",
        group=TURNS_GROUP,
        reason="Least recently used: its last run of this job is the longest ago.",
        detail=("count",),
        reason_without_detail="Least recently used: it has had no run of this job yet.",
        memory=Memory.USES,
    ),
    Routing.LEAST_FREQUENTLY_USED: Strategy(
        choose=least_frequently_used,
        title="Least frequently used",
        hint="The node that was given the fewest runs of this job.",
        group=TURNS_GROUP,
        reason="Least frequently used: %(count)d runs of this job so far.",
        detail=("count",),
        reason_without_detail="Least frequently used: it has had no run of this job yet.",
        memory=Memory.USES,
    ),
    Routing.RANDOM: Strategy(
        choose=random,
        title="Random",
        hint="Any node with a free slot, each equally likely.",
        group=TURNS_GROUP,
        reason="Random: one of %(nodes)d nodes.",
    ),
    Routing.LEAST_BUSY: Strategy(
        choose=least_busy,
        title="Least busy",
        hint="The node with the most free slots. For runs of uneven length.",
        group=LOAD_GROUP,
        reason="Least busy: %(used)d of %(slots)d slots used.",
    ),
    Routing.BUSY_OVER: Strategy(
        choose=busy_over,
        title="Busy over",
        hint="Passes over nodes that run this job already, to the first by name that does not."
        " When all do, the run waits.",
        group=LOAD_GROUP,
        reason="Busy over: the first by name that runs nothing of this job.",
        compares=False,
        memory=Memory.BUSY,
    ),
    Routing.CONSISTENT_HASH: Strategy(
        choose=consistent_hash,
        title="Consistent hash",
        hint="The same value of a parameter goes to the same node, also when others come and go."
        " For nodes that keep a cache.",
        group=SAME_NODE_GROUP,
        reason="Consistent hash: the node for “%(parameter)s” = %(value)s.",
        detail=("parameter", "value"),
        reason_without_detail="Consistent hash: the node for this job.",
        compares=False,
        hashes=True,
    ),
    Routing.FAILOVER: Strategy(
        choose=failover,  # of a pool in the job's order
        title="Failover",
        hint="The first of a list; the next stands in when it is away, full or refuses.",
        group=SAME_NODE_GROUP,
        reason="Failover: number %(place)d in the job's order.",
        detail=("place",),
        reason_without_detail="Failover: a node that stands in, for none of those named could take"
        " it.",
        compares=False,
        names=NodeNames.PREFERRED,
    ),
    Routing.PINNED: Strategy(
        choose=least_busy,  # of a pool that holds no others
        title="Pinned",
        hint="Only nodes that you name or choose by their labels. Runs wait for them.",
        group=SAME_NODE_GROUP,
        reason="Pinned: the least busy of its nodes, %(used)d of %(slots)d slots used.",
        compares=False,
        names=NodeNames.REQUIRED,
    ),
    Routing.FIRST: Strategy(
        choose=first,
        title="First",
        hint="The first node by name that has a free slot.",
        group=SAME_NODE_GROUP,
        reason="First: the first by name of %(nodes)d nodes.",
    ),
    Routing.LAST: Strategy(
        choose=first,  # of a pool in the opposite order
        title="Last",
        hint="The last node by name that has a free slot.",
        group=SAME_NODE_GROUP,
        reason="Last: the last by name of %(nodes)d nodes.",
        from_last=True,
    ),
    Routing.BROADCAST: Strategy(
        choose=least_busy,  # shards have a node each already
        title="Broadcast",
        hint="Every live node at once, each with its own shard of the run.",
        group=ALL_AT_ONCE_GROUP,
        reason="Broadcast: this shard is for this node.",
        compares=False,
        split=Split.PER_NODE,
    ),
    Routing.SHARDS: Strategy(
        choose=least_busy,
        title="Shards",
        hint="The run is cut into a fixed number of parts, spread over the nodes.",
        group=ALL_AT_ONCE_GROUP,
        reason="A shard, for the least busy node: %(used)d of %(slots)d slots used.",
        compares=False,
        split=Split.BY_NUMBER,
    ),
}
