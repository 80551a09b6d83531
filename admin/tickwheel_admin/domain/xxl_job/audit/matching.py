"""Holds the instants of one job against its rows, both in the order of time, in constant memory.

A row is for the latest instant before it. If that one has a row already, it is for an earlier
instant that has none (runs that wait for a thread start late and in a bunch), unless a later
instant than that was served some time ago: then runs are not queued, and the row is one too many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum

from tickwheel_admin.domain.xxl_job.audit.instants import Instants, RateInstants

MAX_OPEN = 1_000  # instants that may still find their row
OVERTAKEN = 30  # seconds after which an instant is lost if a later one was served
_OVERTAKEN_LEAST = 5  # the same for instants that follow each other closely
UNCERTAIN = 60  # seconds after an instant within which a run of unknown origin is taken for its


class RowPlace(StrEnum):
    """What a row was found to be."""

    FOUND = "found"  # the run of an instant
    SURPLUS = "surplus"  # one more run of an instant that has one
    NOWHERE = "nowhere"  # of no instant: before the first one, or of unknown origin
    REPLACED = "replaced"  # the run of an instant for which one of unknown origin was taken


class Slot:
    """An instant and the rows that were found for it."""

    __slots__ = ("at", "doubled", "instant", "is_certain", "late", "seen", "shards", "surplus")

    def __init__(self, instant: int) -> None:
        self.instant = instant
        self.at: int | None = None  # of the newest row; None: no row yet
        self.late = 0  # seconds, of the first row
        self.seen = 0  # bits: shards that have a row; bit 0 of one that is no broadcast
        self.shards = 1
        self.is_certain = False  # a row that says it was by schedule
        self.surplus: dict[int, int] | None = None  # rows too many, by shard
        self.doubled = 0  # how often it ran too often

    @property
    def missing_shards(self) -> int:
        return max(0, self.shards - self.seen.bit_count()) if self.seen else 0


class Matcher:
    """The instants of one job, and what came of each: told once, in their order, to `settled`."""

    def __init__(self, instants: Instants, *, start: int, settled: Callable[[Slot], None]) -> None:
        """`start`: UTC seconds; instants after it count."""
        self._instants = instants
        self._settled = settled
        self._start = start
        self._cursor = start  # instants up to here were taken
        self._next: int | None = None
        self._is_next_known = False
        self._open: deque[Slot] = deque()
        self._served: deque[tuple[int, int]] = deque()  # (time of the row, instant), not yet old

    def row(self, at: int, *, shard: int = 0, shards: int = 1, is_certain: bool = True) -> RowPlace:
        """A row that was started by the schedule, or may have been.

        Args:
            at: when it was started, UTC seconds.
            shard: of a broadcast, which has a row for each of its nodes.
            is_certain: it says that it was started by the schedule.
        """
        if isinstance(self._instants, RateInstants):
            self._instants.anchor(at)
        self._take_until(at + self._instants.early())
        self._forget(at)
        place = self._latest(at)
        if place is None:
            return RowPlace.NOWHERE
        newest = place
        bit = 1 << shard
        while True:
            slot = self._open[place]
            if not slot.seen & bit:
                break
            if slot.at is None or slot.at < at - self._overtaken(newest) or place == 0:
                return self._surplus(self._open[newest], at, shard, is_certain)
            place -= 1
        slot = self._open[place]
        if not is_certain and at - slot.instant > UNCERTAIN:
            return RowPlace.NOWHERE
        if slot.at is None:
            slot.late = max(0, at - slot.instant)
        slot.at = at
        slot.seen |= bit
        slot.shards = max(slot.shards, shards)
        slot.is_certain = slot.is_certain or is_certain
        self._served.append((at, slot.instant))
        if place == len(self._open) - 1 and self._instants.ran(slot.instant, at):
            self._cursor = max(slot.instant, at)
            self._is_next_known = False
        return RowPlace.FOUND

    def finish(self, end: int) -> None:
        """Settle all instants up to an end, UTC seconds; those after it are dropped."""
        if isinstance(self._instants, RateInstants):
            self._instants.anchor(self._start)
        self._take_until(end)
        while self._open and self._open[0].instant <= end:
            self._settled(self._open.popleft())
        self._open.clear()

    def _take_until(self, second: int) -> None:
        while True:
            if not self._is_next_known:
                self._next = self._instants.next_after(self._cursor)
                self._is_next_known = True
            if self._next is None or self._next > second:
                return
            self._open.append(Slot(self._next))
            self._cursor = self._next
            self._is_next_known = False
            if len(self._open) > MAX_OPEN:
                self._settled(self._open.popleft())

    def _forget(self, at: int) -> None:
        """Settle the instants that no row can be for any more."""
        served = self._served
        oldest = None
        while served and served[0][0] < at - OVERTAKEN:
            oldest = served.popleft()[1]
        if oldest is not None:
            while len(self._open) > 1 and self._open[0].instant < oldest:
                self._settled(self._open.popleft())

    def _latest(self, at: int) -> int | None:
        """The place of the last open instant that a row may be for."""
        until = at + self._instants.early()
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place].instant <= until:
                return place
        return None

    def _overtaken(self, place: int) -> int:
        if place == 0:
            return OVERTAKEN
        distance = self._open[place].instant - self._open[place - 1].instant
        return min(OVERTAKEN, max(_OVERTAKEN_LEAST, distance))

    def _surplus(self, slot: Slot, at: int, shard: int, is_certain: bool) -> RowPlace:
        if not is_certain:
            return RowPlace.NOWHERE
        if not slot.is_certain:
            slot.is_certain = True
            slot.late = max(0, at - slot.instant)
            return RowPlace.REPLACED
        if slot.surplus is None:
            slot.surplus = {}
        slot.surplus[shard] = slot.surplus.get(shard, 0) + 1
        slot.doubled = max(slot.doubled, slot.surplus[shard])
        return RowPlace.SURPLUS
