"""In which order the due runs of an executor are claimed.

The claim reads them by statements of `store.runs.due`, whose order is this one.
"""

from __future__ import annotations

from typing import Protocol

OLDEST_FIRST_EVERY = 10  # claims; so that no priority starves
LOOK_PAST = 50  # runs that a batch reads beyond the free slots: some may wait for something else


class ClaimableRun(Protocol):
    """As much of a due run as its turn depends on."""

    @property
    def id(self) -> int: ...

    @property
    def priority(self) -> int: ...

    @property
    def due_at(self) -> int: ...


def urgency(run: ClaimableRun, *, oldest_first: bool) -> tuple[int, ...]:
    """Smaller is claimed first.

    Args:
        oldest_first: as every tenth claim goes, whatever the priorities are.
    """
    return (run.due_at, run.id) if oldest_first else (run.priority, run.due_at, run.id)
