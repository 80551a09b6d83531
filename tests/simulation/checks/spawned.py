"""What runs of steps spawned, by what their handlers remember, and the runs that came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.simulation.checks.ledger import Ledger
from tests.simulation.handlers import Journal

OWN = -1  # the place of a step's own run among its runs; items have their index


def place_of(run: Any) -> tuple[str, int]:
    """The step that a run is of, and which of its items it is about."""
    kind, _, key, item = run.request_key.split(":")
    return key, OWN if kind == "step" else int(item)


def spawned_by(own: Any, ends: Any, journal: Journal) -> list[Any] | None:
    """The items that had to follow from the end of a step's own run.

    Args:
        ends: the change with which it ended, as far as that counted.

    Returns:
        None: it did not succeed, or its handler spawned nothing.
    """
    if ends is None or ends.state != "succeeded" or own.result is None:
        return None
    result = json.loads(own.result)  # tells which attempt was recorded
    if not isinstance(result, dict) or "attempt" not in result:
        return None
    return journal.spawned.get((result["run"], result["attempt"]))


def broken_items(
    ledger: Ledger, runs: Sequence[Any], items: Sequence[Any], own: Any, journal: Journal
) -> list[str]:
    """What is wrong with the runs of spawned items, each for itself."""
    found = []
    made = {row.id: row.seq for row in ledger.changes if row.what == "run+"}
    for run in runs:
        _, number = place_of(run)
        if number >= len(items):
            found.append(f"item {number}, and {len(items)} were spawned")
            continue
        if json.loads(run.parameters).get("$item") != items[number]:
            found.append(f"item {number} with another one's: {run.parameters}")
        seen = {key: item for key, item in journal.items.items() if key[0] == run.id}
        if any(item != items[number] for item in seen.values()):
            found.append(f"item {number}, and its handler saw {seen}")
        if made[run.id] < ledger.ended[own.id].seq:
            found.append(f"item {number} before what spawned it had ended")
    return found
