"""Which moves of runs alarms may be made of."""

from __future__ import annotations

from collections.abc import Iterable

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.runs.run import FINAL, Move, Origin, Run, RunState

_KINDS = {
    RunState.FAILED: AlarmKind.FAILED,
    RunState.TIMED_OUT: AlarmKind.TIMED_OUT,
    RunState.LOST: AlarmKind.LOST,
    RunState.SKIPPED: AlarmKind.SKIPPED,
}
# Skipped for other reasons is skipped on purpose: paused, by its handler, behind an earlier run.
_AGAINST_THE_WILL = frozenset({"misfire", "expired", "node_gone", "too_many_waiting"})


def signals_of_moves(moves: Iterable[Move], *, now: int) -> list[AlarmSignal]:
    """One for each run that ended badly, and for each try that failed and is tried again.

    Of a whole fire the fire counts, not its shards; scripts that somebody tries count for nothing.
    """
    found = []
    for move in moves:
        after = move.after
        if after.state is RunState.SUCCEEDED or after.fire_id is not None:
            continue  # nearly all
        kind = _kind_of(move)
        if kind is not None and after.origin is not Origin.TRY:
            found.append(_signal(kind, after, now))
    return found


def signals_of_skipped(runs: Iterable[Run], *, now: int) -> list[AlarmSignal]:
    """For fires that are written as skipped at once: those that were missed."""
    return [_signal(AlarmKind.SKIPPED, run, now) for run in runs]


def _kind_of(move: Move) -> AlarmKind | None:
    before, after = move.before, move.after
    if before.state in FINAL:
        return None  # a late result: how the run ended was told
    if after.state is RunState.QUEUED:
        return AlarmKind.TRY_FAILED if move.archived is not None else None
    if after.state is RunState.SKIPPED and after.reason not in _AGAINST_THE_WILL:
        return None
    return _KINDS.get(after.state)


def _signal(kind: AlarmKind, run: Run, now: int) -> AlarmSignal:
    return AlarmSignal(
        kind=kind,
        subject_id=run.id,
        number=run.attempt,
        at=now,
        executor_id=run.executor_id,
        job_id=run.job_id,
    )
