"""Where runs may go: to the nodes that their jobs name and select, as their strategies say."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from tests.simulation.checks.ledger import LIVE, Ledger
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.routing import fits
from tickwheel_admin.domain.routing.strategies import STRATEGIES

_WHY = {"cordoned", "cut_off", "draining", "full", "refused", "busy"}
# With these, a single candidate was chosen by nobody.
_COMPARING = {each.value for each, record in STRATEGIES.items() if record.compares}


def check_routing(database: SimDatabase, ledger: Ledger, history: History) -> None:
    """Look at every attempt, and at the reason that was kept with it."""
    nodes = {row.id: row for row in database.rows("SELECT id, name, labels FROM node")}
    live: defaultdict[int, dict[int, int]] = defaultdict(dict)  # job -> its live runs, with nodes
    for row in ledger.changes:
        run = ledger.runs.get(row.id)
        running = live[row.job_id]
        if run is not None and row.state == "dispatched" and row.attempt != row.old_attempt:
            policy = ledger.config(run)["routing"]
            told = f"run {run.id}, attempt {row.attempt}, {policy}"
            node = nodes[row.node_id]
            for what in (
                *_where(run, policy, node, running),
                *_reason(run, policy, node.name, json.loads(row.choice or "null")),
            ):
                history.violation(f"{told} on {node.name}: {what}")
        if row.state in LIVE and row.node_id is not None:
            running[row.id] = row.node_id
        else:
            running.pop(row.id, None)


def _where(run: Any, policy: Any, node: Any, running: dict[int, int]) -> Iterator[str]:
    if run.pinned_node_id is not None:
        if run.pinned_node_id != node.id:
            yield f"it was to run on node {run.pinned_node_id}"
        return
    if policy["selector"] and not fits(policy["selector"], json.loads(node.labels)):
        yield f"its labels are {node.labels}"
    if policy["strategy"] == "pinned" and not _is_named(policy, node.name):
        yield "it is not named"
    if policy["strategy"] == "busy_over" and node.id in running.values():
        yield "it runs the job already"


def _reason(run: Any, policy: Any, name: str, choice: Any) -> Iterator[str]:
    """What was kept says the job's strategy, and nothing that cannot be."""
    if choice is None:
        yield "why is not known"
        return
    by, candidates, used, slots, passed, more, _detail = choice
    strategy = policy["strategy"]
    only = candidates == 1 and strategy in _COMPARING
    if by != ("only" if only else strategy):
        yield f"it is said to be chosen by {by} of {candidates}"
    if not 0 <= used < slots or candidates < 1 or more < 0:
        yield f"{used} of {slots} slots were used, {candidates} nodes could be chosen"
    if any(why not in _WHY for _, why in passed):
        yield f"passed over were {passed}"
    before = {
        "first": lambda other: other < name,
        "busy_over": lambda other: other < name,
        "last": lambda other: other > name,
        "failover": lambda other: _order(policy, other) < _order(policy, name),
    }.get(strategy)
    if (
        before is not None
        and not only
        and not all(before(other) or other == name for other, _ in passed)
    ):
        yield f"{passed} do not come before it"


def _is_named(policy: Any, name: str) -> bool:
    return not policy["nodes"] or any(fnmatchcase(name, pattern) for pattern in policy["nodes"])


def _order(policy: Any, name: str) -> tuple[int, str]:
    places = [n for n, pattern in enumerate(policy["nodes"]) if fnmatchcase(name, pattern)]
    return min(places, default=len(policy["nodes"])), name
