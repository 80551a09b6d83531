"""Counts what this admin does: in plain numbers, batch by batch, in the database's threads."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tickwheel_admin.domain.runs import measures
from tickwheel_admin.domain.runs.run import FINAL, Move, Run, RunState
from tickwheel_admin.services.metrics.histogram import (
    BATCH_BOUNDS,
    DELAY_BOUNDS,
    DURATION_BOUNDS,
    TRANSACTION_BOUNDS,
    Histogram,
)
from tickwheel_admin.store.database.facts import BatchStep, RepeatCause, TransactionFacts

_QUEUED, _DISPATCHED = RunState.QUEUED, RunState.DISPATCHED
OTHER = 0  # the executor id under which executors without series of their own are counted


@dataclass(slots=True)
class ExecutorCounts:
    """What was counted of one executor, or of all others together."""

    planned: int = 0
    claimed: int = 0
    ended: Counter[RunState] = field(default_factory=Counter)
    delays: Histogram = field(default_factory=lambda: Histogram(DELAY_BOUNDS))
    durations: Histogram = field(default_factory=lambda: Histogram(DURATION_BOUNDS))

    def merge(self, other: ExecutorCounts) -> None:
        """Add what was counted there."""
        self.planned += other.planned
        self.claimed += other.claimed
        self.ended.update(other.ended)
        self.delays.merge(other.delays)
        self.durations.merge(other.durations)


@dataclass(slots=True)
class JobCounts:
    """What was counted of one job that has series of its own."""

    ended: Counter[RunState] = field(default_factory=Counter)
    succeeded_at: int | None = None  # UTC epoch ms; None: not since this admin started


@dataclass(slots=True)
class TransactionCounts:
    """Transactions that write, or those that read."""

    seconds: Histogram = field(default_factory=lambda: Histogram(TRANSACTION_BOUNDS))
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Everything that this admin has counted since it started; nothing changes it any more."""

    executors: dict[int, ExecutorCounts]  # by id, or OTHER
    jobs: dict[int, JobCounts]
    writing: TransactionCounts
    reading: TransactionCounts
    repeats: Counter[RepeatCause]
    batches: dict[BatchStep, Histogram]
    log_bytes: int
    deliveries: Counter[str]  # attempts to deliver a message, by what came of them


class Meter:
    """A `TransactionMeter`, and what else is counted. Used from any thread.

    Executors are counted by id, and get their series when somebody reads: what was counted of one
    that has none by then stays in `OTHER`, so that no counter ever falls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fresh: defaultdict[int, ExecutorCounts] = defaultdict(ExecutorCounts)  # since read
        self._executors: defaultdict[int, ExecutorCounts] = defaultdict(ExecutorCounts)
        self._jobs: dict[int, JobCounts] = {}  # those with series of their own
        self._transactions = {True: TransactionCounts(), False: TransactionCounts()}  # that write?
        self._repeats: Counter[RepeatCause] = Counter()
        self._batches = {step: Histogram(BATCH_BOUNDS) for step in BatchStep}
        self._log_bytes = 0
        self._deliveries: Counter[str] = Counter()

    def committed(self, facts: TransactionFacts) -> None:
        """Count what a transaction did."""
        if not (facts.moves or facts.planned or facts.batches or facts.log_bytes):
            return
        with self._lock:
            for moves in facts.moves:
                self._count_moves(moves)
            for runs in facts.planned:
                self._count_planned(runs)
            for step, size in facts.batches:
                self._batches[step].add(size)
            self._log_bytes += facts.log_bytes

    def measured(
        self, *, writes: bool, seconds: float, repeats: Sequence[RepeatCause], failed: bool
    ) -> None:
        """Count a transaction."""
        with self._lock:
            counts = self._transactions[writes]
            counts.seconds.add(seconds)
            counts.failed += failed
            if repeats:
                self._repeats.update(repeats)

    def delivered(self, outcome: str) -> None:
        """Count an attempt to deliver a message of alarms."""
        with self._lock:
            self._deliveries[outcome] += 1

    def read(self, *, executors: Collection[int], jobs: Collection[int]) -> Totals:
        """What was counted so far.

        Args:
            executors: those with series of their own. What was counted of one that is no longer
                among them is forgotten; that of others goes to `OTHER`.
            jobs: the same; a job is counted from the first time that it is named here.
        """
        named = set(executors)
        with self._lock:
            for executor_id, counts in self._fresh.items():
                self._executors[executor_id if executor_id in named else OTHER].merge(counts)
            self._fresh.clear()
            for gone in self._executors.keys() - named - {OTHER}:
                del self._executors[gone]
            self._jobs = {job_id: self._jobs.get(job_id, JobCounts()) for job_id in jobs}
            return Totals(
                executors={each: _copied(counts) for each, counts in self._executors.items()},
                jobs={
                    each: JobCounts(counts.ended.copy(), counts.succeeded_at)
                    for each, counts in self._jobs.items()
                },
                writing=_copied_transactions(self._transactions[True]),
                reading=_copied_transactions(self._transactions[False]),
                repeats=self._repeats.copy(),
                batches={step: sizes.copy() for step, sizes in self._batches.items()},
                log_bytes=self._log_bytes,
                deliveries=self._deliveries.copy(),
            )

    def _count_moves(self, moves: Sequence[Move]) -> None:
        # The hot path: most moves are of one executor, and are asked only what they may answer.
        executor_id, counts = -1, None
        for move in moves:
            before, after = move.before, move.after
            if counts is None or after.executor_id != executor_id:
                executor_id = after.executor_id
                counts = self._fresh[executor_id]
            if after.state is _DISPATCHED:
                if before.state is _QUEUED:
                    counts.claimed += 1
                continue
            if before.started_at is None and after.tries == 1:
                delay_ms = measures.start_delay_ms(move)
                if delay_ms is not None:
                    counts.delays.add(delay_ms / 1000)
            if after.ended_at is not None and measures.is_end(move):
                self._count_end(counts, after)
                duration_ms = measures.duration_ms(move)
                if duration_ms is not None:
                    counts.durations.add(duration_ms / 1000)

    def _count_planned(self, runs: Sequence[Run]) -> None:
        for run in runs:
            counts = self._fresh[run.executor_id]
            counts.planned += 1
            if run.state in FINAL:  # a missed fire that nothing makes up for
                self._count_end(counts, run)

    def _count_end(self, counts: ExecutorCounts, run: Run) -> None:
        counts.ended[run.state] += 1
        if (job := self._jobs.get(run.job_id)) is not None:
            job.ended[run.state] += 1
            if run.state is RunState.SUCCEEDED:
                job.succeeded_at = max(job.succeeded_at or 0, run.ended_at or 0)


def _copied(counts: ExecutorCounts) -> ExecutorCounts:
    copied = ExecutorCounts()
    copied.merge(counts)
    return copied


def _copied_transactions(counts: TransactionCounts) -> TransactionCounts:
    return TransactionCounts(counts.seconds.copy(), counts.failed)
