"""The due runs of one executor that wait for a slot, in the order of the claim."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush, nsmallest

from tickwheel_admin.domain.claims.order import urgency
from tickwheel_admin.domain.forecast.runs import ForecastRun


class ReadyQueue:
    """Runs of no pool."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, ...], int, ForecastRun]] = []
        self._added = 0  # runs themselves are never compared
        self._waiting: dict[int, ForecastRun] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, run: ForecastRun) -> None:
        """The run is due."""
        if run.id not in self._waiting:
            self._waiting[run.id] = run
            self._added += 1
            heappush(self._heap, (urgency(run, oldest_first=False), self._added, run))

    def discard(self, run: ForecastRun) -> None:
        """The run waits no longer."""
        self._waiting.pop(run.id, None)

    def taken(self, limit: int, *, oldest_first: bool) -> Iterator[ForecastRun]:
        """The first ones, taken out one by one; what stays is to be added again."""
        if oldest_first:
            waiting = self._waiting.values()
            for run in nsmallest(limit, waiting, key=lambda run: urgency(run, oldest_first=True)):
                del self._waiting[run.id]
                yield run
            return
        while self._heap and limit > 0:
            run = heappop(self._heap)[2]
            if self._waiting.pop(run.id, None) is not None:
                limit -= 1
                yield run


class PoolLine:
    """A pool, and the due runs that wait for its slots, of all executors."""

    def __init__(self, pool_id: int, slots: int) -> None:
        self.pool_id = pool_id
        self.slots = slots
        self.in_use = 0
        self.waiting: dict[int, ForecastRun] = {}
