"""What became of the intervals of a trigger: whether their data was processed once.

Counted in time and not in runs. An interval lies between an instant of the schedule and the one
before it, and is done when intervals of succeeded runs fill it: those of its own fire, of retries,
of backfills, and of a schedule that the job had before. So an edit of the schedule makes no holes
where the data was processed.

All instants are UTC epoch ms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tickwheel_admin.domain.backfills.instants import DueInstant
from tickwheel_admin.domain.runs.run import RunState

MAX_INTERVALS = 10_000  # of one request
MAX_RUNS_OF_SEGMENT = 10


class IntervalState(StrEnum):
    """What became of an interval."""

    DONE = "done"  # processed once
    TWICE = "twice"  # all or some of it was processed more than once
    PARTLY = "partly"  # some of it was processed, and the rest was not
    RUNNING = "running"  # a run of it is live
    WAITING = "waiting"  # a run of it waits
    FAILED = "failed"  # failed, timed out or lost, and no run has made it good
    SKIPPED = "skipped"  # skipped or cancelled
    NO_RUN = "no_run"
    UNKNOWN = "unknown"  # its runs may have been deleted


# Those that were not processed and will not be by themselves: a backfill of holes runs them.
HOLES = frozenset({IntervalState.FAILED, IntervalState.SKIPPED, IntervalState.NO_RUN})
# What a person should look at.
FAULTS = HOLES | {IntervalState.TWICE, IntervalState.PARTLY}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRun:
    """A run, or what is noted of one that is deleted, with the interval that it works for."""

    run_id: int
    start_at: int | None  # None: it was told no beginning; it counts for its instant alone
    at: int  # its end, the instant
    state: RunState
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """What is not known any more."""

    kept_from: int = 0  # ended runs of earlier instants are deleted
    purged: Sequence[tuple[int, int]] = ()  # from the first to the last instant, both included

    def hides(self, at: int) -> bool:
        """Whether runs of an instant may have been deleted."""
        return at < self.kept_from or any(low <= at <= high for low, high in self.purged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An interval of the schedule, and what became of it."""

    start_at: int
    at: int  # its end: the instant of its fire
    state: IntervalState
    reason: str | None = None  # of a skipped one
    run_ids: tuple[int, ...] = ()  # that explain its state, the newest first

    @property
    def is_hole(self) -> bool:
        """Whether a backfill of holes runs it."""
        return self.state in HOLES


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageSegment:
    """Intervals in a row of which the same became."""

    start_at: int
    first_at: int  # instants of the first and of the last of them
    last_at: int
    state: IntervalState
    reason: str | None
    intervals: int
    run_ids: tuple[int, ...] = ()  # at most MAX_RUNS_OF_SEGMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The intervals of a trigger whose instants lie in a time."""

    from_at: int
    until_at: int  # up to here it was looked, not included
    intervals: Sequence[Interval] = ()  # oldest first; at most MAX_INTERVALS
    more: bool = False  # there are instants from `until_at` on
    counts: Counter[IntervalState] = field(default_factory=Counter)

    @property
    def holes(self) -> int:
        """Intervals that a backfill of holes runs."""
        return sum(self.counts[each] for each in HOLES)

    @property
    def is_whole(self) -> bool:
        """Whether no interval is known to be skipped, done in part or done twice."""
        return not any(self.counts[each] for each in FAULTS)


def start_of(due: DueInstant) -> int:
    """Where the interval of an instant begins; the first of a schedule has but its end."""
    return due.at - 1 if due.previous_at is None else due.previous_at


