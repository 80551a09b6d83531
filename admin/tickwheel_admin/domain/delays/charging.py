"""The start delay of each run in parts, and what other runs are charged of it.

One sweep over the attempts, the waits and the nodes in the order of time. The parts of a run are
whole ms, and their sum is its delay; what is charged is split, and so is not whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.delays.history import (
    NO_NODE_ID,
    DelayHistory,
    DelayKind,
    HistoryRun,
    Hold,
    RunWait,
    Stretch,
    wait_of,
)
from tickwheel_admin.domain.delays.lanes import lanes_of, turns_of
from tickwheel_admin.domain.delays.places import (
    CLAIM_MS,
    Arrived,
    Charges,
    NodeUse,
    PlaceSnapshot,
    PoolUse,
    WaitingPlace,
    nodes_named,
)
from tickwheel_admin.domain.pools.pool import slots_taken

KINDS = tuple(DelayKind)
Parts = tuple[int, ...]  # ms by place in KINDS
_FROM_PLACE = tuple(
    KINDS.index(kind)
    for kind in (
        DelayKind.NO_NODE, DelayKind.SLOT, DelayKind.POOL, DelayKind.OTHER, DelayKind.CLAIM,
    )
)  # fmt: skip
# At one instant those who leave go first, so that a slot that changes hands is not held twice.
_LEAVES, _GIVES, _NODE_ENDS, _NODE_COMES, _TAKES, _ARRIVES = range(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedDelays:
    """What a sweep found."""

    parts: Mapping[int, Parts]  # of each measured run that waited
    # ms of waiting for slots of nodes, and of pools, by (row, run or job that held them)
    of_nodes: Mapping[tuple[int, int], float]
    of_pools: Mapping[tuple[int, int], float]
    turns: Mapping[int, Sequence[Stretch]]  # when it was the turn of runs of lanes


def charge_delays(
    history: DelayHistory,
    rows: Mapping[int, int] | None = None,
    *,
    count: int = 0,
    by_job: bool = False,
) -> ChargedDelays:
    """Split the delays within the history's time, and charge those of some runs.

    Args:
        rows: by run, the row that its waiting is charged in; others are charged to nobody.
        count: how many rows there are.
        by_job: charge jobs instead of runs.
    """
    lanes = lanes_of(history)
    turns = turns_of(lanes, history)
    sweep = _Sweep(history, rows or {}, count, by_job=by_job)
    found: dict[int, list[int]] = {}
    of_fires: dict[int, tuple[int, list[int]]] = {}
    shards: list[tuple[HistoryRun, RunWait]] = []
    for run in history.runs:
        if not (run.is_measured or run.has_no_node):
            continue
        wait = wait_of(run, history)
        if wait is None:
            continue
        mine = turns.get(run.id)
        stretches = [wait.queued] if mine is None else mine
        parts = [0] * len(KINDS)
        at_turn = sum(each.ms for each in stretches)
        _add(parts, DelayKind.PLANNED_LATE, wait.planned_ms)
        _add(parts, DelayKind.BLOCKED, wait.queued.ms - at_turn)
        _add(parts, DelayKind.ACCEPT, wait.accept_ms)
        if run.has_no_node:
            for each in stretches:
                _add(parts, DelayKind.CLAIM, min(each.ms, CLAIM_MS))
                _add(parts, DelayKind.OTHER, max(each.ms - CLAIM_MS, 0))
        else:
            for each in stretches:
                sweep.wait(run, each, parts)
        if run.is_measured:
            found[run.id] = parts
            if run.fire_id is not None and wait.planned_ms:
                shards.append((run, wait))
        if run.shard_index < 0:
            of_fires[run.id] = wait.planned_ms, parts
    sweep.run()
    for run, wait in shards:
        _wait_of_its_fire(found[run.id], wait.planned_ms, of_fires.get(run.fire_id or 0))
    return ChargedDelays(
        parts={run_id: tuple(parts) for run_id, parts in found.items()},
        of_nodes=sweep.of_nodes,
        of_pools=sweep.of_pools,
        turns=turns,
    )


def _add(parts: list[int], kind: DelayKind, ms: int) -> None:
    parts[KINDS.index(kind)] += ms


def _wait_of_its_fire(
    parts: list[int], planned_ms: int, fire: tuple[int, list[int]] | None
) -> None:
    """A shard is written when its fire is claimed: up to then it waited as its fire did."""
    if fire is None:
        return
    left = planned_ms - min(fire[0], planned_ms)
    _add(parts, DelayKind.PLANNED_LATE, -left)
    for kind in (DelayKind.BLOCKED, DelayKind.OTHER, DelayKind.CLAIM):
        ms = min(left, fire[1][KINDS.index(kind)])
        _add(parts, kind, ms)
        left -= ms
    _add(parts, DelayKind.OTHER, left)


class _Sweep:
    """Goes through what happened in the order of time."""

    def __init__(
        self, history: DelayHistory, rows: Mapping[int, int], count: int, *, by_job: bool
    ) -> None:
        self._by_job = by_job
        self._history = history
        self._rows = rows
        self._count = count
        self.of_nodes: Charges = defaultdict(float)
        self.of_pools: Charges = defaultdict(float)
        self._nodes = {node.id: NodeUse(node.slots) for node in history.nodes if node.slots > 0}
        self._pools = {pool_id: PoolUse(slots) for pool_id, slots in history.pools.items()}
        self._places: dict[tuple[frozenset[int], int | None, int], WaitingPlace] = {}
        # (instant, what, number): the number finds its particulars, and makes the order total.
        self._events: list[tuple[int, int, int]] = []
        self._waits: list[tuple[WaitingPlace, int | None, list[int]]] = []
        self._holds: list[tuple[HistoryRun, Hold]] = []

    def wait(self, run: HistoryRun, stretch: Stretch, parts: list[int]) -> None:
        """A run waits for a slot; its parts are added to."""
        if not stretch.ms:
            return
        number = len(self._waits)
        self._waits.append((self._place_of(run), self._rows.get(run.id), parts))
        self._events.append((stretch.from_at, _ARRIVES, number))
        self._events.append((stretch.until_at, _LEAVES, number))

    def _place_of(self, run: HistoryRun) -> WaitingPlace:
        need = self._history.needs[run.need]
        ids = frozenset(need.nodes if run.pinned_node_id is None else (run.pinned_node_id,))
        pool = self._pools.get(run.pool_id or 0)
        key = ids, None if pool is None else run.pool_id, 0 if pool is None else need.pool_slots
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = WaitingPlace(
                nodes_named(ids, self._nodes),
                pool,
                share=need.pool_slots,
                rows=self._count,
                at=self._history.from_at,
            )
            for node in found.nodes:
                node.places.append(found)
            if pool is not None:
                pool.places.append(found)
        return found

    def run(self) -> None:
        """Sweep."""
        low, high = self._history.from_at, self._history.until_at
        for number, node in enumerate(self._history.nodes):
            if node.id in self._nodes and node.from_at < high:
                self._events.append((max(node.from_at, low), _NODE_COMES, number))
                if node.until_at is not None and node.until_at < high:
                    self._events.append((max(node.until_at, low), _NODE_ENDS, number))
        for run in self._history.runs:
            for hold in run.holds:
                until = high if hold.until_at is None else min(hold.until_at, high)
                since = max(hold.from_at, low)
                if since < until and (hold.node_id != NO_NODE_ID):
                    number = len(self._holds)
                    self._holds.append((run, hold))
                    self._events.append((since, _TAKES, number))
                    self._events.append((until, _GIVES, number))
        self._events.sort()
        arrived: dict[int, Arrived] = {}
        held: dict[int, list[tuple[WaitingPlace, PlaceSnapshot, bool, bool]]] = {}
        for at, what, number in self._events:
            if what == _ARRIVES:
                place, row, _ = self._waits[number]
                place.advance(at)
                arrived[number] = place.arrive(row)
            elif what == _LEAVES:
                place, row, parts = self._waits[number]
                place.advance(at)
                for index, ms in zip(
                    _FROM_PLACE, place.leave(row, arrived.pop(number)), strict=True
                ):
                    parts[index] += ms
            elif what == _TAKES:
                held[number] = self._take(number, at)
            elif what == _GIVES:
                self._give(number, at, held.pop(number))
            else:
                use = self._nodes[self._history.nodes[number].id]
                self._node_is(use, there=what == _NODE_COMES, at=at)

    def _node_is(self, node: NodeUse, *, there: bool, at: int) -> None:
        if node.is_there is there:
            return
        node.is_there = there
        change = 1 if there else -1
        for place in node.places:
            place.advance(at)
            place.there += change
            place.full += change if node.is_full else 0
            place.settle()

    def _take(self, number: int, at: int) -> list[tuple[WaitingPlace, PlaceSnapshot, bool, bool]]:
        run, hold = self._holds[number]
        node, pool = self._nodes.get(hold.node_id), self._pools.get(run.pool_id or 0)
        share = self._share_of(run, pool)
        held = [
            (place, place.take(share), by_node, by_pool)
            for place, by_node, by_pool in self._change(node, pool, 1, share, at)
        ]
        return held if self._count else []

    def _give(
        self, number: int, at: int, held: list[tuple[WaitingPlace, PlaceSnapshot, bool, bool]]
    ) -> None:
        run, hold = self._holds[number]
        node, pool = self._nodes.get(hold.node_id), self._pools.get(run.pool_id or 0)
        self._change(node, pool, -1, self._share_of(run, pool), at)
        whom = run.job_id if self._by_job else run.id
        for place, knew, by_node, by_pool in held:
            if by_node:
                place.charge_slot(knew, whom, self.of_nodes)
            if by_pool:
                place.charge_pool(knew, whom, self.of_pools)

    def _share_of(self, run: HistoryRun, pool: PoolUse | None) -> int:
        wanted = self._history.needs[run.need].pool_slots
        return 0 if pool is None else slots_taken(wanted, pool.slots)

    def _change(
        self, node: NodeUse | None, pool: PoolUse | None, change: int, share: int, at: int
    ) -> list[tuple[WaitingPlace, bool, bool]]:
        """A slot is taken or given back; the places that this concerns, and by what."""
        concerned = [(place, True, place.pool is pool and pool is not None)
                     for place in (node.places if node is not None else ())]  # fmt: skip
        known = {id(place) for place, _, _ in concerned}
        if pool is not None:
            concerned += [(each, False, True) for each in pool.places if id(each) not in known]
        for place, _, _ in concerned:
            place.advance(at)
        if node is not None:
            was_full = node.is_full
            node.in_use += change
            turned = node.is_there and node.is_full is not was_full
            for place in node.places:
                place.holders += change
                place.full += (1 if node.is_full else -1) if turned else 0
        if pool is not None:
            pool.in_use += change * share
        for place, _, _ in concerned:
            place.settle()
        return concerned
