"""Promises of pools switched off one by one; only worlds with pools can notice these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tickwheel_admin.domain.pools.ledger import PoolLedger, Rank
from tickwheel_admin.engine.dispatcher import pool_lines
from tickwheel_admin.store.pools import slots
from tickwheel_admin.store.runs import runs
from tickwheel_admin.store.runs.pools import line


def pools_are_not_counted() -> None:
    """G12: a run of a pool starts whatever is in use."""
    PoolLedger.has_room = lambda self, rank, wanted: True  # type: ignore[method-assign]


def ended_runs_keep_their_slots() -> None:
    """G12: the end of an attempt gives no slot of its pool back."""
    runs.give_back = lambda conn, moves: None


def pools_stay_as_they_were_read() -> None:
    """G12: a claim goes by what was in use when it looked for pools first."""
    original = PoolLedger.take
    PoolLedger.take = lambda self, rank, wanted: original(self, rank, 0)  # type: ignore[method-assign]


def heavy_runs_are_overtaken() -> None:
    """Fairness: whoever is first in line and has no room keeps nothing of what is free."""
    PoolLedger.wait = lambda self, rank, wanted: None  # type: ignore[method-assign]


def executors_do_not_know_who_is_first() -> None:
    """Fairness: a claim sees the line of its own executor only."""
    found = slots._found

    def forgetful(row: Any, now: int) -> slots.FoundPool:
        pool = found(row, now)
        return pool._replace(standing=replace(pool.standing, reservation=None))

    slots._found = forgetful


def lines_begin_with_the_newest() -> None:
    """Fairness: whoever came last starts first."""

    def rank_of(*, due_at: int, priority: int, run_id: int) -> Rank:
        return Rank(-due_at, -run_id)

    line.rank_of = pool_lines.rank_of = rank_of


POOL_MUTATIONS = (
    pools_are_not_counted,
    ended_runs_keep_their_slots,
    pools_stay_as_they_were_read,
    heavy_runs_are_overtaken,
    executors_do_not_know_who_is_first,
    lines_begin_with_the_newest,
)