def covered(
    instants: Sequence[DueInstant], runs: Iterable[IntervalRun], horizon: Horizon
) -> list[Interval]:
    """What became of each of these intervals.

    Args:
        instants: in any order.
        runs: all that may work for a part of them; others do no harm.
    """
    order = sorted(instants, key=lambda each: each.at)
    ends = [each.at for each in order]
    own: list[dict[int, IntervalRun]] = [{} for _ in order]
    for run in runs:
        if run.start_at is None or run.start_at >= run.at:
            place = bisect_left(ends, run.at)
            if place < len(ends) and ends[place] == run.at:
                whole = replace(run, start_at=start_of(order[place]))
                own[place][run.run_id] = whole
            continue
        # From the first interval that ends behind its beginning to the last that begins before
        # its end.
        place = bisect_left(ends, run.start_at + 1)
        while place < len(ends) and start_of(order[place]) < run.at:
            own[place][run.run_id] = run
            place += 1
    return [_interval(due, list(own[n].values()), horizon) for n, due in enumerate(order)]


def _interval(due: DueInstant, runs: Sequence[IntervalRun], horizon: Horizon) -> Interval:
    start_at = start_of(due)
    runs = sorted(runs, key=lambda each: each.run_id, reverse=True)
    state, reason, ids = IntervalState.NO_RUN, None, []
    done = [each for each in runs if each.state is RunState.SUCCEEDED]
    live = [each for each in runs if each.state in (RunState.RUNNING, RunState.DISPATCHED)]
    waiting = [each for each in runs if each.state is RunState.QUEUED]
    void = [each for each in runs if each.state in (RunState.SKIPPED, RunState.CANCELLED)]
    filled, overlaps = _filled(start_at, due.at, done)
    if overlaps:
        state, ids = IntervalState.TWICE, done
    elif filled == due.at - start_at:
        state, ids = IntervalState.DONE, done
    elif live:
        state, ids = IntervalState.RUNNING, live
    elif waiting:
        state, ids = IntervalState.WAITING, waiting
    elif done:
        state, ids = IntervalState.PARTLY, done
    elif len(runs) > len(void):
        state, ids = IntervalState.FAILED, [each for each in runs if each not in void]
    elif void:
        state, ids, reason = IntervalState.SKIPPED, void, void[0].reason or void[0].state.value
    if state in (*HOLES, IntervalState.PARTLY) and horizon.hides(due.at):
        # What would have made it good may be gone.
        state, reason = IntervalState.UNKNOWN, None
    return Interval(
        start_at=start_at,
        at=due.at,
        state=state,
        reason=reason,
        run_ids=tuple(each.run_id for each in ids if each.run_id),
    )


def _filled(start_at: int, at: int, done: Sequence[IntervalRun]) -> tuple[int, bool]:
    """How much of an interval was processed, and whether any of it more than once."""
    parts = sorted((max(each.start_at or 0, start_at), min(each.at, at)) for each in done)
    filled, reached, overlaps = 0, start_at, False
    for low, high in parts:
        overlaps = overlaps or low < reached
        filled += max(0, high - max(low, reached))
        reached = max(reached, high)
    return filled, overlaps


def coverage_of(
    intervals: Sequence[Interval], *, from_at: int, until_at: int, more: bool = False
) -> Coverage:
    """These intervals with their counts."""
    counts = Counter(each.state for each in intervals)
    return Coverage(
        from_at=from_at, until_at=until_at, intervals=intervals, more=more, counts=counts
    )


def segments_of(intervals: Iterable[Interval]) -> list[CoverageSegment]:
    """Intervals of which the same became, put together where they meet."""
    found: list[CoverageSegment] = []
    for each in intervals:
        last = found[-1] if found else None
        if last is not None and (last.state, last.reason) == (each.state, each.reason):
            run_ids = dict.fromkeys((*last.run_ids, *each.run_ids))
            found[-1] = replace(
                last,
                last_at=each.at,
                intervals=last.intervals + 1,
                run_ids=tuple(run_ids)[:MAX_RUNS_OF_SEGMENT],
            )
            continue
        found.append(
            CoverageSegment(
                start_at=each.start_at,
                first_at=each.at,
                last_at=each.at,
                state=each.state,
                reason=each.reason,
                intervals=1,
                run_ids=each.run_ids[:MAX_RUNS_OF_SEGMENT],
            )
        )
    return found
