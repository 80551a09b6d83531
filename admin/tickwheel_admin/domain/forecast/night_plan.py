"""The plan of the next hours: when each run will start and end, and which deadlines are met.

The next hours are simulated several times, each time with other draws of how long runs take. Half
of the draws end a run by its p50, 95 of 100 by its p95.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from typing import Any

import msgspec

from tickwheel_admin.domain.forecast.comparison import Basis, basis_of
from tickwheel_admin.domain.forecast.critical_path import PathFinder, PathStep
from tickwheel_admin.domain.forecast.journal import Journal, JournalRun, RunKey
from tickwheel_admin.domain.forecast.planned import PlannedFires
from tickwheel_admin.domain.forecast.remedies import Remedy, remedies_for, with_remedy
from tickwheel_admin.domain.forecast.simulation import Simulation
from tickwheel_admin.domain.forecast.situation import ForecastSituation
from tickwheel_admin.domain.runs.run import RunState

MAX_DRAWS, MIN_DRAWS = 20, 5
MAX_DRAW_RUNS = 25_000  # of one draw; what comes later is left out
WORK = 40_000  # runs that all draws have together; fewer draws where there are more
MAX_BARS = 1_000  # the jobs with most of them are told in sums
MAX_EXPLAINED = 4  # deadlines, the worst first
REMEDY_DRAWS = 5
MIN_REMEDIES = 3  # that are tried in any case
REMEDY_WORK = 80_000  # runs in all simulations of remedies together
NEVER = 2**62  # later than everything
WORTH_MS = 60_000  # what brings less does not help

Draw = tuple[int, Journal]  # its end
Work = Callable[[], Any]
AllOf = Callable[[Sequence[Work]], Sequence[Any]]


class DeadlineVerdict(StrEnum):
    """What will become of a deadline. The values are part of the API."""

    DONE = "done"  # it is met already
    FINE = "fine"  # at least 95 of 100 draws meet it
    AT_RISK = "at_risk"  # more than half of the draws meet it
    MISSED = "missed"  # the others


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDeadline:
    """An instant by which a job must have succeeded."""

    rule_id: int
    job_id: int
    at: int
    since: int  # successes count from here on
    is_met: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyOutcome:
    """What something would bring."""

    remedy: Remedy
    end_at: int | None  # of half of the draws
    gain_ms: int | None  # None: it would not end at all without it
    makes_it: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineForecast:
    """A deadline, and what will become of it."""

    rule_id: int
    job_id: int
    at: int
    verdict: DeadlineVerdict
    end_at: int | None  # of half of the draws; None: not before the plan's end
    slow_end_at: int | None
    miss_share: float  # 0..1: of the draws that miss it
    path: tuple[PathStep, ...] = ()  # of the draw in the middle
    remedies: tuple[RemedyOutcome, ...] = ()  # those that help, the best first


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlan:
    """The answer."""

    start: int
    end: int
    truncated: bool
    draws: int
    slots: int
    bars: tuple[PlanBar, ...]
    sums: tuple[PlanSum, ...]
    deadlines: tuple[DeadlineForecast, ...]
    basis: Basis


class PlanRequest(msgspec.Struct, kw_only=True):
    """What a process of its own is asked to plan."""

    situation: ForecastSituation
    until: int  # runs that start before are told
    end: int  # of the simulation: not before, so that late ends are known
    executor_id: int | None  # whose runs are told; None: of all
    deadlines: list[PlanDeadline] = []
    node_id: int | None = None  # only runs there
    routed: bool = False  # the router places each predicted run, so that its node is known
    max_bars: int = MAX_BARS
    explains: bool = True  # with paths and remedies
    max_draws: int = MAX_DRAWS
    max_runs: int = MAX_DRAW_RUNS


def one_by_one(works: Sequence[Work]) -> Sequence[Any]:
    """Each after the one before."""
    return [work() for work in works]


def answer_plan(request: bytes, *, do: AllOf = one_by_one) -> bytes:
    """The plan that a request asks for, both as JSON."""
    return msgspec.json.encode(plan_night(msgspec.json.decode(request, type=PlanRequest), do=do))


def plan_night(asked: PlanRequest, *, do: AllOf = one_by_one) -> NightPlan:
    """Simulate the next hours with many draws.

    Args:
        do: how forecasts are made that do not depend on each other.
    """
    situation, planned = asked.situation, PlannedFires()
    is_routed = asked.routed or asked.node_id is not None

    def draw(seed: int, end: int) -> Work:
        return lambda: _draw(situation, seed, end, planned, is_routed, asked.max_runs)

    first_end, first = draw(0, asked.end)()
    count = min(asked.max_draws, max(MIN_DRAWS, WORK // max(len(first.runs), 1)))
    drawn = [(first_end, first), *do([draw(seed, first_end) for seed in range(1, count)])]
    end = min(each for each, _ in drawn)
    until = min(end, asked.until)
    bars = _bars(asked, [journal for _, journal in drawn], end, until)
    told, sums = _told(bars, asked.max_bars, end)
    return NightPlan(
        start=situation.now,
        end=until,
        truncated=until < asked.until,
        draws=count,
        slots=sum(
            node.slots
            for node in situation.nodes
            if node.takes_runs and asked.executor_id in (None, node.executor_id)
        ),
        bars=told,
        sums=sums,
        deadlines=_deadlines(asked, [journal for _, journal in drawn], end, planned, do),
        basis=basis_of(situation),
    )


def _draw(
    situation: ForecastSituation,
    seed: int,
    end: int,
    planned: PlannedFires,
    is_routed: bool,
    max_runs: int,
) -> Draw:
    journal = Journal()
    made = Simulation(
        situation,
        end=end,
        seed=seed,
        routed=is_routed,
        max_runs=max_runs,
        planned=planned,
        journal=journal,
    ).run()
    return made.end, journal


# --- bars ------------------------------------------------------------------------------------


def _bars(asked: PlanRequest, journals: Sequence[Journal], end: int, until: int) -> list[PlanBar]:
    starts: defaultdict[RunKey, list[int]] = defaultdict(list)
    ends: defaultdict[RunKey, list[int]] = defaultdict(list)
    known: dict[RunKey, tuple[JournalRun, Journal]] = {}
    for journal in journals:
        for run in journal.runs.values():
            if asked.executor_id not in (None, run.executor_id) or run.start_at is None:
                continue
            known.setdefault(run.key, (run, journal))
            starts[run.key].append(run.start_at)
            ends[run.key].append(NEVER if run.end_at is None else run.end_at)
    nodes = {each.id: each.node_id for each in asked.situation.open_runs}
    found = []
    for key, (run, journal) in known.items():
        node_id = nodes.get(run.run_id or 0) or (run.node_id if run.node_id > 0 else None)
        started = starts[key]
        if len(started) * 2 < len(journals) or asked.node_id not in (None, node_id):
            continue
        start_at = _quantile(started, 0.5)
        if start_at >= until:
            continue
        end_at, slow = _quantile(ends[key], 0.5), _quantile(ends[key], 0.95)
        parent = None if run.parent is None else journal.runs.get(run.parent)
        found.append(
            PlanBar(
                job_id=run.job_id,
                executor_id=run.executor_id,
                run_id=run.run_id,
                due_at=run.due_at,
                start_at=start_at,
                end_at=_known(end_at, end),
                slow_end_at=_known(slow, end),
                is_running=nodes.get(run.run_id or 0) is not None,
                node_id=node_id,
                after_job_id=None if parent is None else parent.job_id,
                share=len(started) / len(journals),
            )
        )
    return sorted(found, key=lambda bar: (bar.start_at, bar.job_id, bar.due_at))


def _told(
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


# --- deadlines -------------------------------------------------------------------------------


def _deadlines(
    asked: PlanRequest,
    journals: Sequence[Journal],
    end: int,
    planned: PlannedFires,
    do: AllOf,
) -> tuple[DeadlineForecast, ...]:
    deadlines = [each for each in asked.deadlines if each.at <= end]  # later ones are not known
    wanted = {each.job_id for each in deadlines}
    successes = [_successes(journal, wanted) for journal in journals]
    found = [_foretold(each, successes, end) for each in deadlines]
    order = sorted(
        range(len(found)), key=lambda n: (-found[n].miss_share, found[n].at, found[n].job_id)
    )
    if asked.explains:
        bad = (DeadlineVerdict.MISSED, DeadlineVerdict.AT_RISK)
        for place in [n for n in order if found[n].verdict in bad][:MAX_EXPLAINED]:
            found[place] = _explained(asked, deadlines[place], found[place], journals, planned, do)
    return tuple(sorted(found, key=lambda each: (each.at, each.job_id, each.rule_id)))


def _foretold(
    deadline: PlanDeadline, successes: Sequence[dict[int, list[JournalRun]]], end: int
) -> DeadlineForecast:
    ends = [_end_of(_success(deadline, each)) for each in successes]
    missed = sum(each > deadline.at for each in ends) / len(ends)
    half, slow = _quantile(ends, 0.5), _quantile(ends, 0.95)
    if deadline.is_met:
        verdict, missed = DeadlineVerdict.DONE, 0.0
    elif half > deadline.at:
        verdict = DeadlineVerdict.MISSED
    elif slow > deadline.at:
        verdict = DeadlineVerdict.AT_RISK
    else:
        verdict = DeadlineVerdict.FINE
    return DeadlineForecast(
        rule_id=deadline.rule_id,
        job_id=deadline.job_id,
        at=deadline.at,
        verdict=verdict,
        end_at=_known(half, end),
        slow_end_at=_known(slow, end),
        miss_share=missed,
    )


def _successes(journal: Journal, job_ids: set[int]) -> dict[int, list[JournalRun]]:
    """By job, in the order of their ends; a backfill does the work of other days."""
    found: defaultdict[int, list[JournalRun]] = defaultdict(list)
    for run in journal.runs.values():
        if run.job_id in job_ids and run.state is RunState.SUCCEEDED and not run.is_backfill:
            found[run.job_id].append(run)
    for runs in found.values():
        runs.sort(key=_end_of)
    return found


def _success(deadline: PlanDeadline, successes: dict[int, list[JournalRun]]) -> JournalRun | None:
    """The first that counts."""
    runs = successes.get(deadline.job_id, [])
    place = bisect_right(runs, deadline.since - 1, key=_end_of)
    return runs[place] if place < len(runs) else None


def _end_of(run: JournalRun | None) -> int:
    return NEVER if run is None or run.end_at is None else run.end_at


def _explained(
    asked: PlanRequest,
    deadline: PlanDeadline,
    forecast: DeadlineForecast,
    journals: Sequence[Journal],
    planned: PlannedFires,
    do: AllOf,
) -> DeadlineForecast:
    """With its path and what helps."""
    wanted = {deadline.job_id}
    lasts = [_success(deadline, _successes(journal, wanted)) for journal in journals]
    # Of a deadline at risk, a draw that shows the risk; else the one in the middle.
    share = 0.5 if forecast.verdict is DeadlineVerdict.MISSED else 0.95
    by_end = sorted(range(len(lasts)), key=lambda n: _end_of(lasts[n]))
    place = max(0, ceil(len(by_end) * share) - 1)
    shown = by_end[place]
    last = lasts[shown] or _unfinished(journals[shown], deadline)
    if last is None:
        return forecast  # nothing starts it
    path = PathFinder(journals[shown]).path(last, now=asked.situation.now)
    first = min(max(0, place - REMEDY_DRAWS // 2), len(by_end) - REMEDY_DRAWS)
    seeds = by_end[first : first + REMEDY_DRAWS]
    without = _quantile([_end_of(lasts[seed]) for seed in seeds], 0.5)
    remedies = remedies_for(path, asked.situation, job_id=deadline.job_id)
    allowed = REMEDY_WORK // MAX_EXPLAINED // max(len(journals[0].runs) * len(seeds), 1)
    tried = _tried(asked, deadline, remedies[: max(allowed, MIN_REMEDIES)], seeds, planned, do)
    outcomes = [
        RemedyOutcome(
            remedy=remedy,
            end_at=_known(end, NEVER),
            gain_ms=None if without >= NEVER else without - end,
            makes_it=end <= deadline.at,
        )
        for remedy, end in tried
        if without - end >= WORTH_MS
    ]
    outcomes.sort(key=lambda each: (not each.makes_it, each.end_at or NEVER))
    return replace(forecast, path=path, remedies=tuple(outcomes))


def _unfinished(journal: Journal, deadline: PlanDeadline) -> JournalRun | None:
    """The first run of the job that should have met it, and has not ended."""
    runs = [
        run
        for run in journal.runs.values()
        if run.job_id == deadline.job_id and run.end_at is None and run.due_at <= deadline.at
    ]
    return min(runs, key=lambda run: (run.due_at, run.id), default=None)


def _tried(
    asked: PlanRequest,
    deadline: PlanDeadline,
    remedies: Sequence[Remedy],
    seeds: Sequence[int],
    planned: PlannedFires,
    do: AllOf,
) -> list[tuple[Remedy, int]]:
    """Each with the end that it brings, by the same draws."""

    def end(situation: ForecastSituation, seed: int) -> Work:
        def work() -> int:
            _, journal = _draw(situation, seed, asked.end, planned, False, asked.max_runs)
            return _end_of(_success(deadline, _successes(journal, {deadline.job_id})))

        return work

    others = [with_remedy(asked.situation, each) for each in remedies]
    ends = do([end(other, seed) for other in others for seed in seeds])
    size = len(seeds)
    return [
        (remedy, _quantile(ends[place * size : (place + 1) * size], 0.5))
        for place, remedy in enumerate(remedies)
    ]


def _quantile(values: Sequence[int], share: float) -> int:
    """What at least this share of some numbers does not exceed."""
    rising = sorted(values)
    return rising[max(0, ceil(len(rising) * share) - 1)]


def _known(at: int, end: int) -> int | None:
    return None if at > end or at >= NEVER else at
