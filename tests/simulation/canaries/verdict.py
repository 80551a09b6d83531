"""What is true of canary retries at the end of a simulation.

It shares no rule with the engine: it knows which runs were written for a canary retry, and the
memory of every change of them and of the canary retry itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.simulation.canaries.people import CanaryPeople
from tests.simulation.checks.families import FAILURES
from tests.simulation.checks.ledger import Ledger
from tests.simulation.database import SimDatabase
from tests.simulation.history import History

DAY_MS = 86_400_000
MOST = 128  # runs of a wave


def unfinished(database: SimDatabase) -> list[str]:
    """Canary retries that go on."""
    rows = database.rows("SELECT * FROM failure_canary WHERE state = 'running' ORDER BY id")
    return [f"canary retry {dict(row)}" for row in rows]


def check_canaries(database: SimDatabase, people: CanaryPeople, history: History) -> Counter[str]:
    """Note every broken promise in the history; returns what there was, by kind."""
    ledger = Ledger(database)
    memory: defaultdict[int, list[Any]] = defaultdict(list)
    for row in database.rows("SELECT * FROM sim_canary ORDER BY seq"):
        memory[row.id].append(row)
    runs: defaultdict[int, list[Any]] = defaultdict(list)
    for run in ledger.runs.values():
        if (run.request_key or "").startswith("canary:"):
            runs[int(run.request_key.split(":")[1])].append(run)
    canaries = database.rows("SELECT * FROM failure_canary ORDER BY id")
    checks = _Checks(ledger, people, history)
    seen = Counter({"retries": len(canaries), "killed under": len(people.killed_under)})
    for canary in canaries:
        seen[f"{canary.state} {canary.reason or ''}".strip()] += 1
        waves = checks.of_one(canary, memory[canary.id], runs.pop(canary.id, []))
        seen["waves"] += len(waves)
        seen["largest wave"] = max(seen["largest wave"], *(len(each) for each in waves), 0)
    for canary_id in runs:
        history.violation(f"runs were written for a canary retry that is not there: {canary_id}")
    _check_one_at_a_time(memory, history)
    return seen


class _Checks:
    def __init__(self, ledger: Ledger, people: CanaryPeople, history: History) -> None:
        self._ledger = ledger
        self._people = people
        self._history = history
        self._states: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        self._written: dict[int, int] = {}
        for change in ledger.changes:
            self._states[change.id].append((change.seq, change.state))
            if change.what == "run+":
                self._written[change.id] = change.seq
        self._retries: defaultdict[int, list[Any]] = defaultdict(list)
        for run in ledger.runs.values():
            if run.retry_of is not None:
                self._retries[run.retry_of].append(run)

    def of_one(self, canary: Any, memory: Sequence[Any], runs: Sequence[Any]) -> list[list[Any]]:
        """Its waves."""
        name = f"canary retry {canary.id}"
        for run in runs:
            self._check_run(canary, run, name)
        waves = list(self._waves(memory, runs))
        self._check_waves(waves, name)
        if canary.state == "running":
            return waves  # said to be stuck already
        end = next(row.seq for row in memory if row.state != "running")
        late = [run.id for run in runs if self._written[run.id] > end]
        if late:
            self._history.violation(f"G14: runs {late} were written after the end of {name}")
        self._check_end(canary, memory[0].seq, end, runs, name)
        return waves

    def _check_run(self, canary: Any, run: Any, name: str) -> None:
        """It does a run of the group again that nobody had done again."""
        original = self._ledger.runs.get(run.retry_of)
        if run.request_key != f"canary:{canary.id}:{run.retry_of}" or original is None:
            self._history.violation(f"{name} wrote run {run.id} for {run.retry_of}")
            return
        if original.id not in self._ledger.ended_late and original.error_id != canary.group_id:
            self._history.violation(f"{name} did run {original.id} again, which failed otherwise")
        before = [
            other.id
            for other in self._retries[original.id]
            if other.id != run.id and self._written[other.id] < self._written[run.id]
        ]
        if before:
            self._history.violation(
                f"G2: {name} did run {original.id} again, as {before} had done already"
            )

    def _waves(self, memory: Sequence[Any], runs: Sequence[Any]) -> Iterator[list[Any]]:
        """The runs of each of its transactions, in the order of these."""
        for before, after in pairwise([0, *(row.seq for row in memory)]):
            wave = [run for run in runs if before < self._written[run.id] <= after]
            if wave:
                yield wave

    def _check_waves(self, waves: Sequence[Sequence[Any]], name: str) -> None:
        """One first; each is at most twice the one before, all runs of which have succeeded."""
        largest = 1
        for number, wave in enumerate(waves):
            if len(wave) > largest:
                self._history.violation(
                    f"{name} retries {len(wave)} runs in wave {number + 1}, not {largest}"
                )
            largest = min(2 * len(wave), MOST)
            begun = self._written[wave[0].id]
            for run in waves[number - 1] if number else ():
                state = self._state_at(run.id, begun)
                if state != "succeeded":
                    self._history.violation(
                        f"{name} goes on with wave {number + 1} while run {run.id} of the one"
                        f" before is {state}"
                    )

    def _check_end(self, canary: Any, begun: int, end: int, runs: Sequence[Any], name: str) -> None:
        states = Counter(self._state_at(run.id, end) for run in runs)
        others = len(runs) - states["succeeded"]
        if canary.retried != len(runs):
            self._history.violation(f"{name} counts {canary.retried} retries of {len(runs)}")
        match canary.state, canary.reason:
            case "done", None:
                if others:
                    self._history.violation(f"{name} is done, and its runs are {dict(states)}")
                if (canary.succeeded, canary.failed) != (len(runs), 0):
                    self._history.violation(f"{name} counts its ends wrongly: {dict(canary)}")
                self._check_all_done(canary, begun, name)
            case "stopped", "failed":
                if not others:
                    self._history.violation(f"{name} was stopped, and its runs have succeeded")
            case "stopped", "by_hand":
                if canary.group_id not in self._people.stopping:
                    self._history.violation(f"{name} was stopped by nobody")
            case _:
                self._history.violation(f"{name} ended as {canary.state}, {canary.reason}")

    def _check_all_done(self, canary: Any, begun: int, name: str) -> None:
        """Each run that had failed like this when it began was done again, by whomever."""
        left = [
            run.id
            for run in self._ledger.runs.values()
            if run.error_id == canary.group_id
            and run.state in FAILURES
            and run.fire_id is None
            and run.origin not in ("step", "try")
            and canary.since <= (run.ended_at or 0) <= canary.started_at
            and canary.since - DAY_MS <= run.scheduled_at <= canary.started_at
            and self._states[run.id][-1][0] < begun
            and not self._retries[run.id]
        ]
        if len(left) > canary.left_out:
            self._history.violation(
                f"G3: {name} is done and left out {canary.left_out}, but not retried are {left}"
            )

    def _state_at(self, run_id: int, seq: int) -> str:
        return [state for at, state in self._states[run_id] if at < seq][-1]


def _check_one_at_a_time(memory: dict[int, list[Any]], history: History) -> None:
    """No failure is retried twice at a time."""
    spans: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for rows in memory.values():
        end = next((row.seq for row in rows if row.state != "running"), 2**63)
        spans[rows[0].group_id].append((rows[0].seq, end))
    for group_id, found in spans.items():
        for (_, end), (begin, _) in pairwise(sorted(found)):
            if begin < end:
                history.violation(f"two canary retries of failure {group_id} go on at once")
