"""The start delay of one run, and the runs that caused it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.delays.charging import KINDS, charge_delays
from tickwheel_admin.domain.delays.history import (
    DelayHistory,
    DelayKind,
    HistoryRun,
    Stretch,
    wait_of,
)
from tickwheel_admin.domain.delays.lanes import blockers_of, lane_of, lanes_of, outside
from tickwheel_admin.domain.delays.rounding import whole_parts

SHOWN_CAUSES = 20  # runs of each part; the rest is summed


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayCause:
    """A run that another waited for."""

    run_id: int
    job_id: int
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayPart:
    """A part of a start delay."""

    kind: DelayKind
    ms: int
    causes: tuple[DelayCause, ...] = ()  # most first, at most SHOWN_CAUSES
    more_causes: int = 0  # runs that are not among them
    more_ms: int = 0  # that they caused


def parts_of_run(run: HistoryRun, history: DelayHistory) -> list[DelayPart]:
    """Its parts in the order in which it went through them; their sum is its delay."""
    found = charge_delays(history, {run.id: 0}, count=1)
    parts = found.parts.get(run.id)
    if parts is None:
        return []
    jobs = {each.id: each.job_id for each in history.runs}
    by_kind = {
        DelayKind.BLOCKED: _blockers(run, history, found.turns.get(run.id)),
        DelayKind.SLOT: {run_id: ms for (_, run_id), ms in found.of_nodes.items()},
        DelayKind.POOL: {run_id: ms for (_, run_id), ms in found.of_pools.items()},
    }
    return [
        _part(kind, ms, by_kind.get(kind, {}), jobs)
        for kind, ms in zip(KINDS, parts, strict=True)
        if ms
    ]


def _blockers(
    run: HistoryRun, history: DelayHistory, turns: Sequence[Stretch] | None
) -> Mapping[int, float]:
    wait = wait_of(run, history)
    lane = lane_of(run, history)
    if wait is None or lane is None or turns is None:
        return {}
    blocked = outside(wait.queued, turns)
    return blockers_of(run, blocked, lanes_of(history)[lane], history) if blocked else {}


def _part(
    kind: DelayKind, ms: int, charged: Mapping[int, float], jobs: Mapping[int, int]
) -> DelayPart:
    causes = sorted(
        (
            DelayCause(run_id=run_id, job_id=jobs[run_id], ms=each)
            for run_id, each in whole_parts(charged).items()
            if each
        ),
        key=lambda cause: (-cause.ms, cause.run_id),
    )
    more = causes[SHOWN_CAUSES:]
    return DelayPart(
        kind=kind,
        ms=ms,
        causes=tuple(causes[:SHOWN_CAUSES]),
        more_causes=len(more),
        more_ms=sum(each.ms for each in more),
    )
