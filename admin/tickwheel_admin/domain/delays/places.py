"""Where runs wait for a slot: nodes that some of them may run on, and a pool, over time.

Runs with the same nodes and the same share of the same pool wait at the same place. At each moment
a place is without a node, full, kept from starting by its pool, or open. What a moment costs whom
is kept as sums since the beginning, so that a wait is charged by two looks at them: the work grows
with the number of runs, and not with its square.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

# An open place is expected to be claimed for within this time: two claims a second, and a run that
# was put off is looked at again after five. What lasts longer has a cause that nobody wrote down.
CLAIM_MS = 6_000

Charges = defaultdict[tuple[int, int], float]  # ms by (row, whom)


class PlaceStatus(IntEnum):
    """What keeps runs at a place."""

    OPEN = 0  # nothing
    NO_NODE = 1
    FULL = 2
    POOL = 3


@dataclass(slots=True)
class NodeUse:
    """A node, as the sweep goes."""

    slots: int
    in_use: int = 0
    is_there: bool = False
    places: list[WaitingPlace] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.in_use >= self.slots


@dataclass(slots=True)
class PoolUse:
    """A pool, as the sweep goes."""

    slots: int
    in_use: int = 0
    places: list[WaitingPlace] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlaceSnapshot:
    """What a place knew when somebody took a slot."""

    weight: int
    of_nodes: tuple[float, ...]
    of_pool: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a place knew when somebody came to wait."""

    at: int
    spent: tuple[int, ...]
    stretch: int | None  # number of the open stretch it came in; None: the place was not open
    claiming: int


class WaitingPlace:
    """One place."""

    def __init__(
        self, nodes: list[NodeUse], pool: PoolUse | None, *, share: int, rows: int, at: int
    ) -> None:
        self.nodes = nodes
        self.pool = pool
        self._share = share
        self._rows = range(rows)
        self._last = at
        self._status = PlaceStatus.NO_NODE
        self.there = 0  # nodes
        self.full = 0  # of them
        self.holders = 0  # attempts on its nodes
        self._spent = [0, 0, 0, 0]  # ms by status
        self._waiting = [0] * rows
        self._of_nodes = [0.0] * rows  # ms that each attempt on its nodes was charged so far
        self._of_pool = [0.0] * rows  # that each slot of its pool was
        self._open_since = at
        # Of the open stretches that are over: their ends, and the ms of claiming up to there.
        self._stretches: list[tuple[int, int]] = []
        self._claiming = 0

    def advance(self, at: int) -> None:
        """Everything stayed as it is up to an instant."""
        ms = at - self._last
        if not ms:
            return
        self._last = at
        self._spent[self._status] += ms
        if self._status is PlaceStatus.FULL:
            for row in self._rows:
                if self._waiting[row]:
                    self._of_nodes[row] += ms * self._waiting[row] / self.holders
        elif self._status is PlaceStatus.POOL and self.pool is not None and self.pool.in_use:
            for row in self._rows:
                if self._waiting[row]:
                    self._of_pool[row] += ms * self._waiting[row] / self.pool.in_use

    def settle(self) -> None:
        """Something of it has changed: what keeps runs here from now on?"""
        status = self._now()
        if status is self._status:
            return
        if self._status is PlaceStatus.OPEN:
            self._claiming += min(self._last - self._open_since, CLAIM_MS)
            self._stretches.append((self._last, self._claiming))
        elif status is PlaceStatus.OPEN:
            self._open_since = self._last
        self._status = status

    def _now(self) -> PlaceStatus:
        if not self.there:
            return PlaceStatus.NO_NODE
        if self.full >= self.there:
            return PlaceStatus.FULL
        pool = self.pool
        if pool is not None and pool.in_use + min(self._share, max(pool.slots, 1)) > pool.slots:
            return PlaceStatus.POOL
        return PlaceStatus.OPEN

    def arrive(self, row: int | None) -> Arrived:
        """Somebody comes to wait, of a row of the matrix, or of none."""
        if row is not None:
            self._waiting[row] += 1
        is_open = self._status is PlaceStatus.OPEN
        return Arrived(
            self._last,
            tuple(self._spent),
            len(self._stretches) if is_open else None,
            self._claiming,
        )

    def leave(self, row: int | None, arrived: Arrived) -> tuple[int, int, int, int, int]:
        """They go: ms of waiting for a node, a slot, the pool, of something else, of the claim."""
        if row is not None:
            self._waiting[row] -= 1
        passed = [now - then for now, then in zip(self._spent, arrived.spent, strict=True)]
        claiming = self._claimed_since(arrived)
        opened = passed[PlaceStatus.OPEN]
        return (
            passed[PlaceStatus.NO_NODE],
            passed[PlaceStatus.FULL],
            passed[PlaceStatus.POOL],
            opened - claiming,
            claiming,
        )

    def _claimed_since(self, arrived: Arrived) -> int:
        now = self._claiming
        is_open = self._status is PlaceStatus.OPEN
        if arrived.stretch is None:
            current = min(self._last - self._open_since, CLAIM_MS) if is_open else 0
            return now - arrived.claiming + current
        if arrived.stretch == len(self._stretches):  # the place has been open all the time
            return min(self._last - arrived.at, CLAIM_MS)
        ended, claimed = self._stretches[arrived.stretch]
        current = min(self._last - self._open_since, CLAIM_MS) if is_open else 0
        return min(ended - arrived.at, CLAIM_MS) + now - claimed + current

    def take(self, weight: int) -> PlaceSnapshot:
        """Somebody takes a slot of its nodes, or some of its pool."""
        return PlaceSnapshot(weight, tuple(self._of_nodes), tuple(self._of_pool))

    def charge_slot(self, held: PlaceSnapshot, whom: int, charges: Charges) -> None:
        """They give back a slot of its nodes: what they were charged meanwhile."""
        for row in self._rows:
            ms = self._of_nodes[row] - held.of_nodes[row]
            if ms:
                charges[row, whom] += ms

    def charge_pool(self, held: PlaceSnapshot, whom: int, charges: Charges) -> None:
        """They give back slots of its pool."""
        for row in self._rows:
            ms = (self._of_pool[row] - held.of_pool[row]) * held.weight
            if ms:
                charges[row, whom] += ms


def nodes_named(ids: frozenset[int], nodes: Mapping[int, NodeUse]) -> list[NodeUse]:
    """Those that there are."""
    return [nodes[each] for each in sorted(ids) if each in nodes]
