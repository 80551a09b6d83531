"""Histories of delays, written down briefly."""

from __future__ import annotations

from typing import Any

from tickwheel_admin.domain.delays.history import (
    DelayHistory,
    HistoryNode,
    HistoryRun,
    Hold,
    RunNeed,
)

END = 1_000_000


def a_need(**changed: Any) -> RunNeed:
    """Any of node 1, side by side, in no pool."""
    whole: dict[str, Any] = {
        "nodes": (1,), "is_parallel": True, "concurrency": 1, "is_broadcast": False,
        "pool_slots": 1,
    }  # fmt: skip
    return RunNeed(**whole | changed)


def a_run(
    run_id: int,
    due_at: int,
    claimed_at: int | None = None,
    ended_at: int | None = None,
    *,
    node: int = 1,
    **changed: Any,
) -> HistoryRun:
    """Started as soon as it was claimed."""
    whole: dict[str, Any] = {
        "id": run_id, "job_id": 100 + run_id, "need": 0, "scheduled_at": due_at,
        "due_at": due_at, "created_at": due_at, "dispatched_at": claimed_at,
        "started_at": claimed_at, "is_measured": True, "fire_id": None, "shard_index": 0,
        "pinned_node_id": None, "pool_id": None, "has_no_node": False,
        "holds": () if claimed_at is None else (Hold(node, claimed_at, ended_at),),
    }  # fmt: skip
    return HistoryRun(**whole | changed)


def a_history(*runs: HistoryRun, **changed: Any) -> DelayHistory:
    """On one node with one slot."""
    whole: dict[str, Any] = {
        "from_at": 0, "until_at": END, "runs": runs, "needs": (a_need(),),
        "nodes": (HistoryNode(id=1, slots=1, from_at=0, until_at=None),), "pools": {},
    }  # fmt: skip
    return DelayHistory(**whole | changed)
