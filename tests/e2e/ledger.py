"""What the database says happened, held against what the nodes' journals say happened.

It knows the tables and the journals, and none of the product's rules or functions, so that a rule
that is wrong in the product is not wrong here in the same way.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

LIVE = ("queued", "dispatched", "running")
Key = tuple[int, int]  # run, attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Journals:
    """All starts and regular ends of attempts, over all nodes."""

    starts: Counter[Key]
    ends: Counter[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The tables that tell what became of every fire."""

    runs: Sequence[Any]
    attempts: Sequence[Any]  # ended ones that another try followed
    triggers: Sequence[Any]
    nodes: Sequence[Any]


def read_journals(paths: Iterable[Path]) -> Journals:
    """Each line is an event, a run and an attempt."""
    counts: dict[str, Counter[Key]] = {"start": Counter(), "end": Counter()}
    for path in paths:
        for line in path.read_text().splitlines():
            event, run, attempt = line.split()
            counts[event][int(run), int(attempt)] += 1
    return Journals(starts=counts["start"], ends=counts["end"])


class LedgerReader:
    """Queries of its own, beside the product's."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)

    def query(self, statement: str) -> Sequence[Any]:
        with closing(self._engine.connect()) as connection:
            return connection.execute(sa.text(statement)).all()

    def live_runs(self) -> int:
        """How many runs have not ended."""
        states = ", ".join(f"'{state}'" for state in LIVE)
        return int(self.query(f"SELECT count(*) FROM run WHERE state IN ({states})")[0][0])

    def read(self) -> Ledger:
        quote = "`" if self._engine.dialect.name in ("mysql", "mariadb") else '"'
        return Ledger(
            runs=self.query("SELECT * FROM run"),
            attempts=self.query("SELECT * FROM run_attempt"),
            triggers=self.query(f"SELECT * FROM {quote}trigger{quote}"),
            nodes=self.query("SELECT * FROM node"),
        )


def problems(ledger: Ledger, journals: Journals, *, paused_at: int) -> list[str]:
    """Every broken guarantee, in words; `paused_at` is when the last trigger was paused at the
    earliest, by the database's clock.
    """
    return [
        *_fires(ledger, paused_at),
        *_starts(ledger, journals),
        *_ends(ledger, journals),
        *_settled(ledger),
    ]


def _fires(ledger: Ledger, paused_at: int) -> Iterable[str]:
    """Every instant of each trigger in its active time has exactly one row, and none is skipped."""
    instants: defaultdict[int, list[int]] = defaultdict(list)
    for run in ledger.runs:
        if run.trigger_id is not None:
            instants[run.trigger_id].append(run.scheduled_at)
            if run.state == "skipped":
                yield f"run {run.id} was skipped: {run.reason} {run.message}"
    for trigger in ledger.triggers:
        spec = json.loads(trigger.spec)
        every, anchor = spec["every_ms"], spec["anchor_at"]
        found = sorted(instants[trigger.id])
        # The last instant before the pause at the least; at the most one that came during it.
        last = max(found, default=anchor)
        expected = list(range(anchor, last + 1, every))
        if found != expected:
            counts = Counter(found)
            missing = [at for at in expected if at not in counts]
            extra = [at for at in counts if counts[at] > 1 or at not in set(expected)]
            yield f"trigger {trigger.id}: missing {missing[:5]}, extra {extra[:5]}"
        if last + every < paused_at:
            yield f"trigger {trigger.id} stopped firing at {last}, paused at {paused_at}"


def _starts(ledger: Ledger, journals: Journals) -> Iterable[str]:
    """No attempt starts twice, and none that the ledger does not know."""
    yield from (f"{key} started {n} times" for key, n in journals.starts.items() if n > 1)
    latest = {run.id: run.attempt for run in ledger.runs}
    for run_id, attempt in journals.starts:
        if attempt > latest.get(run_id, 0):
            yield f"{(run_id, attempt)} started, and the ledger knows nothing of it"


def _ends(ledger: Ledger, journals: Journals) -> Iterable[str]:
    """What ended is recorded with its own result, or its attempt was lost; and the reverse."""
    states = {(a.run_id, a.attempt): a.state for a in ledger.attempts}
    states |= {(run.id, run.attempt): run.state for run in ledger.runs}
    for key in journals.ends:
        if states.get(key) not in ("succeeded", "lost"):
            yield f"{key} ended, but the ledger says {states.get(key)}"
    tried = Counter(run_id for run_id, _ in states)
    for run in ledger.runs:
        if run.state == "succeeded":
            key = (run.id, run.attempt)
            if not (journals.starts[key] and journals.ends[key]):
                yield f"{key} succeeded in the ledger, and on no node"
            if json.loads(run.result) != {"run": run.id, "attempt": run.attempt}:
                yield f"{key} has the result of another: {run.result}"
        elif run.state != "lost":
            yield f"run {run.id} ended as {run.state}: {run.reason} {run.message}"
        if run.tries != tried[run.id]:
            yield f"run {run.id} counts {run.tries} tries, and {tried[run.id]} are on the books"


def _settled(ledger: Ledger) -> Iterable[str]:
    """Nothing goes on, and nothing holds a slot."""
    yield from (f"run {run.id} is {run.state}" for run in ledger.runs if run.state in LIVE)
    yield from (
        f"node {node.id} {node.name} ({node.state}) holds {node.in_use} slots"
        for node in ledger.nodes
        if node.in_use
    )
