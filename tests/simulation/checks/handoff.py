"""What attempts hand on: states count successes, checkpoints come from the tries before (G6)."""

from __future__ import annotations

import json
from typing import Any

from tests.simulation.checks.ledger import Ledger
from tests.simulation.database import SimDatabase
from tests.simulation.handlers import Journal
from tests.simulation.history import History

Key = tuple[int, int]


def check_states(database: SimDatabase, ledger: Ledger, journal: Journal, history: History) -> None:
    """A job's state is what the last attempt that it was given to left, if that succeeded.

    Every handler adds 1 to the state it begins from, and signs it.
    """
    model: dict[int, Any] = {}  # job → its state
    lent: dict[int, Key | None] = {}  # job → who was given it last; None: a person wrote it since
    given: dict[Key, Any] = {}
    changes = sorted([*ledger.changes, *ledger.other("state")], key=lambda row: row.seq)
    for row in changes:
        if row.what == "state":
            if row.id is None:  # a person
                model[row.job_id], lent[row.job_id] = json.loads(row.result), None
            continue
        run = ledger.runs.get(row.id)
        if run is None or not _keeps_state(ledger.config(run)):
            continue
        key = (row.id, row.attempt)
        if row.old_state == "queued" and row.state == "dispatched":
            lent[row.job_id] = key
            given[key] = model.get(row.job_id, {})
        elif _succeeds(row) and lent.get(row.job_id) == key and key in journal.left:
            model[row.job_id] = journal.left[key]
    for key, (state, _checkpoint) in journal.given.items():
        run = ledger.runs.get(key[0])
        if run is not None and state != given.get(key):
            history.violation(f"G6: attempt {key} began from {state}, not from {given.get(key)}")
    for row in database.rows("SELECT * FROM job_state ORDER BY job_id"):
        expected = model.get(row.job_id, {})
        if json.loads(row.state) != expected:
            history.violation(
                f"G6: job {row.job_id} keeps {row.state} of run {row.run_id}, not {expected}"
            )


def _keeps_state(config: dict[str, Any]) -> bool:
    rules = config["blocking"]
    one_by_one = rules["strategy"] != "parallel" and rules["concurrency"] == 1
    return one_by_one and config["routing"]["strategy"] not in ("broadcast", "shards")


def _succeeds(row: Any) -> bool:
    return row.state == "succeeded" or (row.state == "skipped" and row.reason == "by_handler")


def check_checkpoints(
    database: SimDatabase, ledger: Ledger, journal: Journal, history: History
) -> None:
    """A try begins from the newest that the attempts before it left, and from nobody else's."""
    current: dict[int, int] = {}  # run → its attempt
    stored: dict[int, list[int]] = {}  # run → [run, attempt, number] of what is kept
    given: dict[Key, list[int] | None] = {}
    changes = sorted([*ledger.changes, *ledger.other("checkpoint")], key=lambda row: row.seq)
    for row in changes:
        if row.what != "checkpoint":
            current[row.id] = row.attempt
            if row.old_state == "queued" and row.state == "dispatched":
                given[row.id, row.attempt] = stored.get(row.id)
            continue
        saved, before = json.loads(row.result), stored.get(row.id, [row.id, 0, 0])
        if saved[:2] != [row.id, current.get(row.id)]:
            history.violation(
                f"G6: run {row.id} keeps the checkpoint {saved} in attempt {current.get(row.id)}"
            )
        elif saved < before:
            history.violation(f"G6: run {row.id} went back from checkpoint {before} to {saved}")
        stored[row.id] = saved
    for key, (_state, checkpoint) in journal.given.items():
        if key[0] in ledger.runs and checkpoint != given.get(key):
            history.violation(
                f"G6: attempt {key} began from checkpoint {checkpoint}, not {given.get(key)}"
            )
    _check_failures(database, given, journal, history)


def _check_failures(
    database: SimDatabase,
    given: dict[Key, list[int] | None],
    journal: Journal,
    history: History,
) -> None:
    """What a failed attempt saved last came with its result, so the try after it begins there."""
    for row in database.rows("SELECT run_id, attempt FROM run_attempt WHERE state = 'failed'"):
        key, following = (row.run_id, row.attempt), (row.run_id, row.attempt + 1)
        if journal.ends.get(key) != "raised" or not journal.saved.get(key):
            continue
        last = journal.saved[key][-1]
        if following in journal.given and given.get(following) != last:
            history.violation(
                f"G5: attempt {following} began from {given.get(following)};"
                f" the one before it failed after {last}"
            )
