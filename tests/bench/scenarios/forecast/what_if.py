"""What-if: seconds until the answer, in processes of its own, and what their admin feels of it.

python -m tests.bench --only what_if
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.admin.domain.forecast.situations import NOW, cron, job, node
from tickwheel_admin.domain.forecast.changes import NodeChange
from tickwheel_admin.domain.forecast.comparison import ForecastComparison, ForecastRequest
from tickwheel_admin.domain.forecast.situation import (
    ForecastJob,
    ForecastSituation,
    MeasuredRun,
)
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.forecast.process import ForecastProcesses

HOUR_MS = 3_600_000
MEASURED = 50  # runs of each job
SLOTS = 40
HOURLY = 20  # of so many jobs, one is
SECONDS = 120.0  # that a forecast may take: the bench tells how long it does
TICK_SECONDS = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfFigures:
    """Fewer slots for some jobs, most of them nightly: both sides, and the better minutes."""

    jobs: int
    hours: int
    runs: int  # on one side
    minutes_proposed: int
    p50_seconds: float  # from the question to the answer
    p95_seconds: float
    cpu_seconds: float  # of the processes of one answer
    runs_per_cpu_second: int  # simulated, of all sides
    waits_p99_ms: float  # how long something else in the admin's loop waits for its turn


def what_if(*, jobs: int, hours: int, asked: int) -> WhatIfFigures:
    """Ask so many times."""
    return asyncio.run(_measured(jobs, hours, asked))


async def _measured(jobs: int, hours: int, asked: int) -> WhatIfFigures:
    request = ForecastRequest(
        situation=_situation(jobs),
        changes=[NodeChange(node_id=1, slots=SLOTS * 3 // 4)],
        end=NOW + hours * HOUR_MS,
    )
    processes = ForecastProcesses(seconds=SECONDS)
    lasted: list[float] = []
    waits: list[float] = []
    ticking = asyncio.create_task(_tick(waits))
    before = _cpu_of_children()
    try:
        for _ in range(asked):
            begun = time.perf_counter()
            found = await processes.compare(request)
            lasted.append(time.perf_counter() - begun)
    finally:
        ticking.cancel()
        processes.close()
    cpu = (_cpu_of_children() - before) / asked
    return WhatIfFigures(
        jobs=jobs,
        hours=hours,
        runs=found.before.runs,
        minutes_proposed=len(found.spread),
        p50_seconds=round(_quantile(lasted, 0.5), 2),
        p95_seconds=round(_quantile(lasted, 0.95), 2),
        cpu_seconds=round(cpu, 2),
        runs_per_cpu_second=round(_simulated(found) / cpu),
        waits_p99_ms=round(_quantile(waits, 0.99) * 1000, 1),
    )


def _simulated(found: ForecastComparison) -> int:
    """Runs of all forecasts: each side is simulated with usual and with slow runs."""
    sides = [found.before, found.after, found.with_spread]
    return 2 * sum(side.runs for side in sides if side is not None)


def _situation(count: int) -> ForecastSituation:
    chance = Random(24)
    return ForecastSituation(
        now=NOW,
        jobs=tuple(_job(number, chance) for number in range(1, count + 1)),
        nodes=(node(slots=SLOTS),),
    )


def _job(number: int, chance: Random) -> ForecastJob:
    """People like full hours: a third of the nightly jobs fire at one."""
    minute = 0 if chance.random() < 1 / 3 else chance.randrange(60)
    hour = "*" if number % HOURLY == 0 else str(chance.choice((0, 1, 1, 2, 2, 2, 3, 4)))
    usual = chance.lognormvariate(10.5, 1.0)  # a median of 36 s
    measured = tuple(
        MeasuredRun(RunState.SUCCEEDED, round(usual * chance.uniform(0.6, 1.8)), 1)
        for _ in range(MEASURED)
    )
    return job(number, cron(f"{minute} {hour} * * *"), measured=measured)


async def _tick(waits: list[float]) -> None:
    while True:
        due = time.perf_counter() + TICK_SECONDS
        await asyncio.sleep(TICK_SECONDS)
        waits.append(time.perf_counter() - due)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _quantile(values: Sequence[float], share: float) -> float:
    rising = sorted(values)
    return rising[min(len(rising) - 1, int(len(rising) * share))] if rising else 0.0
