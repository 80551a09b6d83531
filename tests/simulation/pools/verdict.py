"""Never more slots of a pool than there are, at any change of any run, and nobody is overtaken."""

from __future__ import annotations

from tests.simulation.checks.ledger import LIVE, Ledger
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.pools.lines import check_lines


def check_pools(database: SimDatabase, history: History, *, faults_ended: float) -> None:
    """Note every broken promise about pools in the history.

    Args:
        faults_ended: when, in virtual seconds.
    """
    ledger = Ledger(database)
    slots = {row.id: row.slots for row in database.rows("SELECT id, slots FROM pool")}
    if not slots:
        return
    held: dict[int, dict[int, int]] = {pool_id: {} for pool_id in slots}
    used = 0
    for change in ledger.changes:
        run = ledger.runs.get(change.id)
        if run is None or not run.pool_id:
            continue
        of_pool = held[run.pool_id]
        if change.what != "run-" and change.state in LIVE:
            of_pool[run.id] = ledger.config(run)["pool"]["slots"]
            used += 1
        else:
            of_pool.pop(run.id, None)
        if sum(of_pool.values()) > slots[run.pool_id]:
            history.violation(
                f"G12: runs {sorted(of_pool)} hold {sum(of_pool.values())} of"
                f" {slots[run.pool_id]} slots of pool {run.pool_id}"
            )
    check_lines(database, ledger, history, faults_ended=faults_ended)
    if not used:
        history.violation("no run has used any pool")
    for row in database.rows("SELECT run_id, pool_id FROM pool_use"):
        history.violation(f"G12: run {row.run_id} has ended and holds slots of {row.pool_id}")
