"""The live nodes of an executor, with the slots that are left while a batch of runs is placed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec

from tickwheel_admin.domain.backfills.slots import is_of_backfill, spare_slots
from tickwheel_admin.domain.executors.node import Node, NodeTargets
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.choice import CHOSEN, ONLY, Choice, Why
from tickwheel_admin.domain.routing.hash_ring import value_to_hash
from tickwheel_admin.domain.routing.policy import RoutingPolicy, admits, in_order, pool_key
from tickwheel_admin.domain.routing.pool import Candidate, Pool
from tickwheel_admin.domain.routing.strategy import UNUSED, Pick, RandomSource, RunToPlace, Split
from tickwheel_admin.domain.routing.uses import Use, Uses
from tickwheel_admin.domain.runs.blocking import Blocking, WhenCutOff
from tickwheel_admin.domain.runs.run import Origin


class RunOfJob(Protocol):
    """As much of a run as says which nodes it may go to."""

    @property
    def job_id(self) -> int: ...

    @property
    def job_revision(self) -> int: ...


class RoutedRun(RunOfJob, Protocol):
    """As much of a run as the choice of its node looks at."""

    @property
    def pinned_node_id(self) -> int | None: ...

    @property
    def parameters(self) -> str | None: ...

    @property
    def origin(self) -> Origin: ...

    @property
    def priority(self) -> int: ...


class Placement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a run goes."""

    node_id: int
    turn: int  # of its job
    choice: str  # JSON of the reason; empty: the router tells none


