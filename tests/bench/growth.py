"""Growth: what a run costs with ever more old runs, idle triggers or nodes beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.bed import Bed, made
from tests.bench.flood import cpu_of, flood, rate_of
from tests.bench.many_triggers import DAY_MS, add_triggers
from tests.bench.old_runs import add_old_runs
from tests.bench.serving import SERVING_SLOTS, serving

FIRST_WARM_UP_RUNS = 10_000
WARM_UP_RUNS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Medians of floods at one size."""

    runs_per_second: int
    cpu_us_per_run: dict[str, int]
    cost_ratio: float  # processor time of admin and database per run, over the first size's
    rate_ratio: float  # runs per second, over the first size's


Growth = dict[str, Step]  # by size, the smallest first


def growth_of_old_runs(kind: str, *, sizes: Sequence[int], runs: int, repeats: int) -> Growth:
    """Floods of one job, with so many ended runs of others in the ledger."""

    def grown(bed: Bed) -> Iterator[int]:
        there = 0
        for size in sizes:
            add_old_runs(bed, count=size - there)
            there = size
            yield size

    with made(kind) as bed:
        return _steps(bed, grown(bed), runs=runs, repeats=repeats)


def growth_of_triggers(kind: str, *, sizes: Sequence[int], runs: int, repeats: int) -> Growth:
    """Floods of one job, with so many triggers that fire in some days."""

    def grown(bed: Bed) -> Iterator[int]:
        idle = bed.cluster.add_job("idle", "noop")
        there = 0
        for size in sizes:
            far = round(time.time() * 1000) + 3 * DAY_MS
            add_triggers(bed, idle, count=size - there, next_fire_at=far)
            there = size
            yield size

    with made(kind) as bed:
        return _steps(bed, grown(bed), runs=runs, repeats=repeats)


def growth_of_nodes(kind: str, *, sizes: Sequence[int], runs: int, repeats: int) -> Growth:
    """Floods spread over so many simulated nodes, which have as many slots in all."""

    def grown(bed: Bed) -> Iterator[int]:
        for size in sizes:
            with serving(bed.cluster, nodes=size, slots=max(1, SERVING_SLOTS // size)):
                yield size
            bed.wait_until_calm()

    with made(kind, nodes=0) as bed:
        return _steps(bed, grown(bed), runs=runs, repeats=repeats)


def _steps(bed: Bed, grown: Iterator[int], *, runs: int, repeats: int) -> Growth:
    """Floods at each size that the iterator has brought about."""
    steps: Growth = {}
    first_cost, first_rate = 0, 0
    for size in grown:
        bed.wait_until_calm()
        flood(bed, job_id=bed.noop_job, runs=WARM_UP_RUNS if steps else FIRST_WARM_UP_RUNS)
        floods = [flood(bed, job_id=bed.noop_job, runs=runs) for _ in range(repeats)]
        rate, cpu = rate_of(floods), cpu_of(floods)
        cost = cpu["admin"] + cpu["database"]
        first_cost, first_rate = first_cost or cost, first_rate or rate
        steps[str(size)] = Step(
            runs_per_second=rate,
            cpu_us_per_run=cpu,
            cost_ratio=round(cost / first_cost, 2),
            rate_ratio=round(rate / first_rate, 2),
        )
    return steps
