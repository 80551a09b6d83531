"""What charging looks at: the runs of an executor around some time, and where they could run.

Structs that travel as JSON to the process that computes. Instants are UTC epoch ms.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

NO_NODE_ID = 0  # of a hold that takes no slot of a node


class DelayKind(StrEnum):
    """What a run waited for, in the order in which it goes through them."""

    PLANNED_LATE = "planned_late"  # it was written after it was due
    BLOCKED = "blocked"  # by earlier runs of its job, as its blocking strategy wants
    NO_NODE = "no_node"  # none was connected that may run it
    SLOT = "slot"  # all slots of the nodes that may run it were taken
    POOL = "pool"  # the slots of its pool were
    OTHER = "other"  # the ledger does not show what for
    CLAIM = "claim"  # it could start, and no admin had claimed it yet
    ACCEPT = "accept"  # its node had not confirmed it yet


CHARGED = (DelayKind.BLOCKED, DelayKind.SLOT, DelayKind.POOL)  # to the runs that caused them


class Hold(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An attempt: it takes a slot of its node from its dispatch to its end."""

    node_id: int  # NO_NODE_ID: of a whole fire or a workflow, which take none
    from_at: int
    until_at: int | None  # None: it has not ended


class HistoryRun(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """As much of a run as charging needs."""

    id: int
    job_id: int
    need: int  # its place in `DelayHistory.needs`
    scheduled_at: int
    due_at: int  # when it was due first: Run.first_due_at
    created_at: int
    # Of its first try. None: it has not been claimed, or has not started.
    dispatched_at: int | None
    started_at: int | None
    is_measured: bool  # its start delay counts: it has started, or waits for that
    fire_id: int | None  # of a shard
    shard_index: int
    pinned_node_id: int | None
    pool_id: int | None
    has_no_node: bool  # a whole fire, or of a workflow: others do its work
    holds: tuple[Hold, ...]


class RunNeed(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What a job's configuration asks for."""

    nodes: tuple[int, ...]  # that may run it
    is_parallel: bool  # its runs do not wait for each other
    concurrency: int
    is_broadcast: bool
    pool_slots: int  # that each of its runs takes of its pool


class HistoryNode(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A node, while it took runs."""

    id: int
    slots: int
    from_at: int
    until_at: int | None  # None: it still does


class DelayHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that charging looks at."""

    from_at: int  # what is waited for from here
    until_at: int  # to here counts; not after the present
    runs: tuple[HistoryRun, ...]
    needs: tuple[RunNeed, ...]
    nodes: tuple[HistoryNode, ...]
    pools: dict[int, int]  # slots by id; 0: closed


class Stretch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Some time: from an instant to before another."""

    from_at: int
    until_at: int

    @property
    def ms(self) -> int:
        return self.until_at - self.from_at


class RunWait(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The start delay of a run between its instants, all within the time that counts."""

    planned_ms: int
    queued: Stretch  # from when it could start to its claim
    accept_ms: int


def wait_of(run: HistoryRun, history: DelayHistory) -> RunWait | None:
    """How a run waited within the time that counts; None: it did not."""
    low, high = history.from_at, history.until_at
    end = high if run.started_at is None else max(run.started_at, run.due_at)
    if end <= low or run.due_at >= high or end <= run.due_at:
        return None
    written = min(max(run.created_at, run.due_at), end)
    # A late result may bring a start before the claim.
    claimed = end if run.dispatched_at is None else min(max(run.dispatched_at, written), end)

    def within(at: int) -> int:
        return min(max(at, low), high)

    return RunWait(
        planned_ms=within(written) - within(run.due_at),
        queued=Stretch(within(written), within(claimed)),
        accept_ms=within(end) - within(claimed),
    )
