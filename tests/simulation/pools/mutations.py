"""Promises of pools switched off one by one; only worlds with pools can notice these."""

from __future__ import annotations

from tickwheel_admin.domain.pools.ledger import PoolLedger
from tickwheel_admin.store.runs import runs


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


POOL_MUTATIONS = (pools_are_not_counted, ended_runs_keep_their_slots, pools_stay_as_they_were_read)
