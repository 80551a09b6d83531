"""What retries of workflows took over: the steps that they were to, as these had ended.

Which steps those are is computed here a second time, from the graph and from what somebody asked.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulation.checks.ledger import Ledger
from tests.simulation.checks.steps import PASSED
from tests.simulation.history import History
from tests.simulation.workflows.people import Again

Taken = Mapping[tuple[int, int], Any]  # by run of a workflow and index of the step


def taken_steps(ledger: Ledger) -> Taken:
    """The rows of steps that were more than waiting when they were written."""
    return {(row.id, row.attempt): row for row in ledger.other("step+")}


def check_retries(
    ledger: Ledger,
    changes: Mapping[tuple[int, int], Sequence[Any]],
    taken: Taken,
    wishes: Sequence[Again],
    history: History,
) -> None:
    """Note every broken promise about retries of workflows in the history."""
    wanted = {wish.key: wish for wish in wishes}
    made = {row.id: row.seq for row in ledger.changes if row.what == "run+"}
    takers: defaultdict[int, list[Any]] = defaultdict(list)
    for run in ledger.runs.values():
        if run.shard_index != -2:
            continue
        rows = {index: row for (of, index), row in taken.items() if of == run.id}
        wish = wanted.get(run.request_key or "")
        name = f"G4: workflow run {run.id}, a retry of run {run.retry_of},"
        if wish is None:
            if rows:
                history.violation(f"{name} took steps over, which nobody wanted")
            continue
        before = ledger.runs.get(run.retry_of)
        if before is None:
            continue
        for told in _broken(ledger, run, before, rows, wish, changes, taken, made[run.id]):
            history.violation(f"{name} {told}")
        if wish.again != "all":
            takers[before.id].append(run)
    for old, runs in takers.items():
        spans = sorted((made[run.id], ledger.ended[run.id].seq) for run in runs)
        if any(later[0] < earlier[1] for earlier, later in itertools.pairwise(spans)):
            history.violation(f"G4: workflow run {old} was retried twice at once")


def _broken(
    ledger: Ledger,
    run: Any,
    before: Any,
    rows: Mapping[int, Any],
    wish: Again,
    changes: Mapping[tuple[int, int], Sequence[Any]],
    taken: Taken,
    at: int,
) -> list[str]:
    found = []
    graph = ledger.config(before)["workflow"]["steps"]
    new = {step["key"]: n for n, step in enumerate(ledger.config(run)["workflow"]["steps"])}
    was = {}
    for index, step in enumerate(graph):
        told = [row for row in changes.get((before.id, index), ()) if row.seq < at]
        first = taken.get((before.id, index))
        was[step["key"]] = told[-1] if told else first
    both = {key for key in was if key in new}
    # What had been passed in the run that is repeated is taken over as that.
    by_hand = {
        key
        for key in both
        if _reason(rows.get(new[key])) == PASSED
        and (key in wish.skip or _reason(was[key]) != PASSED)
    }
    took = {key for key in both if _state(rows.get(new[key])) != "waiting"} - by_hand
    anew = both - took
    needs = {step["key"]: {need["step"] for need in step.get("needs", ())} for step in graph}
    if by_hand - set(wish.skip):
        found.append(f"passed {sorted(by_hand)}, and {wish.skip} were to be passed")
    if wish.again == "all" and took:
        found.append(f"took {sorted(took)} over, and was to do everything anew")
    if wish.again == "only" and anew != {wish.step} & both:
        found.append(f"did {sorted(anew)} anew, and was to do {wish.step} alone")
    if wish.again == "from" and anew != _dependents({wish.step}, needs) & both:
        found.append(f"did {sorted(anew)} anew, and was to begin with {wish.step}")
    if wish.again == "failed":
        if anew != _dependents(anew, needs) & both:
            found.append(f"did {sorted(anew)} anew, and not what needs them")
        bad = {
            key
            for key, row in was.items()
            if _state(row) not in ("succeeded", "skipped") or _reason(row) == "stopped"
        }
        if anew - _dependents(bad, needs):
            found.append(f"did {sorted(anew - _dependents(bad, needs))} anew without a reason")
        unhandled = {key for key in bad & both if not _is_made_good(key, graph, was)}
        if unhandled & took:
            found.append(f"took {sorted(unhandled & took)} over, which had failed")
    for key in sorted(took):
        row, old = rows[new[key]], was[key]
        meant = _state(old) if _state(old) in ("succeeded", "failed", "skipped") else "skipped"
        if row.state != meant:
            found.append(f"took {key} over as {row.state}, and it was {meant}")
    return found


def _is_made_good(key: str, graph: Sequence[Any], was: Mapping[str, Any]) -> bool:
    """Whether some step ran because that one had failed, and succeeded."""
    return any(
        need["step"] == key and need.get("outcome") == "failed"
        for step in graph
        if _state(was[step["key"]]) == "succeeded"
        for need in step.get("needs", ())
    )


def _dependents(roots: set[str | None], needs: Mapping[str, set[str]]) -> set[str | None]:
    found = set(roots)
    for key, of in needs.items():  # each stands behind what it needs
        if of & found:
            found.add(key)
    return found


def _state(row: Any) -> str:
    return "waiting" if row is None else str(row.state)


def _reason(row: Any) -> str | None:
    return None if row is None else row.reason
