"""What all parts of the sample installation share: who made it, when, and how a run is written."""

from __future__ import annotations

from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role

NOW = 1_795_177_886_000  # 2026-11-20 13:31:26 in Berlin
ADMIN = Actor(user_id=1, name="admin", grants={ALL_EXECUTORS: Role.ADMIN})


def row(**values: object) -> dict[str, object]:
    """A row of the table `run`; what is not named is as a run of a schedule begins."""
    row: dict[str, object] = {
        "job_revision": 1, "trigger_id": None, "origin": "schedule",
        "shard_index": 0, "shard_total": 1,
        "fire_id": None, "pinned_node_id": None, "parent_run_id": None, "blocking_key": None,
        "request_key": None, "requested_by": None, "retry_of": None, "parameters": None,
        "priority": 5, "attempt": 1, "tries": 1, "node_id": None, "claim_token": None,
        "deadline_at": None, "dispatched_at": None, "started_at": None, "ended_at": None,
        "cancel_requested_at": None, "cancel_reason": None, "reason": None, "message": None,
        "result": None, "progress": None, "progress_text": None, "log_lines": 0,
        "choice": None,
    }  # fmt: skip
    row |= values
    row["is_part"] = row["fire_id"] is not None or row["origin"] in ("step", "try")
    return row
