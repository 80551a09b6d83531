"""A pool: slots that the runs of several jobs share, whichever nodes they run on."""

from __future__ import annotations

from dataclasses import dataclass, field

OF_INSTALLATION = 0  # `executor_id` of a pool that jobs of every executor may name
NO_SLOTS_NEEDED = 0  # `pool_id` of the runs of workflows, which take no slot of any kind
MAX_SLOTS = 10_000
MAX_NAME_CHARS = 100
MAX_DESCRIPTION_CHARS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShare:
    """What a job says of its pool."""

    name: str
    slots: int = 1  # that each of its runs takes, 1..MAX_SLOTS
    # Found by the name when the job is saved; 0: not yet. Two that say the same are equal.
    pool_id: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPool:
    """A stored pool."""

    id: int
    executor_id: int  # OF_INSTALLATION, or the one executor whose jobs may name it
    name: str
    description: str
    slots: int  # 0..MAX_SLOTS; 0: closed, nothing starts
    version: int  # rises with every edit; an edit must name the one it was made from
    created_at: int
    updated_at: int

    @property
    def is_of_installation(self) -> bool:
        """Whether jobs of every executor may name it."""
        return self.executor_id == OF_INSTALLATION


def slots_taken(wanted: int, slots: int) -> int:
    """What a run takes of a pool: all of it, when it was made smaller than the run."""
    return min(wanted, max(slots, 1))
