"""How steps of workflows came to their states, by the memory of every change of their rows.

Each ends once; a wait ends no earlier than it says; what waits for a person goes by one answer that
somebody gave, or by silence when its time was over, and whoever was told that an answer counts was
told the truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tests.simulation.checks.ledger import Ledger
from tests.simulation.history import History
from tests.simulation.workflows.people import Answer, WorkflowPeople

PASSED = "passed_by_hand"
ENDED = ("succeeded", "failed", "skipped")

Changes = dict[tuple[int, int], list[Any]]  # by run of a workflow and index of the step


def changes_of_steps(ledger: Ledger) -> Changes:
    """Every change of every step, in order."""
    found: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
    for row in ledger.other("step"):
        found[row.id, row.attempt].append(row)
    return found


def beginnings(ledger: Ledger) -> dict[float, int]:
    """The first change of each transaction, by its virtual time: rows of steps are written last."""
    found: dict[float, int] = {}
    for row in ledger.changes:
        found.setdefault(row.vt, row.seq)
    return found


def check_steps(
    ledger: Ledger, changes: Changes, people: WorkflowPeople | None, history: History
) -> None:
    """Note every broken promise about the rows of steps in the history."""
    said: defaultdict[tuple[int, str], list[Answer]] = defaultdict(list)
    for answer in [] if people is None else people.answers:
        said[answer.run_id, answer.key].append(answer)
    skips = set() if people is None else people.skips
    skipped = set() if people is None else set(people.skipped)
    for (run_id, index), rows in changes.items():
        run = ledger.runs.get(run_id)
        if run is None:
            continue
        step = ledger.config(run)["workflow"]["steps"][index]
        place = (run_id, step["key"])
        by_hand = any(row.reason == PASSED for row in rows)
        if by_hand and place not in skips:
            history.violation(f"G4: step {place[1]} of workflow run {run_id} was passed by nobody")
        if by_hand:
            skipped.discard(place)
        for told in _broken(step, rows, said[place]):
            history.violation(f"G4: step {step['key']} of workflow run {run_id} {told}")
    for run_id, key in sorted(skipped):
        history.violation(f"G4: step {key} of workflow run {run_id} was not passed, as was told")


def _broken(step: dict[str, Any], rows: Sequence[Any], said: Sequence[Answer]) -> list[str]:
    found = []
    for before, row in pairwise(rows):
        # The late result of a lost run may still count; a failure may be passed by hand, and what
        # was skipped for it waits again.
        is_lost = before.state == "failed" and before.reason in ("lost", "items_failed")
        is_passed = before.state == "failed" and row.reason == PASSED
        waits_again = before.state == "skipped" and before.reason == "needs"
        if before.state in ENDED and not (is_lost or is_passed or waits_again):
            found.append(f"ended as {before.state} ({before.reason}) and became {row.state}")
    asked = None
    answered = []
    for row in rows:
        if row.state == "ready":
            asked = row
        elif row.reason == PASSED:
            asked = None
        elif asked is not None and row.reason != "stopped":
            if asked.reason == "wait":
                found += _early(asked, row, step["body"].get("duration_ms", 0))
            elif row.choice is None:
                found += _unanswered(asked, row, step["body"])
            else:
                answered.append(row)
            asked = None
        elif row.state == "succeeded" and step["body"]["kind"] in ("wait", "approval"):
            found.append(f"is succeeded {row.reason} and has waited for nothing")
    if asked is not None and rows[-1].state not in ENDED:
        found.append(f"waits for ever: {asked.reason}")
    confirmed = [each.approved for each in said if each.is_confirmed]
    if len(answered) > 1 or len(confirmed) > 1:
        found.append(f"was answered {len(answered)} times; {len(confirmed)} were told so")
    for row in answered:
        meant = row.reason != "declined"  # one that was let go may have begun, or failed, at once
        if all(each.approved != meant for each in said):
            found.append(f"is {row.state} {row.reason}, which nobody said")
        if confirmed and confirmed[0] != meant:
            found.append(f"is {row.state} {row.reason}, and somebody else was told the opposite")
    if confirmed and not answered:
        found.append("was answered, and somebody was told so, and nothing came of it")
    return found


def _early(asked: Any, row: Any, duration_ms: int) -> list[str]:
    if row.state != "succeeded":
        return [f"waited and is {row.state} {row.reason}"]
    if row.at < asked.at + duration_ms:
        return [f"waited {row.at - asked.at} ms of {duration_ms}"]
    return []


def _unanswered(asked: Any, row: Any, body: dict[str, Any]) -> list[str]:
    deadline_ms = body.get("deadline_ms")
    if asked.reason != "approval" or deadline_ms is None:
        return [f"went on to {row.state} {row.reason} without an answer"]
    if row.at < asked.at + deadline_ms:
        return [f"was taken as silent after {row.at - asked.at} ms of {deadline_ms}"]
    meant = "succeeded" if body.get("silence") == "approve" else "failed"
    return [] if row.state == meant else [f"is {row.state} by silence, which means {meant}"]