class Router:
    """Chooses nodes for one claim transaction."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        avoided: Collection[tuple[int, str]],
        random: RandomSource,
        rooms: Mapping[int, int] = MappingProxyType({}),
        connected: Collection[int] = (),
        reasons: bool = True,
    ) -> None:
        """Look at the live nodes.

        Args:
            avoided: (node, handler) that refused a moment ago.
            rooms: nodes that take fewer runs now than they have free slots, and how many.
            connected: nodes that this admin can send runs to, whatever their rows say.
            reasons: whether placements say why; writing that takes longer than the choice.
        """
        self._nodes = {node.id: node for node in nodes}
        self._avoided = avoided
        self._resting = {node_id for node_id, room in rooms.items() if room <= 0}
        self._random = random
        self._reasons = reasons
        # Sorted here: databases do not agree about the order of names.
        self._candidates = {
            node.id: _candidate(
                node,
                rooms.get(node.id),
                is_cut_off=node.is_cut_off and node.id not in connected,
            )
            for node in sorted(nodes, key=lambda each: (each.name, each.id))
        }
        taking = [each for each in self._candidates.values() if each.aside is None]
        self.size = len(taking)  # nodes that take runs
        self.slots = sum(each.slots for each in taking)
        self.free_slots = sum(max(0, each.free) for each in taking)  # left on all of them
        self._filled: list[Candidate] = []  # as they lose their last slot
        self._offering: dict[str, list[Candidate]] = {}  # by handler
        self._pools: dict[tuple[object, ...], Pool] = {}
        self._pool_of_job: dict[tuple[int, int], Pool] = {}  # by job and revision
        # What the claim reads for jobs that need it, and what becomes of that as runs are placed.
        self.turns: dict[int, int] = {}  # job -> runs that were routed before; of those that count
        self.stored_uses: Mapping[int, Mapping[int, Use]] = {}  # job -> node -> what it had
        self.busy: dict[int, set[int]] = {}  # job -> nodes that run it
        self._uses: dict[int, Uses] = {}

    def begin_again(self, in_use: Mapping[int, int]) -> None:
        """Another claim begins, on the same nodes: only their slots in use are other ones.

        For forecasts, which claim tens of thousands of times. A router with `rooms` has none of it.

        Args:
            in_use: slots by node; those left out have none in use.
        """
        self.free_slots = 0
        for node_id, each in self._candidates.items():
            if not each.is_cut_off:
                each.free = each.slots - in_use.get(node_id, 0)
            if each.aside is None:
                self.free_slots += max(0, each.free)
        self._filled = []
        self._pools.clear()
        self._pool_of_job.clear()
        self._uses.clear()

    def knows(self, node_id: int) -> bool:
        """Whether the node is live, be it that it takes no runs."""
        return node_id in self._nodes

    def targets_of(self, node_id: int) -> NodeTargets:
        """What operators wanted of a live node when it was chosen."""
        return self._nodes[node_id].targets

    def offers(self, handler: str) -> bool:
        """Whether any node takes runs for the handler."""
        return any(each.aside is None for each in self._live(handler))

    def matches(self, run: RunOfJob, config: JobConfig) -> bool:
        """Whether any node takes runs of the job, be it full."""
        return bool(self._pool(run, config).taking)

    def has_room(self, run: RoutedRun, config: JobConfig) -> bool:
        """Whether a node that may run it has a free slot."""
        if run.pinned_node_id is not None:
            node = self._candidates.get(run.pinned_node_id)
            return node is not None and node.aside is None and node.free > 0
        return any(each.free > 0 for each in self._pool(run, config).taking)

    def matching(self, run: RunOfJob, config: JobConfig) -> list[int]:
        """Nodes that take runs of the job, full or not: by name, if it is a broadcast."""
        return [each.node_id for each in self._pool(run, config).taking]

    def place(self, run: RoutedRun, config: JobConfig) -> Placement | None:
        """The chosen node, with one slot less; None when none is free for it."""
        pool = self._pool(run, config)
        if is_of_backfill(run) and pool.taking and not _has_spare(pool):
            return None
        if run.pinned_node_id is not None:
            return self._place_there(run, config, run.pinned_node_id)
        if not pool.settle():
            return None
        known = self._what_is_known(run, config, pool)
        pick = config.routing.record.choose(pool, known)
        if pick is None:
            return None
        choice = _choice(pick, pool, config.routing) if self._reasons else None
        if run.job_id in self.turns:
            self.turns[run.job_id] = known.turn + 1
        return self._take(run, pick.node, choice, uses=known.uses, turn=known.turn)

    def uses_of(self, job_id: int, claimed: Iterable[Placement]) -> dict[int, Use]:
        """What is to be kept of a job: nodes new to it, and uses by what was claimed in the end."""
        uses = Uses(self.stored_uses[job_id], self._uses[job_id].present)
        for each in claimed:
            uses.used(each.node_id, turn=each.turn)
        return uses.changed

    def must_stop_when_cut_off(self, node_id: int, config: JobConfig) -> bool:
        """Whether the node has to end an attempt when it hears from no admin."""
        policy = config.blocking
        return (
            policy.strategy is not Blocking.PARALLEL
            and policy.when_cut_off is WhenCutOff.STOP
            and self._nodes[node_id].stops(config.handler)
        )

    # --- the parts of it -------------------------------------------------------------------------

    def _live(self, handler: str) -> list[Candidate]:
        """Nodes that offer the handler, by name; also those that take no runs."""
        found = self._offering.get(handler)
        if found is None:
            nodes = self._nodes
            found = [c for c in self._candidates.values() if nodes[c.node_id].offers(handler)]
            self._offering[handler] = found
        return found

    def _pool(self, run: RunOfJob, config: JobConfig) -> Pool:
        """The nodes that the job's runs are spread over; jobs that ask for the same share it."""
        pool = self._pool_of_job.get((run.job_id, run.job_revision))
        if pool is None:
            policy = config.routing
            key = (config.handler, *pool_key(policy))
            pool = self._pools.get(key)
            if pool is None:
                admitted = [
                    each
                    for each in self._live(config.handler)
                    if admits(policy, name=each.name, labels=self._nodes[each.node_id].labels)
                ]
                pool = self._pools[key] = Pool(
                    in_order(admitted, policy),
                    refused=self._resting.union(
                        node for node, handler in self._avoided if handler == config.handler
                    ),
                    filled=self._filled,
                )
            self._pool_of_job[run.job_id, run.job_revision] = pool
        return pool

    def _what_is_known(self, run: RoutedRun, config: JobConfig, pool: Pool) -> RunToPlace:
        policy, job_id = config.routing, run.job_id
        key, hash_by = "", policy.hash_by
        if policy.record.hashes:
            parameters = config.parameters if run.parameters is None else run.parameters
            value = None if hash_by is None else value_to_hash(parameters, hash_by)
            if value is None:
                hash_by = None
            key = f"job {job_id}" if value is None else value
        return RunToPlace(
            random=self._random,
            job_id=job_id,
            turn=self.turns.get(job_id, 0),
            nodes=policy.nodes,
            key=key,
            hash_by=hash_by,
            uses=self._uses_of(job_id, pool),
            busy=self.busy.get(job_id, ()),
        )

    def _uses_of(self, job_id: int, pool: Pool) -> Uses:
        """The uses by a job whose routing counts them, as they are by now."""
        if job_id not in self.stored_uses:
            return UNUSED
        uses = self._uses.get(job_id)
        if uses is None:
            uses = self._uses[job_id] = Uses(self.stored_uses[job_id], pool.taking)
        return uses

    def _place_there(self, run: RoutedRun, config: JobConfig, node_id: int) -> Placement | None:
        """The one node that the run may go to."""
        node = self._candidates.get(node_id)
        if (
            node is None
            or node.aside is not None
            or node.free <= 0
            or not self._nodes[node_id].offers(config.handler)
            or (node_id, config.handler) in self._avoided
        ):
            return None
        for_this_node = config.routing.record.split is Split.PER_NODE
        by = config.routing.strategy.value if for_this_node else CHOSEN
        choice = Choice(by, 1, node.slots - node.free, node.slots) if self._reasons else None
        # It is not its turn, but it was used.
        uses = self._uses_of(run.job_id, self._pool(run, config))
        return self._take(run, node, choice, uses=uses, turn=self.turns.get(run.job_id, 0))

    def _take(
        self, run: RoutedRun, node: Candidate, choice: Choice | None, *, uses: Uses, turn: int
    ) -> Placement:
        """Take a slot, and remember that the job has used the node."""
        node.free -= 1
        self.free_slots -= 1
        if node.free == 0:
            self._filled.append(node)
        busy = self.busy.get(run.job_id)
        if busy is not None:
            busy.add(node.node_id)
        if uses is not UNUSED:
            uses.used(node.node_id, turn=turn)
        told = "" if choice is None else choice.to_json()
        return Placement(node_id=node.node_id, turn=turn, choice=told)


def _has_spare(pool: Pool) -> bool:
    """Whether a slot is free that is not kept for fires on time."""
    free = sum(max(0, each.free) for each in pool.taking)
    return spare_slots(free, sum(each.slots for each in pool.taking)) > 0


def _candidate(node: Node, room: int | None, *, is_cut_off: bool) -> Candidate:
    aside = Why.CORDONED if node.cordoned else Why.DRAINING if node.draining else None
    free = 0 if is_cut_off else node.slots - node.in_use
    return Candidate(
        node_id=node.id,
        name=node.name,
        slots=node.slots,
        free=free if room is None else min(free, room),
        weight=node.weight,
        aside=aside,
        is_cut_off=is_cut_off,
    )


def _choice(pick: Pick, pool: Pool, policy: RoutingPolicy) -> Choice:
    """The reason, before the node's slot is taken."""
    node, detail, passed = pick
    told, more = pool.passed_over(passed)
    only = len(pool.open) == 1 and policy.record.compares
    return Choice(
        ONLY if only else policy.strategy.value,
        len(pool.open),
        node.slots - node.free,
        node.slots,
        told,
        more,
        () if only else detail,
    )
