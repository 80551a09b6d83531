"""What the database says happened, held against what the nodes' journals say happened.

It knows the tables and the journals, and none of the product's rules or functions, so that a rule
that is wrong in the product is not wrong here in the same way.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa

LIVE = ("queued", "dispatched", "running")
Key = tuple[int, int]  # run, attempt


class Kind(StrEnum):
    """Which promise was broken."""

    LOST = "lost"  # a fire without a run, a result that the ledger does not have
    DOUBLED = "doubled"  # a second fire of an instant, a second start of an attempt
    STUCK = "stuck"  # goes on, or holds a slot, when all should be quiet
    FAILED = "failed"  # a run that ended badly where every one should succeed
    OVERLAPPED = "overlapped"  # two attempts at once where one was allowed


@dataclass(frozen=True, slots=True)
class Problem:
    """A broken guarantee, in words."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journals:
    """All starts and ends of attempts, over all nodes."""

    starts: Counter[Key]
    ends: Counter[Key]  # regular ones
    started_at: dict[Key, float]  # seconds, of the first
    left_at: dict[Key, float]  # seconds, of the last end of any kind; killed ones have none


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The tables that tell what became of every fire."""

    runs: Sequence[Any]
    attempts: Sequence[Any]  # ended ones that another try followed
    triggers: Sequence[Any]
    nodes: Sequence[Any]


def read_journals(paths: Iterable[Path], earlier: Collection[int] = ()) -> Journals:
    """Each line is an event, a run, an attempt and a time; `earlier` runs are left out."""
    starts: Counter[Key] = Counter()
    ends: Counter[Key] = Counter()
    started_at: dict[Key, float] = {}
    left_at: dict[Key, float] = {}
    for path in sorted(set(paths)):  # nodes of one name share theirs
        for line in path.read_text().splitlines():
            event, run, attempt, at = line.split()
            key = (int(run), int(attempt))
            if key[0] in earlier:
                continue
            if event == "start":
                starts[key] += 1
                started_at[key] = min(float(at), started_at.get(key, float(at)))
                continue
            ends[key] += event == "end"
            left_at[key] = max(float(at), left_at.get(key, 0.0))
    return Journals(starts=starts, ends=+ends, started_at=started_at, left_at=left_at)


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

    def read(self, jobs: Collection[int] = ()) -> Ledger:
        """What became of the fires of these jobs, or of all."""
        quote = "`" if self._engine.dialect.name in ("mysql", "mariadb") else '"'
        chosen = f"job_id IN ({', '.join(map(str, jobs))})" if jobs else "1 = 1"
        of_runs = f"WHERE run_id IN (SELECT id FROM run WHERE {chosen})" if jobs else ""
        return Ledger(
            runs=self.query(f"SELECT * FROM run WHERE {chosen}"),
            attempts=self.query(f"SELECT * FROM run_attempt {of_runs}"),
            triggers=self.query(f"SELECT * FROM {quote}trigger{quote} WHERE {chosen}"),
            nodes=self.query("SELECT * FROM node"),
        )


def problems(
    ledger: Ledger, journals: Journals, *, paused_at: int, has_results: bool = True
) -> list[Problem]:
    """Every broken guarantee.

    Args:
        paused_at: when the last trigger was paused at the earliest, by the database's clock.
        has_results: each run that succeeds returns its own number and that of its attempt.
    """
    return [
        *missing_fires(ledger, paused_at),
        *(Problem(Kind.DOUBLED, text) for text in _starts(ledger, journals)),
        *(Problem(Kind.LOST, text) for text in _ends(ledger, journals, has_results)),
        *(Problem(Kind.STUCK, text) for text in _settled(ledger)),
    ]


def overlaps(ledger: Ledger, journals: Journals, jobs: Collection[int]) -> list[Problem]:
    """Attempts of one of these jobs that ran beside each other.

    One without an end was killed at some time: it counts as long as its start is after another's
    and before that other's end.
    """
    job_of = {run.id: run.job_id for run in ledger.runs if run.job_id in jobs}
    spans: defaultdict[int, list[tuple[float, float, Key]]] = defaultdict(list)
    for key, at in journals.started_at.items():
        if key[0] in job_of:
            spans[job_of[key[0]]].append((at, journals.left_at.get(key, at), key))
    found = []
    for job, attempts in spans.items():
        free_at, last = 0.0, (0, 0)
        for start, end, key in sorted(attempts):
            if start < free_at:
                text = f"job {job}: {key} began {free_at - start:.3f} s before the end of {last}"
                found.append(Problem(Kind.OVERLAPPED, text))
            if end > free_at:
                free_at, last = end, key
    return found


def missing_fires(ledger: Ledger, paused_at: int) -> Iterable[Problem]:
    """Every instant of each trigger in its active time has exactly one row, and none is skipped."""
    instants: defaultdict[int, list[int]] = defaultdict(list)
    for run in ledger.runs:
        if run.trigger_id is not None:
            instants[run.trigger_id].append(run.scheduled_at)
            if run.state == "skipped":
                text = f"run {run.id} was skipped: {run.reason} {run.message}"
                yield Problem(Kind.LOST, text)
    for trigger in ledger.triggers:
        spec = json.loads(trigger.spec)
        every, anchor = spec["every_ms"], spec["anchor_at"]
        found = sorted(instants[trigger.id])
        # The last instant before the pause at the least; at the most one that came during it.
        last = max(found, default=anchor)
        expected = set(range(anchor, last + 1, every))
        counts = Counter(found)
        if missing := sorted(expected - counts.keys()):
            text = f"trigger {trigger.id}: {len(missing)} fires missing: {missing[:5]}"
            yield Problem(Kind.LOST, text)
        if extra := sorted(at for at in counts if counts[at] > 1 or at not in expected):
            text = f"trigger {trigger.id}: {len(extra)} fires too many: {extra[:5]}"
            yield Problem(Kind.DOUBLED, text)
        if last + every < paused_at:
            text = f"trigger {trigger.id} stopped firing at {last}, paused at {paused_at}"
            yield Problem(Kind.STUCK, text)


def _starts(ledger: Ledger, journals: Journals) -> Iterable[str]:
    """No attempt starts twice, and none that the ledger does not know."""
    yield from (f"{key} started {n} times" for key, n in journals.starts.items() if n > 1)
    latest = {run.id: run.attempt for run in ledger.runs}
    for run_id, attempt in journals.starts:
        if attempt > latest.get(run_id, 0):
            yield f"{(run_id, attempt)} started, and the ledger knows nothing of it"


def _ends(ledger: Ledger, journals: Journals, has_results: bool) -> Iterable[str]:
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
            own = {"run": run.id, "attempt": run.attempt}
            if has_results and json.loads(run.result) != own:
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
