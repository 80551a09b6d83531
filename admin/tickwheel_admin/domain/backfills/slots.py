"""The share of slots that runs of backfills may take."""

from __future__ import annotations

from typing import Protocol

from tickwheel_admin.domain.planning.fires import LAST_PRIORITY
from tickwheel_admin.domain.runs.run import Origin


class OriginatedRun(Protocol):
    """As much of a run as says whether it is one of a backfill."""

    @property
    def origin(self) -> Origin: ...

    @property
    def priority(self) -> int: ...


def spare_slots(free: int, slots: int) -> int:
    """How many of the free slots are theirs: never the last one, which is for fires on time.

    Args:
        free: of the nodes that may run the job.
        slots: all that these nodes have; if it is only one, that must do for both.
    """
    return free if slots <= 1 else max(0, free - 1)


def is_of_backfill(run: OriginatedRun) -> bool:
    """Whether it leaves the last free slot to fires on time.

    Steps of a workflow that a backfill runs are told by their priority, the last one, which they
    have from it; those that somebody gave this priority to wait behind everything as well.
    """
    if run.origin is Origin.STEP:
        return run.priority == LAST_PRIORITY
    return run.origin is Origin.BACKFILL
