"""What runs need, from the configurations of their jobs and the nodes that there were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tickwheel_admin.domain.delays.history import HistoryNode, RunNeed
from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.policy import admits, pool_key
from tickwheel_admin.domain.routing.strategy import Split
from tickwheel_admin.domain.runs.blocking import Blocking


class RunNeeds:
    """Needs by number: jobs that ask for the same share one."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Look at these nodes."""
        self._nodes = nodes
        self._numbers: dict[RunNeed, int] = {}
        self._admitting: dict[object, tuple[int, ...]] = {}

    @property
    def needs(self) -> tuple[RunNeed, ...]:
        """In the order of their numbers."""
        return tuple(self._numbers)

    def number_of(self, config: JobConfig | None) -> int:
        """Of a job; None: it is gone, and is taken for one that may run anywhere."""
        if config is None:
            need = RunNeed(
                nodes=tuple(node.id for node in self._nodes),
                is_parallel=True, concurrency=1, is_broadcast=False, pool_slots=1,
            )  # fmt: skip
        else:
            need = RunNeed(
                nodes=self._nodes_for(config),
                is_parallel=config.blocking.strategy is Blocking.PARALLEL,
                concurrency=config.blocking.concurrency,
                is_broadcast=config.routing.record.split is Split.PER_NODE,
                pool_slots=1 if config.pool is None else config.pool.slots,
            )
        return self._numbers.setdefault(need, len(self._numbers))

    def _nodes_for(self, config: JobConfig) -> tuple[int, ...]:
        key = config.handler, pool_key(config.routing)
        found = self._admitting.get(key)
        if found is None:
            found = self._admitting[key] = tuple(
                node.id
                for node in self._nodes
                if node.offers(config.handler)
                and admits(config.routing, name=node.name, labels=node.labels)
            )
        return found


def past_nodes(nodes: Iterable[Node], last_given: Mapping[int, int]) -> tuple[HistoryNode, ...]:
    """Nodes while they took runs, as far as is known.

    One that takes none at present is taken to have stopped with the last run that it was given.

    Args:
        last_given: by node, when that was.
    """
    return tuple(
        HistoryNode(
            id=node.id,
            slots=node.slots,
            from_at=node.connected_at,
            until_at=_until(node, last_given.get(node.id, node.connected_at)),
        )
        for node in nodes
    )


def _until(node: Node, last_given: int) -> int | None:
    if node.state is not NodeState.LIVE:
        return node.ended_at
    return None if node.takes_runs else last_given
