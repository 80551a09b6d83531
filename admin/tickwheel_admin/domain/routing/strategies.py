"""The routing strategies: each a small pure function from nodes and a run to one of the nodes.

A pool holds no dead node, and `Pool.open`, which is never empty here, none that is full, cordoned,
draining or has refused; a strategy chooses among those, so none can choose what may not be chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from tickwheel_admin.domain.routing.choice import short
from tickwheel_admin.domain.routing.narrowing import place_of
from tickwheel_admin.domain.routing.policy import Routing
from tickwheel_admin.domain.routing.pool import Candidate, Passed, Pool
from tickwheel_admin.domain.routing.uses import NEVER, Use, Uses

UNUSED = Uses({}, ())  # of jobs whose strategy counts no uses
MAX_TURNS_PASSED = 1_000  # of full nodes, for one run


class RandomSource(Protocol):
    """What of `random.Random` the rules use."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to stop - 1."""
        ...


class Ask(NamedTuple):
    """What a strategy may know of the run that it places; each looks at its own part only."""

    random: RandomSource
    job_id: int = 0
    turn: int = 0  # runs of this job that were routed before
    nodes: tuple[str, ...] = ()  # names, in the job's order
    key: str = ""  # what is hashed
    hash_by: str | None = None  # the parameter whose value that is; None: it is the job
    uses: Uses = UNUSED  # of the nodes by this job
    busy: Collection[int] = ()  # ids of the nodes that run this job


class Pick(NamedTuple):
    """A chosen node, and what its reason tells."""

    node: Candidate
    detail: tuple[int | str, ...] = ()  # as domain.routing.choice.Choice has it
    passed: Passed | None = None  # who came before it; None: it goes by no order


Strategy = Callable[[Pool, Ask], Pick | None]


def first(pool: Pool, ask: Ask) -> Pick:
    """The first in the pool's order: by name, by name from the end, or as the job names them."""
    node = pool.open[0]
    return Pick(node, passed=pool.before(node))


def failover(pool: Pool, ask: Ask) -> Pick:
    """The first in the job's order, and its place there."""
    node, _, passed = first(pool, ask)
    place = place_of(ask.nodes, node.name) if ask.nodes else None
    return Pick(node, () if place is None else (place,), passed)


def random(pool: Pool, ask: Ask) -> Pick:
    """Any."""
    return Pick(pool.open[ask.random.randrange(len(pool.open))])


def round_robin(pool: Pool, ask: Ask) -> Pick:
    """One after the other."""
    place = ask.turn % len(pool.open)
    return Pick(pool.open[place], (place + 1,))


def weighted(pool: Pool, ask: Ask) -> Pick:
    """One after the other, each as often as its weight; the turn of a full one goes to the next."""
    for turn in range(ask.turn, ask.turn + MAX_TURNS_PASSED):
        node = pool.of_turn(turn)
        if pool.why_not(node) is None:
            break
    else:  # the heavy ones are full, and the turns of the others may be a million away
        node = pool.open[ask.turn % len(pool.open)]
    return Pick(node, (node.weight, pool.weight))


def least_busy(pool: Pool, ask: Ask) -> Pick:
    """Most free slots, then fewest running."""
    return Pick(pool.best("busyness", busyness))


def consistent_hash(pool: Pool, ask: Ask) -> Pick:
    """The node that the key belongs to, or the next one on the ring that can take the run."""
    node, passed = pool.owner(ask.key)
    return Pick(node, () if ask.hash_by is None else (short(ask.hash_by), short(ask.key)), passed)


def least_frequently_used(pool: Pool, ask: Ask) -> Pick:
    """The one with the fewest runs of the job; of equal ones that which had none for longest."""
    node = pool.best((ask.job_id, "frequency"), ask.uses.frequency)
    return Pick(node, _runs(ask.uses.of(node.node_id)))


def least_recently_used(pool: Pool, ask: Ask) -> Pick:
    """The one whose last run of the job is longest ago; those that had none go first."""
    node = pool.best((ask.job_id, "recency"), ask.uses.recency)
    return Pick(node, _runs(ask.uses.of(node.node_id)))


def busy_over(pool: Pool, ask: Ask) -> Pick | None:
    """The first by name that runs nothing of the job; None: each runs it, so the run waits."""
    node = next((each for each in pool.open if each.node_id not in ask.busy), None)
    return None if node is None else Pick(node, passed=pool.before(node))


STRATEGIES: Mapping[Routing, Strategy] = {
    Routing.ROUND_ROBIN: round_robin,
    Routing.LEAST_BUSY: least_busy,
    Routing.RANDOM: random,
    Routing.WEIGHTED: weighted,
    Routing.CONSISTENT_HASH: consistent_hash,
    Routing.LEAST_FREQUENTLY_USED: least_frequently_used,
    Routing.LEAST_RECENTLY_USED: least_recently_used,
    Routing.FIRST: first,
    Routing.LAST: first,  # of a pool in the opposite order
    Routing.FAILOVER: failover,  # of a pool in the job's order
    Routing.BUSY_OVER: busy_over,
    Routing.PINNED: least_busy,  # of a pool that holds no others
    Routing.BROADCAST: least_busy,  # whose shards have a node each already
    Routing.SHARDS: least_busy,
}


def _runs(use: Use) -> tuple[int, ...]:
    return () if use.last_turn == NEVER else (use.runs,)


def busyness(node: Candidate) -> tuple[int, int]:
    """Less is less busy."""
    return -node.free, node.slots - node.free
