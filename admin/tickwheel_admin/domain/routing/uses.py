"""How often, and how lately, each node was given runs of one job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tickwheel_admin.domain.routing.pool import Candidate

NEVER = -1  # before every turn


class Use(NamedTuple):
    """What one node had of one job (table `job_node`)."""

    runs: int  # a node that is new to the job begins with as many as the least used one has
    last_turn: int  # the job's turn at which it had the last one; NEVER


class Uses:
    """The uses of all nodes by one job, counted on while a batch is placed."""

    def __init__(self, known: Mapping[int, Use], present: Collection[Candidate]) -> None:
        """Begin with what is stored.

        Args:
            known: by node id.
            present: the nodes that take runs of the job now.
        """
        self.present = present
        fewest = min(
            (known[node.node_id].runs for node in present if node.node_id in known), default=0
        )
        self._new = Use(runs=fewest, last_turn=NEVER)
        self.changed = {  # what is to be kept
            node.node_id: self._new for node in present if node.node_id not in known
        }
        self._known = {**known, **self.changed}

    def of(self, node_id: int) -> Use:
        """What a node had."""
        return self._known.get(node_id, self._new)

    def used(self, node_id: int, *, turn: int) -> None:
        """The node is given a run."""
        use = Use(runs=self.of(node_id).runs + 1, last_turn=turn)
        self._known[node_id] = self.changed[node_id] = use

    def frequency(self, node: Candidate) -> Use:
        """Less was used less often; of equal ones, longer ago."""
        return self.of(node.node_id)

    def recency(self, node: Candidate) -> int:
        """Less was used longer ago."""
        return self.of(node.node_id).last_turn
