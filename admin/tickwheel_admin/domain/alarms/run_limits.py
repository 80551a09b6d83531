"""How late a run may start and how long it may take before rules want to hear of it.

What is looked at every few seconds misses a run that begins and ends in between. So each start and
each end is measured where it is recorded, against the shortest limit that might apply; which rule
does apply is decided later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import AlarmRule, RuleLimits, RuleScope
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.runs.measures import could_start_at
from tickwheel_admin.domain.runs.run import FINAL, LIVE, Attempt, Move, Origin, Run, RunState

MEASURED = frozenset({AlarmKind.STARTED_LATE, AlarmKind.SLOW})
# How long a run took that is lost or was passed over says nothing of its job.
_TIMED = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT, RunState.CANCELLED})


def is_slow(limits: RuleLimits, took_ms: int, usual_ms: int) -> bool:
    """Longer than one of its limits; what is usual counts only when it is known."""
    if limits.seconds is not None and took_ms > limits.seconds * 1000:
        return True
    return limits.factor is not None and usual_ms > 0 and took_ms > limits.factor * usual_ms


def is_late(limits: RuleLimits, delay_ms: int) -> bool:
    """As late as the limit, or later."""
    return delay_ms >= (limits.seconds or 0) * 1000


@dataclass(slots=True)
class _Shortest:
    """The smallest number that rules give, by what they are about."""

    of_all: float | None = None
    of_executors: dict[int, float] = field(default_factory=dict)
    of_jobs: dict[int, float] = field(default_factory=dict)

    def add(self, rule: AlarmRule, limit: float) -> None:
        """Who has a tag is not known here: a rule about one counts for its executor, or for all."""
        if rule.scope is RuleScope.JOB and rule.job_id is not None:
            self.of_jobs[rule.job_id] = min(limit, self.of_jobs.get(rule.job_id, limit))
        elif rule.executor_id is not None:
            known = self.of_executors.get(rule.executor_id, limit)
            self.of_executors[rule.executor_id] = min(limit, known)
        else:
            self.of_all = limit if self.of_all is None else min(limit, self.of_all)

    def of(self, run: Run) -> float | None:
        """For each move of each run, so it makes no objects."""
        if run.origin is Origin.STEP:  # only rules about the job itself hear of it
            return self.of_jobs.get(run.job_id) if self.of_jobs else None
        limit = self.of_all
        if self.of_executors:
            limit = _smaller(limit, self.of_executors.get(run.executor_id))
        if self.of_jobs:
            limit = _smaller(limit, self.of_jobs.get(run.job_id))
        return limit

    def __bool__(self) -> bool:
        return self.of_all is not None or bool(self.of_executors) or bool(self.of_jobs)


def _smaller(limit: float | None, other: float | None) -> float | None:
    if limit is None or other is None:
        return other if limit is None else limit
    return min(limit, other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlong:
    """A run that took long, if its job is usually faster."""

    run: Run
    took_ms: int
    factor: float


class RunLimits:
    """The shortest limits of all rules about late starts and long runs. Immutable once made."""

    def __init__(self, rules: Iterable[AlarmRule] = ()) -> None:
        self._late = _Shortest()  # ms
        self._slow = _Shortest()  # ms
        self._factor = _Shortest()
        for rule in rules:
            limits = rule.limits
            if not rule.enabled:
                continue
            if rule.kind is AlarmKind.STARTED_LATE and limits.seconds is not None:
                self._late.add(rule, limits.seconds * 1000)
            elif rule.kind is AlarmKind.SLOW:
                if limits.seconds is not None:
                    self._slow.add(rule, limits.seconds * 1000)
                if limits.factor is not None:
                    self._factor.add(rule, limits.factor)
        self._any = bool(self._late) or bool(self._slow) or bool(self._factor)

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return self._any

    def measured(
        self, moves: Iterable[Move], usual: Mapping[int, int], *, now: int
    ) -> tuple[list[AlarmSignal], list[Overlong]]:
        """(signals; runs that are beside them if they took longer than is usual for their jobs).

        Of a whole fire the fire counts, not its shards; scripts that somebody tries count for
        nothing.

        Args:
            usual: by job, how long it usually takes, in ms; those of other jobs may be long.
        """
        signals: list[AlarmSignal] = []
        maybe: list[Overlong] = []
        for move in moves:
            run = move.after
            if move.before.state in FINAL or run.fire_id is not None or run.origin is Origin.TRY:
                continue
            delay = _delay_ms(move)
            if delay is not None:
                limit = self._late.of(run)
                if limit is not None and delay >= limit:
                    signals.append(_signal(AlarmKind.STARTED_LATE, run, delay, number=0, now=now))
            took = _took_ms(move)
            if took is None:
                continue
            limit = self._slow.of(run)
            if limit is not None and took > limit:
                signals.append(slow_signal(run, took, now=now))
                continue
            factor = self._factor.of(run)
            if factor is not None:
                usual_ms = usual.get(run.job_id)
                if usual_ms is None:
                    maybe.append(Overlong(run=run, took_ms=took, factor=factor))
                elif 0 < usual_ms * factor < took:
                    signals.append(slow_signal(run, took, now=now))
        return signals, maybe


def slow_signal(run: Run, took_ms: int, *, now: int) -> AlarmSignal:
    """An attempt of the run took so long."""
    return _signal(AlarmKind.SLOW, run, took_ms, number=run.attempt, now=now)


def measured_ms(signal: AlarmSignal) -> int:
    """What a signal of one of these kinds measured."""
    return int(signal.text or 0)


def _delay_ms(move: Move) -> int | None:
    """How late a run started with this move; None: it did not start, or had before."""
    before, last = move.before, _last_attempt(move)
    if before.origin is Origin.BACKFILL:
        return None  # it waits for slots on purpose
    if before.tries or before.started_at is not None or last.started_at is None:
        return None
    return last.started_at - could_start_at(
        scheduled_at=before.scheduled_at,
        jitter_ms=before.jitter_ms,
        created_at=before.created_at,
    )


def _took_ms(move: Move) -> int | None:
    """How long an attempt took that ended with this move; None: none did."""
    last = _last_attempt(move)
    if move.before.state not in LIVE or last.state not in _TIMED:
        return None
    if last.started_at is None or last.ended_at is None:
        return None
    return max(last.ended_at - last.started_at, 0)


def _last_attempt(move: Move) -> Run | Attempt:
    return move.after if move.archived is None else move.archived


def _signal(kind: AlarmKind, run: Run, ms: int, *, number: int, now: int) -> AlarmSignal:
    return AlarmSignal(
        kind=kind,
        subject_id=run.id,
        number=number,
        at=now,
        executor_id=run.executor_id,
        job_id=run.job_id,
        text=str(ms),
    )
