"""What had to run in each workflow, computed a second time from its graph and how its runs ended.

It shares no rule with the engine: it walks the graph once, in its order, after everything is over,
and compares with what there is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

from tests.simulation.checks.ledger import FINAL, Ledger
from tests.simulation.checks.retried_steps import Taken, check_retries, taken_steps
from tests.simulation.checks.spawned import OWN, broken_items, place_of, spawned_by
from tests.simulation.checks.steps import (
    ENDED,
    PASSED,
    Changes,
    beginnings,
    changes_of_steps,
    check_steps,
)
from tests.simulation.handlers import Journal
from tests.simulation.history import History
from tests.simulation.workflows.people import WorkflowPeople


@dataclass
class _Step:
    """How a step should have ended."""

    outcome: str  # succeeded, failed, skipped; unknown: the workflow was stopped before
    at: int  # seq of the change from which on others may begin; 0: nothing of it is in the ledger
    items: int | None = None  # of a for_each, or spawned
    # Of one that somebody passed by hand, or that waited again when that happened to another: how
    # it stood before, and the change that ended this.
    before: list[tuple[str, int]] = field(default_factory=list)


def check_workflows(
    ledger: Ledger, journal: Journal, people: WorkflowPeople | None, history: History
) -> None:
    """Note every broken promise about steps in the history."""
    changes = changes_of_steps(ledger)
    taken = taken_steps(ledger)
    check_steps(ledger, changes, people, history)
    check_retries(ledger, changes, taken, [] if people is None else people.retries, history)
    first = beginnings(ledger)
    made = {row.id: row.seq for row in ledger.changes if row.what == "run+"}
    deleted = {row.id: row.seq for row in ledger.other("job-")}
    steps: defaultdict[int, dict[tuple[str, int], Any]] = defaultdict(dict)
    for run in ledger.runs.values():
        if run.origin != "step" or run.fire_id is not None:
            continue
        key, item = place_of(run)
        if (key, item) in steps[run.parent_run_id]:
            history.violation(f"G4: step {key}[{item}] of run {run.parent_run_id} runs twice")
        steps[run.parent_run_id][key, item] = run
    for run in ledger.runs.values():
        if run.shard_index == -2:
            own = steps.pop(run.id, {})
            found = [
                _Check(
                    ledger, journal, run, own, changes, taken, first, made, deleted, counted
                ).violations()
                for counted in _late_ends(ledger, own.values())
            ]
            if all(found):
                for what in found[0]:
                    history.violation(what)
    for run_id in steps:
        history.violation(f"G4: there are steps of run {run_id}, which is no workflow")


def _late_ends(ledger: Ledger, runs: Collection[Any]) -> Iterator[Collection[int]]:
    """Which late results of lost runs may have counted: none, or any of them.

    Whether one did hangs on what had followed from the loss; what there is must fit one choice.
    """
    late = [run.id for run in runs if run.id in ledger.ended_late]
    for count in range(len(late) + 1):
        yield from combinations(late[:8], count)


_FOR_NEEDS = ("skipped", "needs")


class _Check:
    def __init__(
        self,
        ledger: Ledger,
        journal: Journal,
        run: Any,
        steps: dict[tuple[str, int], Any],
        changes: Changes,
        taken: Taken,
        beginnings: dict[float, int],
        made: dict[int, int],
        deleted: dict[int, int],
        late: Collection[int],
    ) -> None:
        self._ledger = ledger
        self._journal = journal
        self._late = late
        self._found: list[str] = []
        self._run = run
        self._steps = steps
        self._changes = changes
        self._taken = taken
        self._beginnings = beginnings
        self._made = made
        self._deleted = deleted
        self._ended = ledger.ended.get(run.id)
        self._stopped = run.cancel_requested_at is not None
        self._name = f"workflow run {run.id}"
        self._lists: set[str] = set()  # steps with for_each, whose results are lists in any case

    def violations(self) -> list[str]:
        """What is not as it had to be."""
        self._check()
        return self._found

    def _check(self) -> None:
        if self._ended is None:
            return  # said to be stuck already
        if not self._run.attempt:
            if self._steps:
                self._violation(f"never began and has steps {sorted(self._steps)}")
            return
        graph = self._ledger.config(self._run)["workflow"]
        self._lists = {step["key"] for step in graph["steps"] if step.get("for_each") is not None}
        found: dict[str, _Step] = {}
        for index, step in enumerate(graph["steps"]):
            place = (self._run.id, index)
            told = self._changes.get(place, [])
            taken = self._taken.get(place)
            if taken is not None and taken.state != "waiting":
                found[step["key"]] = self._taken_over(step["key"], taken, told)
                continue
            own = self._passed(step, found, told, place)
            own = self._step(step, found, told, place) if own is None else own
            own.before = _skipped_before(told) + own.before
            found[step["key"]] = own
            self._check_row(step["key"], own, told)
        asked = None if self._ledger.went_back else self._run.cancel_requested_at
        for (key, _), run in self._steps.items():
            if asked is not None and run.created_at > asked:
                self._violation(f"began {key} after it was asked to end")
            if key not in found:
                self._violation(f"has a run of the step {key}, which is not in its graph")
        self._check_end(graph, found)

    def _violation(self, what: str) -> None:
        self._found.append(f"G4: {self._name} {what}")

    def _end(self, run: Any) -> Any:
        ends = self._ledger.ended_late if run.id in self._late else self._ledger.ended
        return ends.get(run.id)

    def _outcome(self, run: Any) -> str:
        return _outcome(self._end(run))

    def _passed(
        self,
        step: dict[str, Any],
        found: dict[str, _Step],
        told: Sequence[Any],
        place: tuple[int, int],
    ) -> _Step | None:
        """A step that somebody passed by hand; what it did before is checked as that of others."""
        at = next((n for n, row in enumerate(told) if row.reason == PASSED), None)
        if at is None:
            return None
        before = self._step(step, found, told[:at], place).outcome if at else "waiting"
        if before == "succeeded":
            self._violation(f"passed {step['key']} by hand, which had succeeded")
        items = self._ledger.items_of_steps.get(place)
        return _Step("succeeded", self._began(told[at]), items, [(before, told[at].seq)])

    def _taken_over(self, key: str, taken: Any, told: Sequence[Any]) -> _Step:
        """A step that has ended in the run that this one repeats; nothing more becomes of it."""
        if told or any(place[0] == key for place in self._steps):
            self._violation(f"did {key} anew, which it had taken over")
        return _Step(taken.state, 0, taken.tries)

    def _check_row(self, key: str, step: _Step, told: Sequence[Any]) -> None:
        """The row of a step says what became of it, unless the workflow was stopped before."""
        state = told[-1].state if told else "waiting"
        if step.outcome not in ("unknown", state) and not self._stopped:
            self._violation(f"has a row of {key} that is {state} and not {step.outcome}")

    def _step(
        self,
        step: dict[str, Any],
        found: dict[str, _Step],
        told: Sequence[Any],
        place: tuple[int, int],
    ) -> _Step:
        """Compare one step with what those that it needs let it do.

        What waits ends when its row does, which has a check of its own.
        """
        key = step["key"]
        runs = [self._steps[place] for place in sorted(self._steps) if place[0] == key]
        for run in runs:
            self._check_times(run, key)
        verdict, at = self._verdict(step, found, told)
        if verdict == "skip":
            if runs:
                self._violation(f"ran {key}, which was to be skipped")
            return _Step("skipped", at)
        if verdict == "unknown":
            if runs and not self._stopped:
                self._violation(f"ran {key} although what it needs is not known")
            return _Step("unknown", at)
        let_go = [self._began(row) for row in told if row.choice is not None]
        for run in runs:
            if self._made[run.id] < max([at, *let_go[:1]]):
                self._violation(f"ran {key} before what it needs had ended, or it was let go")
        if step.get("pause_before") and runs and not let_go:
            self._violation(f"ran {key}, which nobody let go")
        ended = told[-1] if told else None
        is_over = ended is not None and ended.state in ENDED and ended.reason != "stopped"
        if step["body"]["kind"] in ("wait", "approval"):
            if ended is None or not is_over:
                return _Step("unknown", at)
            return _Step(ended.state, self._began(ended))
        if ended is not None and ended.reason == "declined":
            if runs:
                self._violation(f"ran {key}, which was declined")
            return _Step("failed", self._began(ended))
        if step.get("for_each") is not None:
            return self._items(step, runs, at, found, place)
        own = self._steps.get((key, OWN))
        if own is None:
            if runs:
                self._violation(f"ran items of {key}, which has no run of its own")
            return self._without_run(step, at)
        return self._own_run(step, own, [run for run in runs if run is not own], place)

    def _own_run(
        self, step: dict[str, Any], own: Any, runs: list[Any], place: tuple[int, int]
    ) -> _Step:
        """How a step ends with its own run, and with what that has spawned."""
        items = spawned_by(own, self._end(own), self._journal)
        if items is None:
            if runs:
                self._violation(f"ran items of {step['key']}, which nobody spawned")
            return _Step(self._outcome(own), self._end_of([own]))
        for told in broken_items(self._ledger, runs, items, own, self._journal):
            self._violation(f"ran {step['key']}, {told}")
        return self._counted(
            step["key"], step.get("spawn") or {}, runs, len(items), self._end_of([own]), place
        )

    def _verdict(
        self, step: dict[str, Any], found: dict[str, _Step], told: Sequence[Any]
    ) -> tuple[str, int]:
        """run, skip or unknown; and from when on."""
        at = 0
        unknown = False
        broken: list[int] = []
        for need in step.get("needs", ()):
            other = found[need["step"]]
            wanted = need.get("outcome", "succeeded")
            went_by = next((was for was, at in other.before if _had_begun(told, at)), None)
            outcome = went_by or other.outcome
            if went_by is None:
                at = max(at, other.at)
            if outcome in ("unknown", "waiting"):
                unknown = True
            elif wanted not in ("ended", outcome):
                broken.append(other.at)
        if broken:
            return "skip", min(broken)  # whatever else it needs
        if unknown:
            return "unknown", at
        if step.get("when") == 'parameters.mode == "full"':
            return "failed", at  # there is no such parameter
        return "run", at

    def _without_run(self, step: dict[str, Any], at: int) -> _Step:
        """A step that had to run and has no run."""
        if step.get("when") == 'parameters.mode == "full"':
            return _Step("failed", at)
        if self._stopped:
            return _Step("unknown", at)
        job_id = step["body"].get("job_id")
        if job_id not in self._deleted:
            self._violation(f"never ran {step['key']}, which had to run")
        return _Step("failed", at)

    def _items(
        self,
        step: dict[str, Any],
        runs: list[Any],
        at: int,
        found: dict[str, _Step],
        place: tuple[int, int],
    ) -> _Step:
        each = step["for_each"]
        items = json.loads(each["items"])
        is_list = True
        if isinstance(items, str):  # as many as another one had
            other = found[items.split(".")[1]]
            # What was passed by hand before it had spawned anything has no result.
            is_list = other.items is not None or items.split(".")[1] in self._lists
            items = range(other.items or 0)
        if not is_list or step.get("when") == 'parameters.mode == "full"':
            if runs:
                self._violation(f"ran items of {step['key']}, whose values are missing")
            return _Step("failed", at)
        return self._counted(step["key"], each, runs, len(items), at, place)

    def _counted(
        self,
        key: str,
        rules: dict[str, Any],
        runs: list[Any],
        count: int,
        at: int,
        place: tuple[int, int],
    ) -> _Step:
        """How a step ends by the runs of its items."""
        ends = [self._outcome(run) for run in runs]
        failed = ends.count("failed")
        rule = rules.get("tolerance", {})
        if rule.get("percent") is not None:
            tolerated = failed * 100 <= rule["percent"] * count
        else:
            tolerated = failed <= rule.get("count", 0)
        most = rules.get("max_parallel")
        if most is not None:
            self._check_side_by_side(key, runs, most)
        linked = self._ledger.items.get(place, set())
        if not linked >= {run.id for run in runs}:
            self._violation(f"has no rows of items of {key} that ran")
        # Those of the run that this one repeats that succeeded may be taken over.
        began = len(linked | {run.id for run in runs})
        if began > count:
            self._violation(f"ran {began} of {count} items of {key}")
        if began < count and tolerated:
            if not self._stopped:
                self._violation(f"ran only {began} of {count} items of {key}")
            return _Step("unknown", self._end_of(runs) or at)
        outcome = "succeeded" if tolerated else "failed"
        return _Step(outcome, self._end_of(runs) or at, count)

    def _check_side_by_side(self, key: str, runs: list[Any], most: int) -> None:
        ended = self._ledger.ended
        events = sorted(
            [(self._made[run.id], 1) for run in runs]
            + [(ended[run.id].seq, -1) for run in runs if run.id in ended]
        )
        live = 0
        for _, change in events:
            live += change
            if live > most:
                self._violation(f"had {live} items of {key} at once, of at most {most}")
                return

    def _check_times(self, run: Any, key: str) -> None:
        end = self._ledger.ended.get(run.id)
        if end is None or self._ended is None:
            self._violation(f"is over, and its step {key} is not")
        elif end.seq > self._ended.seq:
            self._violation(f"ended before its step {key}")
        elif self._made[run.id] > self._ended.seq:
            self._violation(f"began {key} after it had ended")

    def _began(self, change: Any) -> int:
        """The first change of the transaction that this change is of."""
        return min(self._beginnings.get(change.vt, change.seq), change.seq)

    def _end_of(self, runs: list[Any]) -> int:
        ended = self._ledger.ended
        return max((ended[run.id].seq for run in runs if run.id in ended), default=0)

    def _check_end(self, graph: dict[str, Any], found: dict[str, _Step]) -> None:
        if self._ended is None:
            return
        state = self._ended.state
        if self._stopped:
            if state not in ("cancelled", "timed_out", "succeeded"):
                self._violation(f"was stopped and is {state}")
            return
        handled = {
            need["step"]
            for step in graph["steps"]
            if found[step["key"]].outcome != "skipped"
            for need in step.get("needs", ())
            if need.get("outcome", "succeeded") == "failed"
        }
        failed = {key for key, step in found.items() if step.outcome == "failed"} - handled
        expected = "failed" if failed else "succeeded"
        if state != expected:
            self._violation(f"is {state} and not {expected}; failed: {sorted(failed)}")


def _had_begun(told: Sequence[Any], at: int) -> bool:
    """Whether a step was more than waiting, or skipped for what it needs, before that change."""
    earlier = [row for row in told if row.seq < at]
    return bool(earlier) and (
        earlier[-1].state != "waiting" and (earlier[-1].state, earlier[-1].reason) != _FOR_NEEDS
    )


def _skipped_before(told: Sequence[Any]) -> list[tuple[str, int]]:
    """When a step that was skipped for what it needs waited again."""
    return [
        ("skipped", row.seq)
        for earlier, row in pairwise(told)
        if (earlier.state, earlier.reason) == _FOR_NEEDS
    ]


def _outcome(ended: Any) -> str:
    if ended is None or ended.state not in FINAL:
        return "unknown"
    if ended.state == "succeeded":
        return "succeeded"
    if ended.state == "skipped" and ended.reason == "by_handler":
        return "skipped"
    return "failed"
