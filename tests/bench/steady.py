"""Lateness: triggers at a steady rate, and how long after their instant the attempts start."""

from __future__ import annotations

import time
from dataclasses import dataclass

import sqlalchemy as sa

from tests.bench.bed import Bed
from tests.bench.measure import percentile
from tickwheel_admin.store.tables import run as run_table

TRIGGERS_PER_JOB = 50  # the most that a job may have
WARM_UP_SECONDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """One measurement; lateness in milliseconds after `scheduled_at`."""

    fires_per_second: int
    fires: int
    dispatched_p50: int  # committed to a node
    dispatched_p99: int
    started_p50: int  # the node's acceptance is in the database
    started_p99: int
    started_max: int
    cpu_share: dict[str, float]  # of one core


def steady(bed: Bed, *, fires_per_second: int, seconds: int) -> Steady:
    """Let triggers of one second fire, spread over it, and read the ledger afterwards."""
    begin_at = round(time.time() * 1000) + 4_000  # after the last job was added
    jobs = []
    for start in range(0, fires_per_second, TRIGGERS_PER_JOB):
        numbers = range(start, min(start + TRIGGERS_PER_JOB, fires_per_second))
        triggers = [
            {
                "kind": "fixed_rate",
                "every_seconds": 1,
                "anchor_at": begin_at + number * 1000 // fires_per_second,
            }
            for number in numbers
        ]
        jobs.append(bed.cluster.add_job(f"steady-{start}", "noop", triggers=triggers))
    from_at = begin_at + WARM_UP_SECONDS * 1000
    to_at = from_at + seconds * 1000
    time.sleep(max(0.0, from_at / 1000 - time.time()))
    before = bed.cpu_seconds()
    time.sleep(max(0.0, to_at / 1000 - time.time()))
    after = bed.cpu_seconds()
    for job in jobs:
        bed.cluster.api().post(f"/jobs/{job}/pause")
    rows = bed.database.read_sync(_rows, jobs, from_at, to_at)
    if len(rows) != fires_per_second * seconds:
        raise AssertionError(f"{len(rows)} fires instead of {fires_per_second * seconds}")
    dispatched = [row.dispatched_at - row.scheduled_at for row in rows]
    started = [row.started_at - row.scheduled_at for row in rows]
    return Steady(
        fires_per_second=fires_per_second,
        fires=len(rows),
        dispatched_p50=percentile(dispatched, 0.5),
        dispatched_p99=percentile(dispatched, 0.99),
        started_p50=percentile(started, 0.5),
        started_p99=percentile(started, 0.99),
        started_max=max(started),
        cpu_share={name: (after[name] - before[name]) / seconds for name in before},
    )


def _rows(
    conn: sa.Connection, jobs: list[int], from_at: int, to_at: int
) -> list[sa.Row[tuple[int, int, int]]]:
    return list(
        conn.execute(
            sa.select(
                run_table.c.scheduled_at, run_table.c.dispatched_at, run_table.c.started_at
            ).where(
                run_table.c.job_id.in_(jobs),
                run_table.c.scheduled_at >= from_at,
                run_table.c.scheduled_at < to_at,
            )
        )
    )
