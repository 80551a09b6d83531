"""The live nodes of an executor, with the slots that are left while a batch of runs is placed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from tickwheel_admin.domain.blocking import Blocking, WhenCutOff
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.node import Node
from tickwheel_admin.domain.routing.strategies import Candidate, RandomSource, choose
from tickwheel_admin.domain.run import Run


class Router:
    """Chooses nodes for one claim transaction."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        avoided: Collection[tuple[int, str]],
        random: RandomSource,
    ) -> None:
        """Look at the live nodes.

        Args:
            avoided: (node, handler) that refused a moment ago.
        """
        self._nodes = {node.id: node for node in nodes}
        self._avoided = avoided
        self._random = random
        self._candidates = {
            node.id: Candidate(
                node_id=node.id, name=node.name, slots=node.slots, free=node.slots - node.in_use
            )
            for node in nodes
            if node.takes_runs
        }
        self._offering: defaultdict[str, list[Candidate]] = defaultdict(list)
        for node_id, candidate in self._candidates.items():
            for handler in self._nodes[node_id].handlers:
                self._offering[handler].append(candidate)
        self.cursors: dict[int, int] = {}  # job -> runs routed so far, for round robin

    @property
    def size(self) -> int:
        """How many nodes take runs."""
        return len(self._candidates)

    @property
    def free_slots(self) -> int:
        """Slots left on all of them."""
        return sum(max(0, candidate.free) for candidate in self._candidates.values())

    def knows(self, node_id: int) -> bool:
        """Whether the node is live, be it that it takes no runs."""
        return node_id in self._nodes

    def offers(self, handler: str) -> bool:
        """Whether any node takes runs for the handler."""
        return handler in self._offering

    def offering(self, handler: str) -> list[int]:
        """Nodes that take runs for the handler, by name."""
        found = sorted(self._offering.get(handler, ()), key=lambda c: (c.name, c.node_id))
        return [candidate.node_id for candidate in found]

    def place(self, run: Run, config: JobConfig) -> int | None:
        """The chosen node, with one slot less; None when none is free."""
        candidates = [
            candidate
            for candidate in self._offering.get(config.handler, ())
            if candidate.free > 0
            and (candidate.node_id, config.handler) not in self._avoided
            and run.pinned_node_id in (None, candidate.node_id)
        ]
        if not candidates:
            return None
        cursor = self.cursors.get(run.job_id, 0)
        chosen = choose(config.routing.strategy, candidates, cursor=cursor, random=self._random)
        self.cursors[run.job_id] = cursor + 1
        chosen.free -= 1
        return chosen.node_id

    def must_stop_when_cut_off(self, node_id: int, config: JobConfig) -> bool:
        """Whether the node has to end an attempt when it hears from no admin."""
        policy = config.blocking
        return (
            policy.strategy is not Blocking.PARALLEL
            and policy.when_cut_off is WhenCutOff.STOP
            and config.handler not in self._nodes[node_id].unstoppable
        )
