"""Which runs may take slots of a pool, while a claim decides.

Runs of a pool stand in one line, whatever their jobs and executors: by the instant at which they
became due, where a level of priority counts as `PRIORITY_MS` of waiting. So priority is respected,
and no run is overtaken for ever.

The first in line that could start but for the pool keeps what is free: runs behind it start only if
it could still start beside them. So heavy runs are not overtaken by light ones. What could not
start anyway, for want of a node, keeps nothing. Claims go executor by executor, so that the first
in line is noted with the pool, for a short time, for claims of other executors.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwheel_admin.domain.pools.pool import slots_taken

PRIORITY_MS = 60_000  # how much longer a run must have waited to be as urgent as the next level
# A note lasts so long: its executor claims twice a second, or runs of others go on without it.
RESERVED_MS = 3_000


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """A place in the line of a pool; smaller is earlier."""

    at: int
    run_id: int


def rank_of(*, due_at: int, priority: int, run_id: int) -> Rank:
    """The place of a run: it stays the same while the run waits for the pool."""
    return Rank(due_at + (priority - 1) * PRIORITY_MS, run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The first run in line that waits for nothing but slots of the pool."""

    rank: Rank
    slots: int
    until: int  # it counts until then


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStanding:
    """A pool as a claim finds it."""

    pool_id: int
    slots: int
    in_use: int  # by live runs
    reservation: Reservation | None  # None: nobody waits, or whoever did no longer does
    shared: bool  # by executors: claims of others must know who is first in line

    @property
    def free(self) -> int:
        return max(0, self.slots - self.in_use)


class PoolLedger:
    """The slots of one pool during one claim. Runs must be asked about in the order of rank."""

    def __init__(self, standing: PoolStanding, *, now: int) -> None:
        self._now = now
        self._shared = standing.shared
        self._found = standing.reservation
        self.first = standing.reservation
        self.pool_id = standing.pool_id
        self.slots = standing.slots
        self.free = standing.free
        self.taken = 0  # by this claim

    @property
    def has_changed(self) -> bool:
        """Whether something of it must be written."""
        return self.taken > 0 or (self._shared and self.first != self._found)

    def has_room(self, rank: Rank, wanted: int) -> bool:
        """Whether a run may start now."""
        kept = 0
        if self.first is not None and self.first.rank < rank:
            kept = slots_taken(self.first.slots, self.slots)
        return self.slots > 0 and self.free - kept >= self.share(wanted)

    def take(self, rank: Rank, wanted: int) -> None:
        """The run starts."""
        share = self.share(wanted)
        self.free -= share
        self.taken += share
        if self.first is not None and self.first.rank == rank:
            self.first = None

    def wait(self, rank: Rank, wanted: int) -> None:
        """The run could start but for the pool."""
        first = self.first
        if first is not None and first.rank < rank:
            return
        is_noted = first is not None and first.rank == rank
        # Written again when half of its time is over, and not with each look.
        if not is_noted or (self._shared and first.until - self._now < RESERVED_MS // 2):  # type: ignore[union-attr]
            self.first = Reservation(rank=rank, slots=wanted, until=self._now + RESERVED_MS)

    def share(self, wanted: int) -> int:
        """The slots that a run takes."""
        return slots_taken(wanted, self.slots)
