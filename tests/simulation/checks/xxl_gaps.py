"""What cannot be promised over XXL-JOB's protocol: every gap that the checker allows, by name.

Each gap needs something that befell the very attempt, as `xxl_job.truth` has noted it; the same
list is in docs/guarantees.md. An attempt that nothing befell has no excuse.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tests.simulation.checks.ledger import Ledger
from tests.simulation.handlers import Start
from tests.simulation.xxl_executors.truth import Key, Mishap

if TYPE_CHECKING:
    from tests.simulation.xxl_executors.world import XxlWorld

# A run may be started although it was taken for one that was never started, for:
STARTED_UNSEEN = {
    # the executor, or the network, kept the call until the admin had asked and given the run away
    Mishap.HELD_UP,
    # nobody could see the run: it denied its log, or the log was on a disk that is gone
    Mishap.LOG_DENIED,
    Mishap.DISK_LOST,
}
# The same attempt may be started twice, for: nothing but a proxy sends a request twice.
STARTED_TWICE = {Mishap.REPEATED}
# A run may be killed although nobody wanted that, for:
KILLED_UNWANTED = {
    # a proxy sends the call to end a run twice
    Mishap.KILLED_AGAIN,
    # the executor, or the network, kept that call for more than ten seconds
    Mishap.KILLED_LATE,
}
# A run may be taken for lost while it runs, or be given up for one that nobody runs, for:
LOST_WHILE_IT_RUNS = {
    Mishap.SAID_IDLE,  # its executor denied it
    Mishap.DROPPED,  # its executor never ran it, and said that it does
    Mishap.SILENCED,  # its executor never said how it ended
    *STARTED_UNSEEN,
}


class Gaps:
    """Which attempts have an excuse."""

    def __init__(self, ledger: Ledger, world: XxlWorld | None) -> None:
        self._truth = None if world is None else world.truth
        executors = set() if world is None else {world.executor_id}
        self.runs: Collection[int] = {
            row.id for row in ledger.runs.values() if row.executor_id in executors
        }
        self._released = {
            (row.id, row.attempt) for row in ledger.changes if row.reason == "released"
        }

    def has(self, key: Key, mishaps: Collection[Mishap]) -> bool:
        return self._truth is not None and self._truth.has(key, *mishaps)

    def may_overlap(self, start: Start) -> bool:
        """Whether the attempt may run beside others of its job although its job is serial."""
        key = (start.run, start.attempt)
        return self.has(key, {*LOST_WHILE_IT_RUNS, *STARTED_TWICE})
