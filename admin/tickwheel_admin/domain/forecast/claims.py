"""The claim in a forecast: which waiting runs of an executor are given its free slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from tickwheel_admin.domain.claims.order import LOOK_PAST, OLDEST_FIRST_EVERY, urgency
from tickwheel_admin.domain.forecast.placing import Slots
from tickwheel_admin.domain.forecast.queue import PoolLine, ReadyQueue
from tickwheel_admin.domain.forecast.runs import ForecastRun, RunPhase
from tickwheel_admin.domain.pools.ledger import PoolLedger, PoolStanding, Rank, rank_of


class ForecastExecutor:
    """An executor while the forecast goes on."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.queue = ReadyQueue()
        self.claims = 0


class ForecastClaims:
    """Gives free slots to waiting runs, in the order of the claim."""

    def __init__(
        self,
        executors: Mapping[int, ForecastExecutor],
        pools: Mapping[int, PoolLine],
        *,
        start: Callable[[ForecastRun, int], bool],
    ) -> None:
        """Look at these.

        Args:
            start: starts a run at an instant if it may; whether it waits for its slot no longer.
        """
        self._executors = executors
        self._pools = pools
        self._start = start

    def claim(self, executor_id: int, at: int) -> None:
        """Start what has slots there."""
        executor = self._executors[executor_id]
        slots, queue = executor.slots, executor.queue
        lines = [line for line in self._pools.values() if line.waiting] if self._pools else ()
        if not len(queue) and not lines:  # asked very often
            return
        slots.begin()
        executor.claims += 1
        if slots.free <= 0:
            return
        limit = slots.free + LOOK_PAST
        oldest_first = executor.claims % OLDEST_FIRST_EVERY == 0 and len(queue) > slots.free
        ledgers = {line.pool_id: _ledger_of(line, at) for line in lines if line.in_use < line.slots}
        pooled = self._in_line(executor_id, ledgers, limit)
        staying = []
        runs = queue.taken(limit, oldest_first=oldest_first)
        while slots.free > 0:
            run = next(runs, None)
            # Of a pool by its line, as far as that comes before.
            while pooled and (
                run is None
                or urgency(pooled[0], oldest_first=oldest_first)
                < urgency(run, oldest_first=oldest_first)
            ):
                self._claim_of_pool(pooled.popleft(), ledgers, at)
            if run is None:
                break
            if not self._start(run, at):
                staying.append(run)
        for run in staying:
            if run.phase is RunPhase.READY:
                queue.add(run)

    def _in_line(
        self, executor_id: int, ledgers: Mapping[int, PoolLedger], limit: int
    ) -> deque[ForecastRun]:
        """The executor's runs in the lines of pools; those of others keep what they wait for."""
        found = []
        for pool_id, ledger in ledgers.items():
            line = sorted(self._pools[pool_id].waiting.values(), key=_rank)
            for run in line[:limit]:
                if run.model.executor_id == executor_id:
                    found.append(run)
                elif self._executors[run.model.executor_id].slots.free > 0:
                    ledger.wait(_rank(run), run.model.pool_slots)
        return deque(sorted(found, key=_rank))

    def _claim_of_pool(self, run: ForecastRun, ledgers: Mapping[int, PoolLedger], at: int) -> None:
        ledger, model = ledgers[run.model.pool_id], run.model
        if run.id not in self._pools[model.pool_id].waiting:
            return
        if not ledger.has_room(_rank(run), model.pool_slots):
            ledger.wait(_rank(run), model.pool_slots)
            return
        rank = _rank(run)
        if self._start(run, at) and run.phase is RunPhase.LIVE:
            ledger.take(rank, model.pool_slots)


def _ledger_of(line: PoolLine, at: int) -> PoolLedger:
    standing = PoolStanding(
        pool_id=line.pool_id, slots=line.slots, in_use=line.in_use, reservation=None, shared=False
    )
    return PoolLedger(standing, now=at)


def _rank(run: ForecastRun) -> Rank:
    return rank_of(due_at=run.due_at, priority=run.priority, run_id=run.id)
