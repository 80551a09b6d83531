"""How often, and how lately, each node was given runs of one job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tickwheel_admin.domain.routing.pool import Candidate

NEVER = -1  # before every turn


class Use(NamedTuple):
    """What one node had of one job (table `job_node`)."""

    runs: int  # a node that is new to the job begins where those with the fewest stand
    last_turn: int  # the job's turn at which it had the last one; NEVER


class Uses:
    """The uses of all nodes by one job, counted on while a batch is placed."""

    def __init__(self, known: Mapping[int, Use], present: Collection[Candidate]) -> None:
        """Begin with what is stored.

        Args:
            known: by node id.
            present: the nodes that take runs of the job now; they say where a new one begins.
        """
        self.present = present
        self._known = dict(known)
        counts = [known[node.node_id].runs for node in present if node.node_id in known]
        self._new = Use(runs=min(counts, default=0), last_turn=NEVER)

    def of(self, node_id: int) -> Use:
        """What the node had."""
        return self._known.get(node_id, self._new)

    def used(self, node_id: int, *, turn: int) -> Use:
        """The node is given a run; returns what it has had then."""
        use = Use(runs=self.of(node_id).runs + 1, last_turn=turn)
        self._known[node_id] = use
        return use

    def frequency(self, node: Candidate) -> Use:
        """Less was used less often; of equal ones, longer ago."""
        return self.of(node.node_id)

    def recency(self, node: Candidate) -> int:
        """Less was used longer ago."""
        return self.of(node.node_id).last_turn
