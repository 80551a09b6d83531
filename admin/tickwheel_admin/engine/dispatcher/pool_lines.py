"""The pools whose slots the due runs of a claim take: read unlocked, then locked and decided.

Runs of pools are read apart from all others, so that ten thousand that wait for a full pool hide
nobody. A pool that is full, or that another admin's claim holds, is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.claims.order import urgency
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.pools.ledger import RESERVED_MS, PoolLedger, Rank, rank_of
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.store.pools.slots import (
    FoundPool,
    add_uses,
    lock_pools,
    pools_waited_for,
    write_pools,
)
from tickwheel_admin.store.runs.pools.line import PooledRun, first_in_line


class PoolLines:
    """The lines of one executor's runs before its pools, and the slots of these."""

    def __init__(
        self, conn: sa.Connection, executor_id: int, *, now: int, limit: int, look_past: int
    ) -> None:
        """Read which pools are waited for, and who is first in line; without a lock."""
        self._conn = conn
        self._now = now
        self._pools: dict[int, FoundPool] = {}
        self._lines: dict[int, list[PooledRun]] = {}
        self._ledgers: dict[int, PoolLedger] = {}
        self._claims: dict[int, int] = {}
        self._taken: dict[int, int] = {}  # run -> slots
        self.is_full = False  # a line has more due runs than were read
        self.are_held = False  # by claims of other admins
        if limit:
            for found in pools_waited_for(conn, executor_id, now=now):
                self._read_line(found, executor_id, limit=limit, look_past=look_past)

    def _read_line(self, found: FoundPool, executor_id: int, *, limit: int, look_past: int) -> None:
        pool_id = found.standing.pool_id
        most = limit if found.is_deleted else min(limit, found.standing.free + look_past)
        line = first_in_line(
            self._conn, pool_id=pool_id, executor_id=executor_id, now=self._now, limit=most
        )
        if line:
            self._pools[pool_id], self._lines[pool_id] = found, line
            self.is_full = self.is_full or (len(line) == most and found.standing.free > 0)

    @property
    def runs(self) -> list[PooledRun]:
        """All that were read."""
        return [each for line in self._lines.values() for each in line]

    def startable(self) -> list[PooledRun]:
        """Those whose pool can be asked for slots now."""
        return [
            each
            for pool_id, line in self._lines.items()
            if self._is_to_be_asked(pool_id)
            for each in line
        ]

    def lock(self, due: Iterable[Run]) -> None:
        """Lock the pools of these locked runs, unless nothing can come of it."""
        wanted = {each.pool_id for each in due if each.pool_id in self._pools}
        asked = {
            pool_id
            for pool_id in wanted
            if pool_id is not None
            and not self._pools[pool_id].is_deleted
            and self._is_to_be_asked(pool_id)
        }
        if not asked:
            return
        for locked in lock_pools(self._conn, asked, now=self._now):
            pool_id = locked.standing.pool_id
            self._pools[pool_id] = locked
            self._ledgers[pool_id] = PoolLedger(locked.standing, now=self._now)
            self._claims[pool_id] = locked.claims
        self.are_held = len(self._ledgers) < len(asked)

    def in_order(self, due: Sequence[Run], *, oldest_first: bool) -> list[Run]:
        """Due runs in the order in which they are decided: those of each pool by its line."""
        pooled = sorted((each for each in due if each.pool_id), key=_rank)
        if not pooled:
            return list(due)
        others = [each for each in due if not each.pool_id]
        ordered: list[Run] = []
        for run in others:
            at = urgency(run, oldest_first=oldest_first)
            while pooled and urgency(pooled[0], oldest_first=oldest_first) < at:
                ordered.append(pooled.pop(0))
            ordered.append(run)
        return ordered + pooled

    # --- decisions -------------------------------------------------------------------------------

    def has_room(self, run: Run, config: JobConfig) -> bool:
        """Whether the run may start, as far as pools are concerned."""
        if not self._is_limited(run):
            return True
        ledger = self._ledgers.get(run.pool_id or 0)
        return ledger is not None and ledger.has_room(_rank(run), _slots(config))

    def started(self, run: Run, config: JobConfig) -> None:
        """The run is claimed."""
        ledger = self._ledgers.get(run.pool_id or 0)
        if ledger is not None:
            self._taken[run.id] = ledger.share(_slots(config))
            ledger.take(_rank(run), _slots(config))

    def waits(self, run: Run, config: JobConfig) -> None:
        """The run has a node, and waits for the pool only."""
        ledger = self._ledgers.get(run.pool_id or 0)
        if ledger is not None:
            ledger.wait(_rank(run), _slots(config))

    def write(self, claimed: Iterable[Run]) -> None:
        """Write which of the runs hold slots now, and who is first in line."""
        if not self._ledgers:
            return
        uses = [
            (each.id, each.pool_id or 0, self._taken[each.id], self._now)
            for each in claimed
            if each.id in self._taken
        ]
        add_uses(self._conn, uses)
        changed = [each for each in self._ledgers.values() if each.has_changed]
        write_pools(self._conn, changed, claims=self._claims)

    def _is_limited(self, run: Run) -> bool:
        if not run.pool_id:
            return False
        found = self._pools.get(run.pool_id)
        return found is None or not found.is_deleted  # one that was not read has no room now

    def _is_to_be_asked(self, pool_id: int) -> bool:
        """Whether a slot is free, or our first in line is to be noted."""
        standing, is_deleted, _ = self._pools[pool_id]
        if is_deleted or standing.free:
            return True
        first, ours = standing.reservation, self._lines[pool_id][0].rank
        if not standing.shared or not standing.slots:
            return False
        return (
            first is None
            or ours < first.rank
            or (ours == first.rank and first.until - self._now < RESERVED_MS // 2)
        )


def _rank(run: Run) -> Rank:
    return rank_of(due_at=run.due_at, priority=run.priority, run_id=run.id)


def _slots(config: JobConfig) -> int:
    return 1 if config.pool is None else config.pool.slots


def no_lines(conn: sa.Connection) -> PoolLines:
    """Of an executor none of whose queued runs is in a pool: asks nothing."""
    return PoolLines(conn, 0, now=0, limit=0, look_past=0)
