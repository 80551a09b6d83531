"""Which node gets a run: small pure functions over the live nodes of an executor.

A candidate has a free slot, is not draining and offers the run's handler; the caller sees to that,
so no strategy can choose a dead or a full node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tickwheel_admin.domain.routing.policy import Routing


class RandomSource(Protocol):
    """What of `random.Random` the rules use."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to stop - 1."""
        ...


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A node as the router sees it; `free` shrinks as a batch is routed."""

    node_id: int
    name: str
    slots: int
    free: int


def choose(
    routing: Routing, candidates: Sequence[Candidate], *, cursor: int, random: RandomSource
) -> Candidate:
    """The node for one run.

    Args:
        candidates: at least one, each with `free` >= 1, in any order.
        cursor: how many runs of this job were routed before; only round robin looks at it.
    """
    match routing:
        case Routing.ROUND_ROBIN:
            ordered = sorted(candidates, key=_by_name)
            return ordered[cursor % len(ordered)]
        case Routing.RANDOM:
            return candidates[random.randrange(len(candidates))]
        case Routing.LEAST_BUSY | Routing.SHARDS | Routing.BROADCAST:
            return min(candidates, key=lambda c: (-c.free, c.slots - c.free, c.name, c.node_id))
        case _:
            return min(candidates, key=_by_name)


def _by_name(candidate: Candidate) -> tuple[str, int]:
    return candidate.name, candidate.node_id
