"""Hourly figures of the sample installation: two months of them, though most runs are long gone."""

from __future__ import annotations

import math
import random

import sqlalchemy as sa

from tests.browser.samples.rows import NOW
from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.store.runs.stats import HOUR_MS, RunStat, count_hour, write_stats

DAYS = 62
COUNTED_HOURS = 24  # of the newest the runs are still there
TROUBLE = range(90, 97)  # hours ago


def add_figures(conn: sa.Connection, executor_ids: dict[str, int]) -> None:
    """Counted where there are runs, made up before."""
    chance = random.Random(11)
    this_hour = NOW - NOW % HOUR_MS
    for ago in range(DAYS * 24, 0, -1):
        hour_at = this_hour - ago * HOUR_MS
        stats = count_hour(conn, hour_at)
        if ago > COUNTED_HOURS:
            stats = [_made_up(hour_at, each, ago, chance) for each in executor_ids.values()]
        write_stats(conn, hour_at, stats, counted_at=hour_at + 2 * HOUR_MS)


def _made_up(hour_at: int, executor_id: int, ago: int, chance: random.Random) -> RunStat:
    """Busier by day, a few failures, and an evening on which much went wrong."""
    daily = 1 + 0.5 * math.sin(2 * math.pi * (hour_at / HOUR_MS - 8) / 24)
    runs = round(9 * daily * chance.uniform(0.8, 1.2))
    failed = min(runs, chance.randrange(2) + (3 if ago in TROUBLE else 0))
    delays = [round(20 / chance.uniform(0.2, 1)) for _ in range(runs)]
    return RunStat(
        hour_at=hour_at,
        executor_id=executor_id,
        succeeded=runs - failed,
        failed=failed,
        timed_out=int(chance.random() < 0.05),
        delays=TimeHistogram.of(delays),
        durations=TimeHistogram.of(round(1_500 / chance.uniform(0.1, 1)) for _ in delays),
    )
