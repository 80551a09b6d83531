"""Whole fires and their shards, parents and their children."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from tests.simulation.checks.ledger import FINAL, Ledger
from tests.simulation.history import History

FAILURES = ("failed", "timed_out", "lost")


def check_fires_of_shards(ledger: Ledger, history: History) -> None:
    """A fire has the shards that it says, and ends once, with the last of them."""
    for fire in ledger.runs.values():
        if fire.shard_index != -1:
            continue
        shards, ended = ledger.shards.get(fire.id, []), ledger.ended.get(fire.id)
        name = f"run {fire.id}"
        if not fire.attempt:
            if shards:
                history.violation(f"G4: {name} was never cut into shards and has {len(shards)}")
            continue
        indices = sorted(shard.shard_index for shard in shards)
        is_retry = fire.retry_of is not None  # of failed shards only, perhaps
        if len(set(indices)) != len(indices) or not (
            set(indices) <= set(range(fire.shard_total))
            if is_retry
            else indices == list(range(fire.shard_total))
        ):
            history.violation(
                f"G4: {name} has {fire.shard_total} shards, in the ledger are {len(shards)}"
            )
        pinned = [shard.pinned_node_id for shard in shards]
        is_broadcast = ledger.config(fire)["routing"]["strategy"] == "broadcast"
        if len(set(pinned)) != (len(shards) if is_broadcast else 1) or is_broadcast is (
            None in pinned
        ):
            history.violation(f"{name} has shards for the nodes {pinned}")
        if ended is None:
            continue  # said to be stuck already
        counts = _states_at(ledger, shards, ended.vt)
        if any(state not in FINAL for state in counts):
            history.violation(f"G4: {name} ended before its shards: {dict(counts)}")
        _check_end(fire, ended, counts, history)


def _states_at(ledger: Ledger, shards: list[Any], moment: float) -> Counter[str]:
    """How the shards stood when a transaction was over; a late result may change one later."""
    wanted = {shard.id for shard in shards}
    last: dict[int, str] = {}
    for row in ledger.changes:
        if row.id in wanted and row.vt <= moment:
            last[row.id] = row.state
    return Counter(last.values())


def _check_end(fire: Any, ended: Any, counts: Counter[str], history: History) -> None:
    if any(counts[state] for state in FAILURES):
        expected = "failed"
    elif counts["cancelled"]:
        expected = "cancelled"
    elif counts["succeeded"]:
        expected = "succeeded"
    else:
        expected = "skipped"
    told = json.loads(fire.result or "{}").get("shards", {})
    if ended.state != expected or told != dict(+counts):
        history.violation(
            f"G4: run {fire.id} ended as {ended.state} with {told}; its shards were {dict(counts)}"
        )


def check_children(ledger: Ledger, history: History) -> None:
    """Each end asks for each child once, with the right parameters."""
    deleted = {row.id: row.seq for row in ledger.other("job-")}
    revisions: defaultdict[int, list[int]] = defaultdict(list)
    for row in ledger.other("job"):
        revisions[row.id].append(row.seq)
    children: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
    for run in ledger.runs.values():
        if run.origin == "child" and run.fire_id is None:
            children[run.parent_run_id, run.job_id].append(run)
    results = {row.id: row.result for row in ledger.changes if row is ledger.ended.get(row.id)}
    for parent in ledger.runs.values():
        ended = ledger.ended.get(parent.id)
        if ended is None or parent.fire_id is not None:
            continue
        for link in ledger.config(parent)["children"]:
            found = children.pop((parent.id, link["job_id"]), [])
            wanted = _follows(link.get("on", "success"), ended.state)
            if deleted.get(link["job_id"], ended.seq + 1) < ended.seq:
                wanted = False
            name = f"run {parent.id} ({ended.state})"
            if len(found) != wanted:
                history.violation(
                    f"G4: {name} has {len(found)} children of job {link['job_id']}"
                    f" on {link.get('on', 'success')}"
                )
            for child in found:
                revision = 1 + sum(seq < ended.seq for seq in revisions[child.job_id])
                own = json.loads(ledger.configs[child.job_id, revision]["parameters"])
                expected = _overlaid(own, results.get(parent.id))
                if json.loads(child.parameters or "null") != expected:
                    history.violation(
                        f"G4: run {child.id}, child of {name}, has {child.parameters},"
                        f" not {expected}"
                    )
    for (parent_id, job_id), found in children.items():
        history.violation(f"G4: run {parent_id} has children of job {job_id}: {len(found)}")


def _follows(on: str, state: str) -> bool:
    succeeded, failed = state == "succeeded", state in FAILURES
    return {"success": succeeded, "failure": failed, "always": succeeded or failed}[on]


def _overlaid(own: dict[str, Any], result: str | None) -> dict[str, Any]:
    given = json.loads(result or "null")
    if given is None:
        return own
    return own | (given if isinstance(given, dict) else {"result": given})
