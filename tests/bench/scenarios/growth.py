"""Growth: what a run costs with ever more old runs, idle triggers or nodes beside it.

Two beds at once: one grows, the other stays at the first size and is measured in turns with it, for
the machine itself is quicker at one time than at another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tests.bench.scenarios.flood import Flood, cpu_of, flood, rate_of
from tests.bench.scenarios.steady import Steady, steady
from tests.bench.testbed.bed import NODES, Bed, made
from tests.bench.testbed.many_triggers import DAY_MS, add_triggers
from tests.bench.testbed.old_runs import add_old_runs
from tests.bench.testbed.quiet_bed import NodeCrowd
from tests.e2e.cluster import EXECUTOR, Cluster

# After millions of rows were written, the first floods cost half as much again: caches are cold,
# and PostgreSQL writes whole pages after a checkpoint.
WARM_UPS = 3
_FAR_MS = 3 * DAY_MS
_SERVING_SLOTS = 1_000  # of all simulated nodes together


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Medians of floods at one size, and of those in turns with them at the first size."""

    runs_per_second: int
    cpu_us_per_run: dict[str, int]
    cost_ratio: float  # processor time of admin and database per run, over the first size's
    rate_ratio: float  # runs per second, over the first size's


Growth = dict[str, Step]  # by size, the smallest first
_Grow = Callable[[Bed, int, int], AbstractContextManager[None]]  # from one size to another


def growth_of_old_runs(kind: str, *, sizes: Sequence[int], runs: int, repeats: int) -> Growth:
    """Floods of one job, with so many ended runs of others in the ledger."""
    return _steps(kind, _more_old_runs, sizes=sizes, runs=runs, repeats=repeats)


def growth_of_triggers(kind: str, *, sizes: Sequence[int], runs: int, repeats: int) -> Growth:
    """Floods of one job, with so many triggers that fire in some days."""
    return _steps(kind, _more_triggers, sizes=sizes, runs=runs, repeats=repeats)


def growth_of_nodes(kind: str, *, sizes: Sequence[int], runs: int, repeats: int) -> Growth:
    """Floods spread over so many simulated nodes, which have as many slots in all."""
    return _steps(kind, _other_nodes, sizes=sizes, runs=runs, repeats=repeats, nodes=0)


def steady_on_nodes(
    kind: str, *, nodes: int, slots: int, fires_per_second: int, seconds: int
) -> Steady:
    """How late fires are that are spread over so many simulated nodes of one executor."""
    with made(kind, nodes=0) as bed, _serving(bed.cluster, nodes=nodes, slots=slots):
        bed.wait_until_calm()
        return steady(bed, fires_per_second=fires_per_second, seconds=seconds)


@contextmanager
def _more_old_runs(bed: Bed, there: int, size: int) -> Iterator[None]:
    add_old_runs(bed, count=size - there)
    yield


@contextmanager
def _more_triggers(bed: Bed, there: int, size: int) -> Iterator[None]:
    far = round(time.time() * 1000) + _FAR_MS
    job_id = bed.cluster.add_job(f"idle-{size}", "noop")
    add_triggers(bed, job_id, count=size - there, next_fire_at=far)
    yield


@contextmanager
def _other_nodes(bed: Bed, _there: int, size: int) -> Iterator[None]:
    with _serving(bed.cluster, nodes=size, slots=max(1, _SERVING_SLOTS // size)):
        yield


def _steps(
    kind: str,
    grow: _Grow,
    *,
    sizes: Sequence[int],
    runs: int,
    repeats: int,
    nodes: int = NODES,
) -> Growth:
    first, *larger = sizes
    steps: Growth = {}
    with (
        made(kind, nodes=nodes) as still,
        made(kind, nodes=nodes) as growing,
        grow(still, 0, first),
    ):
        with grow(growing, 0, first):
            steps[str(first)] = _step(still, growing, runs=runs, repeats=repeats)
        there = first
        for size in larger:
            with grow(growing, there, size):
                steps[str(size)] = _step(still, growing, runs=runs, repeats=repeats)
            there = size
    return steps


def _step(still: Bed, growing: Bed, *, runs: int, repeats: int) -> Step:
    for bed in (still, growing):
        bed.wait_until_calm()
        for _ in range(WARM_UPS):
            flood(bed, job_id=bed.noop_job, runs=runs)
    before: list[Flood] = []
    now: list[Flood] = []
    for _ in range(repeats):
        before.append(flood(still, job_id=still.noop_job, runs=runs))
        now.append(flood(growing, job_id=growing.noop_job, runs=runs))
    return Step(
        runs_per_second=rate_of(now),
        cpu_us_per_run=cpu_of(now),
        cost_ratio=round(_cost(now) / _cost(before), 2),
        rate_ratio=round(rate_of(now) / rate_of(before), 2),
    )


def _cost(floods: Sequence[Flood]) -> int:
    cpu = cpu_of(floods)
    return cpu["admin"] + cpu["database"]


@contextmanager
def _serving(cluster: Cluster, *, nodes: int, slots: int) -> Iterator[NodeCrowd]:
    """Simulated nodes that also run what they are given: at once, and it succeeds."""
    (admin,) = cluster.admins
    tokens = [(EXECUTOR, cluster.executor_token)]
    with NodeCrowd(ports=[admin.port], nodes=nodes, tokens=tokens, slots=slots) as crowd:
        crowd.wait_until_connected()
        yield crowd
