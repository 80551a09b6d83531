"""The nodes that a job's runs are spread over, while one batch of runs is placed.

A batch may be 500 runs over 1,000 nodes, so nothing here sorts or filters nodes for each run: a
pool is made once for all jobs that ask for the same, and what fills up is taken out as it does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple

from tickwheel_admin.domain.routing.choice import MAX_PASSED_OVER, PassedOver, Why, short
from tickwheel_admin.domain.routing.hash_ring import HashRing, ring_of
from tickwheel_admin.domain.routing.rota import Rota, rota_of

Rank = Callable[["Candidate"], Any]  # what can be compared; the least is the best


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """A live node as the router sees it; `free` shrinks as a batch is placed."""

    node_id: int
    name: str
    slots: int
    free: int
    weight: int = 1
    aside: Why | None = None  # CORDONED or DRAINING: it takes no new runs
    is_cut_off: bool = False  # it may be back in a moment


class Passed(NamedTuple):
    """Nodes that were passed over."""

    first: Sequence[Candidate]  # at most MAX_PASSED_OVER
    total: int  # of all


class Pool:
    """The live nodes that some jobs may run on, in the order that matters to their strategy."""

    def __init__(
        self,
        nodes: Sequence[Candidate],
        *,
        refused: Collection[int] = (),
        filled: Sequence[Candidate] = (),
    ) -> None:
        """Look at the nodes.

        Args:
            nodes: in order; also those that take no runs now.
            refused: ids of those that refused the handler a moment ago.
            filled: grows as nodes lose their last free slot, of this pool or not.
        """
        self.nodes = nodes
        self._refused = refused
        self._filled = filled
        self._seen = len(filled)
        self._place = {node.node_id: place for place, node in enumerate(nodes)}
        self.taking = [node for node in nodes if node.aside is None]
        self.open = [node for node in self.taking if self.why_not(node) is None]
        self._closed = [node for node in nodes if self.why_not(node) is not None]
        # The rarer reasons come first: they tell more.
        self._closed.sort(key=lambda node: self.why_not(node) is Why.FULL)
        self._rankings: dict[Hashable, _Ranking] = {}
        self._rota: Rota | None = None
        self._ring: tuple[HashRing, dict[str, list[Candidate]]] | None = None
        self._walks: dict[str, _Walk] = {}  # by key

    def settle(self) -> bool:
        """Take out what has filled up; returns whether a node is left to choose."""
        while self._seen < len(self._filled):
            node = self._filled[self._seen]
            self._seen += 1
            place = self._place.get(node.node_id)
            if place is None:
                continue
            at = bisect_left(self.open, place, key=lambda each: self._place[each.node_id])
            if at < len(self.open) and self.open[at] is node:
                del self.open[at]
                self._closed.append(node)
        return bool(self.open)

    def why_not(self, node: Candidate) -> Why | None:
        """Why a node may not be chosen; None: it may."""
        if node.aside is not None:
            return node.aside
        if node.is_cut_off:
            return Why.CUT_OFF
        if node.node_id in self._refused:
            return Why.REFUSED
        return Why.FULL if node.free <= 0 else None

    def best(self, name: Hashable, rank: Rank) -> Candidate:
        """The open node of the least rank, the first of equal ones.

        Args:
            name: of this ranking, which is made once in a batch.
            rank: of a node; it may only rise while a batch is placed.
        """
        ranking = self._rankings.get(name)
        if ranking is None:
            ranking = self._rankings[name] = _Ranking(self.open, rank)
        return ranking.best()

    def before(self, node: Candidate) -> Passed:
        """Those that stand before a node."""
        place = self._place[node.node_id]
        return Passed(self.nodes[: min(place, MAX_PASSED_OVER)], place)

    def of_turn(self, turn: int) -> Candidate:
        """Whose turn it is among those that take runs, by their weights; it may be full."""
        if self._rota is None:
            self._rota = rota_of(tuple(node.weight for node in self.taking))
        return self.taking[self._rota.place(turn)]

    @cached_property
    def weight(self) -> int:
        """What the weights of all that take runs add up to."""
        return sum(node.weight for node in self.taking)

    def owner(self, key: str) -> tuple[Candidate, Passed]:
        """The open node that a key belongs to on the hash ring, and those it belongs to before."""
        walk = self._walks.get(key)
        if walk is None:
            walk = self._walks[key] = _Walk(self._on_the_ring(key))
        while self.why_not(walk.node) is not None:  # for the rest of the batch
            walk.go_on()
        return walk.node, Passed(walk.passed, walk.total)

    def _on_the_ring(self, key: str) -> Iterator[Candidate]:
        if self._ring is None:
            named: dict[str, list[Candidate]] = {}
            for node in self.nodes:
                named.setdefault(node.name, []).append(node)
            self._ring = ring_of(tuple(sorted(named))), named
        ring, named = self._ring
        for name in ring.owners(key):
            yield from named[name]

    def passed_over(self, passed: Passed | None) -> tuple[tuple[PassedOver, ...], int]:
        """Who was passed over and why, for the reason, and how many more there are.

        Args:
            passed: None: all that cannot be chosen.
        """
        if passed is None:
            passed = Passed(self._closed[:MAX_PASSED_OVER], len(self._closed))
        told = tuple(
            # One that is open was passed over because it runs the job.
            PassedOver(short(node.name), self.why_not(node) or Why.BUSY)
            for node in passed.first
        )
        return told, passed.total - len(told)


class _Ranking:
    """Finds the node of the least rank again and again, as ranks rise and nodes fill up."""

    def __init__(self, nodes: Sequence[Candidate], rank: Rank) -> None:
        self._rank = rank
        # The place settles ties, so nodes themselves are never compared.
        self._heap = [(rank(node), place, node) for place, node in enumerate(nodes)]
        heapify(self._heap)

    def best(self) -> Candidate:
        while True:
            known, place, node = self._heap[0]
            if node.free <= 0:
                heappop(self._heap)
            elif (rank := self._rank(node)) != known:
                heapreplace(self._heap, (rank, place, node))
            else:
                return node


class _Walk:
    """How far one key has come on the ring, past nodes that cannot be chosen."""

    def __init__(self, nodes: Iterator[Candidate]) -> None:
        self._nodes = nodes
        self.node = next(nodes)
        self.passed: list[Candidate] = []  # the first few
        self.total = 0  # of all that were passed

    def go_on(self) -> None:
        if self.total < MAX_PASSED_OVER:
            self.passed.append(self.node)
        self.total += 1
        self.node = next(self._nodes)
