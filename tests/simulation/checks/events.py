"""Events of runs say what the ledger says: each change of a state once, and in its order."""

from __future__ import annotations

import json
from collections import defaultdict

from tests.simulation.checks.ledger import Ledger
from tests.simulation.database import SimDatabase
from tests.simulation.history import History

_Steps = dict[int, list[tuple[str | None, str]]]


def check_events(database: SimDatabase, ledger: Ledger, history: History) -> None:
    """Nobody learns here whether events are wanted, so they are always written."""
    told: _Steps = defaultdict(list)
    for row in database.rows("SELECT data FROM run_event_batch ORDER BY id"):
        for run_id, _job, _executor, _attempt, before, state, *_ in json.loads(row.data):
            told[run_id].append((before, state))
    happened: _Steps = defaultdict(list)
    for row in ledger.changes:
        if row.what == "run+":
            happened[row.id].append((None, row.state))
        elif row.what == "run" and row.old_state != row.state:
            happened[row.id].append((row.old_state, row.state))
        elif row.what == "run-" and row.state == "queued":
            happened[row.id].append(("queued", "deleted"))
    for run_id in sorted(told.keys() | happened.keys()):
        if told[run_id] != happened[run_id]:
            history.violation(
                f"events: run {run_id} went {happened[run_id]}, and its events say {told[run_id]}"
            )
