"""The plan of the next hours: when each run will start and end, and which deadlines are met.

The next hours are simulated several times, each time with other draws of how long runs take. Half
of the draws end a run by its p50, 95 of 100 by its p95.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from typing import Any

import msgspec

from tickwheel_admin.domain.forecast.bars import (
    NEVER,
    bars_of,
    known_by,
    quantile_of,
    told_one_by_one,
)
from tickwheel_admin.domain.forecast.bars import PlanBar as PlanBar
from tickwheel_admin.domain.forecast.bars import PlanSum as PlanSum
from tickwheel_admin.domain.forecast.bars import most_frequent as most_frequent
from tickwheel_admin.domain.forecast.comparison import Basis, basis_of
from tickwheel_admin.domain.forecast.critical_path import PathFinder, PathStep
from tickwheel_admin.domain.forecast.journal import Journal, JournalRun
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
    bars = bars_of(
        situation,
        [journal for _, journal in drawn],
        end=end,
        until=until,
        executor_id=asked.executor_id,
        node_id=asked.node_id,
    )
    told, sums = told_one_by_one(bars, asked.max_bars, end)
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
    half, slow = quantile_of(ends, 0.5), quantile_of(ends, 0.95)
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
        end_at=known_by(half, end),
        slow_end_at=known_by(slow, end),
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
    without = quantile_of([_end_of(lasts[seed]) for seed in seeds], 0.5)
    remedies = remedies_for(path, asked.situation, job_id=deadline.job_id)
    allowed = REMEDY_WORK // MAX_EXPLAINED // max(len(journals[0].runs) * len(seeds), 1)
    tried = _tried(asked, deadline, remedies[: max(allowed, MIN_REMEDIES)], seeds, planned, do)
    outcomes = [
        RemedyOutcome(
            remedy=remedy,
            end_at=known_by(end, NEVER),
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
        (remedy, quantile_of(ends[place * size : (place + 1) * size], 0.5))
        for place, remedy in enumerate(remedies)
    ]
