"""The slots of one executor in a forecast.

Where every node may run every job, it makes no difference to any start which node a run is given,
so the slots are only counted. Else the router chooses, as it does in a claim.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Protocol

from tickwheel_admin.domain.claims.router import Router
from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.forecast.draws import SeededRandom
from tickwheel_admin.domain.forecast.runs import ForecastRun, JobModel
from tickwheel_admin.domain.routing.policy import admits
from tickwheel_admin.domain.routing.strategy import Memory, Split
from tickwheel_admin.domain.routing.uses import Use

COUNTED = 0  # the node of a run whose slot is only counted


class Slots(Protocol):
    """Who takes slots, and gives them back."""

    total: int  # of the nodes that take runs
    in_use: int

    @property
    def free(self) -> int:
        """Slots that are left."""
        ...

    def begin(self) -> None:
        """A claim begins."""
        ...

    def place(self, run: ForecastRun) -> int | None:
        """The node that the run is given; None: none has a slot for it."""
        ...

    def take(self, model: JobModel, node_id: int) -> int:
        """A run is there already when the forecast begins; returns where that is counted."""
        ...

    def release(self, model: JobModel, node_id: int) -> None:
        """A run of the job has ended where it was placed, or counted."""
        ...

    def matching(self, model: JobModel) -> list[int]:
        """Nodes that take runs of a job, full or not."""
        ...


class CountedSlots:
    """Of nodes that make no difference."""

    def __init__(self, nodes: Sequence[Node], unplaceable: frozenset[int]) -> None:
        """Begin with nothing in use.

        Args:
            nodes: those that take runs.
            unplaceable: jobs that no node takes runs of.
        """
        self.total = sum(node.slots for node in nodes)
        self.in_use = 0
        self._nodes = [node.id for node in nodes]
        self._unplaceable = unplaceable

    @property
    def free(self) -> int:
        return self.total - self.in_use

    def begin(self) -> None:
        pass

    def place(self, run: ForecastRun) -> int | None:
        if self.in_use >= self.total or run.model.id in self._unplaceable:
            return None
        self.in_use += 1
        return COUNTED

    def take(self, model: JobModel, node_id: int) -> int:
        if node_id not in self._nodes:
            return -1  # on a node that takes no more: it is in nobody's way
        self.in_use += 1
        return COUNTED

    def release(self, model: JobModel, node_id: int) -> None:
        if node_id == COUNTED:
            self.in_use -= 1

    def matching(self, model: JobModel) -> list[int]:
        return [] if model.id in self._unplaceable else self._nodes


class RoutedSlots:
    """Of nodes among which the router chooses."""

    def __init__(self, nodes: Sequence[Node], *, seed: int) -> None:
        """Begin with nothing in use.

        Args:
            nodes: also those that take no runs.
        """
        self._taking = {node.id for node in nodes if node.takes_runs}
        self.total = sum(node.slots for node in nodes if node.takes_runs)
        self._used: Counter[int] = Counter()
        self.in_use = 0
        self._random = SeededRandom(seed)
        self._turns: dict[int, int] = {}
        self._uses: dict[int, dict[int, Use]] = {}  # job -> node -> what it had
        self._busy: defaultdict[int, Counter[int]] = defaultdict(Counter)  # job -> node -> runs
        self._jobs: dict[tuple[int, int], Counter[int]] = {}
        self._is_changed = True  # slots were taken or given back outside of a claim
        self._router = Router(nodes, avoided=(), random=self._random, reasons=False)
        self._router.stored_uses = self._uses

    @property
    def free(self) -> int:
        self.begin()
        return self._router.free_slots

    def begin(self) -> None:
        # A new router for each claim would take most of the time of a forecast.
        if self._is_changed:
            self._router.begin_again(self._used)
            self._is_changed = False

    def place(self, run: ForecastRun) -> int | None:
        model, router = run.model, self._router
        memory = model.config.routing.record.memory
        if memory is not None:
            router.turns[model.id] = self._turns.get(model.id, 0)
        if memory is Memory.USES:
            self._uses.setdefault(model.id, {})
        elif memory is Memory.BUSY:
            router.busy[model.id] = {node for node, runs in self._busy[model.id].items() if runs}
        placement = router.place(run, model.config)
        if placement is None:
            return None
        if memory is not None:
            self._turns[model.id] = placement.turn + 1
        if memory is Memory.USES:
            self._uses[model.id].update(router.uses_of(model.id, [placement]))
        elif memory is Memory.BUSY:
            self._busy[model.id][placement.node_id] += 1
        self._take(placement.node_id)
        return placement.node_id

    def take(self, model: JobModel, node_id: int) -> int:
        self._take(node_id)
        self._is_changed = True
        if model.config.routing.record.memory is Memory.BUSY:
            self._busy[model.id][node_id] += 1
        return node_id

    def release(self, model: JobModel, node_id: int) -> None:
        self._used[node_id] -= 1
        self._is_changed = True
        if node_id in self._taking:
            self.in_use -= 1
        if model.config.routing.record.memory is Memory.BUSY:
            self._busy[model.id][node_id] -= 1

    def matching(self, model: JobModel) -> list[int]:
        probe = _Probe(model.id, model.revision)
        return self._router.matching(probe, model.config)

    def _take(self, node_id: int) -> None:
        self._used[node_id] += 1
        if node_id in self._taking:
            self.in_use += 1


class _Probe:
    def __init__(self, job_id: int, job_revision: int) -> None:
        self.job_id = job_id
        self.job_revision = job_revision


def slots_of(
    nodes: Sequence[Node], models: Sequence[JobModel], *, seed: int, routed: bool = False
) -> Slots:
    """The slots of an executor with these live nodes and jobs.

    Args:
        routed: let the router choose in any case.
    """
    taking = [node for node in nodes if node.takes_runs]
    unplaceable = set()
    for model in models:
        if model.is_workflow:
            continue
        policy, record = model.config.routing, model.config.routing.record
        admitted = sum(
            node.offers(model.config.handler) and admits(policy, name=node.name, labels=node.labels)
            for node in taking
        )
        if not admitted:
            unplaceable.add(model.id)
        elif (
            admitted < len(taking) or record.split is Split.PER_NODE or record.memory is Memory.BUSY
        ):
            routed = True
    if routed:
        return RoutedSlots(nodes, seed=seed)
    return CountedSlots(taking, frozenset(unplaceable))
