"""What the last runs of a job say about it, in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.runs.run import FAILURES, FINAL, Origin, RunState
from tickwheel_admin.services.jobs.service import RunSummary
from tickwheel_admin.services.runs.service import RunItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Lengths in milliseconds; None where no run tells."""

    succeeded: int
    counted: int  # ended ones but for those that were skipped
    p50_ms: int | None
    p95_ms: int | None
    delay_p95_ms: int | None  # from due to started, of first tries


def counted_of(items: Sequence[RunItem]) -> list[RunItem]:
    """Those that say something about the job: all but tries of scripts."""
    return [item for item in items if item.run.origin is not Origin.TRY]


def figures_of(items: Sequence[RunItem]) -> Figures:
    """Of runs in any order; tries of scripts do not count."""
    items = counted_of(items)
    states = [item.run.state for item in items]
    counted = [state for state in states if state in FINAL and state is not RunState.SKIPPED]
    lengths = [length for item in items if (length := length_ms(item)) is not None]
    delays = [
        max(item.run.started_at - item.run.scheduled_at, 0)
        for item in items
        if item.run.started_at is not None and item.run.tries <= 1
    ]
    return Figures(
        succeeded=sum(state is RunState.SUCCEEDED for state in counted),
        counted=len(counted),
        p50_ms=percentile(lengths, 50),
        p95_ms=percentile(lengths, 95),
        delay_p95_ms=percentile(delays, 95),
    )


def length_ms(item: RunItem) -> int | None:
    """How long the last attempt of a run took; None while it goes on or when it never started."""
    run = item.run
    if run.started_at is None or run.ended_at is None:
        return None
    return max(run.ended_at - run.started_at, 0)


def percentile(values: Sequence[int], share: int) -> int | None:
    """The smallest value that at least `share` per cent of them do not exceed; None of none."""
    if not values:
        return None
    return sorted(values)[math.ceil(len(values) * share / 100) - 1]


def failures_in_a_row(oldest_first: Sequence[RunSummary]) -> int:
    """How many of the newest ended runs failed without one that succeeded between them."""
    count = 0
    for mark in reversed(oldest_first):
        if mark.state in FAILURES:
            count += 1
        elif mark.state is RunState.SUCCEEDED:
            break
    return count
