"""The runs of a plan, told one by one or in sums, by what the draws say of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from tickwheel_admin.domain.forecast.journal import Journal, JournalRun, RunKey
from tickwheel_admin.domain.forecast.situation import ForecastSituation

NEVER = 2**62  # later than everything


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBar:
    """A run that runs, waits or is predicted."""

    job_id: int
    executor_id: int
    run_id: int | None  # None: predicted
    due_at: int
    start_at: int  # of half of the draws
    end_at: int | None  # None: not before the end of the simulation
    slow_end_at: int | None  # of 95 of 100 draws
    is_running: bool
    node_id: int | None  # in the first draw; None: nobody knows
    after_job_id: int | None  # the job whose end asks for it
    share: float  # 0..1: of the draws in which it starts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSum:
    """Runs of one job that are too many to be told one by one."""

    job_id: int
    runs: int
    first_at: int
    last_at: int
    busy_ms: int


def bars_of(
    situation: ForecastSituation,
    journals: Sequence[Journal],
    *,
    end: int,
    until: int,
    executor_id: int | None,
    node_id: int | None,
) -> list[PlanBar]:
    """The runs that start before `until` in at least half of the draws, by their start.

    Args:
        end: of the draws.
        executor_id: only runs of it; None: of all.
        node_id: only runs there.
    """
    starts: defaultdict[RunKey, list[int]] = defaultdict(list)
    ends: defaultdict[RunKey, list[int]] = defaultdict(list)
    known: dict[RunKey, tuple[JournalRun, Journal]] = {}
    for journal in journals:
        for run in journal.runs.values():
            if executor_id not in (None, run.executor_id) or run.start_at is None:
                continue
            known.setdefault(run.key, (run, journal))
            starts[run.key].append(run.start_at)
            ends[run.key].append(NEVER if run.end_at is None else run.end_at)
    opened = {each.id: each for each in situation.open_runs}
    found = []
    for key, (run, journal) in known.items():
        before = opened.get(run.run_id or 0)
        place = (before and before.node_id) or (run.node_id if run.node_id > 0 else None)
        started = starts[key]
        if len(started) * 2 < len(journals) or node_id not in (None, place):
            continue
        start_at = quantile_of(started, 0.5)
        if start_at >= until:
            continue
        end_at, slow = quantile_of(ends[key], 0.5), quantile_of(ends[key], 0.95)
        parent = None if run.parent is None else journal.runs.get(run.parent)
        found.append(
            PlanBar(
                job_id=run.job_id,
                executor_id=run.executor_id,
                run_id=run.run_id,
                due_at=run.due_at,
                start_at=start_at,
                end_at=known_by(end_at, end),
                slow_end_at=known_by(slow, end),
                is_running=before is not None and before.is_running,
                node_id=place,
                after_job_id=None if parent is None else parent.job_id,
                share=len(started) / len(journals),
            )
        )
    return sorted(found, key=lambda bar: (bar.start_at, bar.job_id, bar.due_at))


def told_one_by_one(
    bars: list[PlanBar], limit: int, end: int
) -> tuple[tuple[PlanBar, ...], tuple[PlanSum, ...]]:
    """At most so many, those of the jobs with most of them in sums."""
    summed = most_frequent([bar.job_id for bar in bars], limit)
    sums = []
    for job_id in sorted(summed):
        mine = [bar for bar in bars if bar.job_id == job_id]
        sums.append(
            PlanSum(
                job_id=job_id,
                runs=len(mine),
                first_at=mine[0].start_at,
                last_at=mine[-1].start_at,
                busy_ms=sum((bar.end_at or end) - bar.start_at for bar in mine),
            )
        )
    return tuple(bar for bar in bars if bar.job_id not in summed), tuple(sums)


def most_frequent(job_ids: Sequence[int], limit: int) -> set[int]:
    """The jobs that are told in sums so that at most so many runs are told one by one."""
    left, summed = len(job_ids), set()
    for job_id, count in Counter(job_ids).most_common():
        if left <= limit:
            break
        summed.add(job_id)
        left -= count
    return summed


def quantile_of(values: Sequence[int], share: float) -> int:
    """What at least this share of some numbers does not exceed."""
    rising = sorted(values)
    return rising[max(0, ceil(len(rising) * share) - 1)]


def known_by(at: int, end: int) -> int | None:
    """An instant, if it is known in draws that end then."""
    return None if at > end or at >= NEVER else at
