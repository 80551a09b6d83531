"""Lateness: triggers at a steady rate, and how long after their instant the attempts start."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tests.bench.testbed.bed import Bed
from tests.bench.testbed.measure import percentile
from tests.support.polling import wait_until
from tickwheel_admin.store.database.tables import run as run_table

TRIGGERS_PER_JOB = 50  # the most that a job may have
WARM_UP_SECONDS = 3
LAST_START_SECONDS = 60.0  # an admin that cannot keep up may need so long after the last fire


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """One measurement; lateness in milliseconds after `scheduled_at`."""

    fires_per_second: int
    fires: int
    dispatched_p50_ms: int  # committed to a node
    dispatched_p99_ms: int
    started_p50_ms: int  # the node's acceptance is in the database
    started_p99_ms: int
    started_max_ms: int
    cpu_share: dict[str, float]  # of one core


def steady(bed: Bed, *, fires_per_second: int, seconds: int) -> Steady:
    """Let triggers of one second fire, spread over it, and read the ledger afterwards."""
    base = round(time.time() * 1000)
    count = -(-fires_per_second // TRIGGERS_PER_JOB)
    # By turns: neighbours may fire in the same millisecond, which no job wants twice.
    jobs = [
        _add_job(
            bed, range(n, fires_per_second, count), base=base, fires_per_second=fires_per_second
        )
        for n in range(count)
    ]
    adding_seconds = time.time() - base / 1000
    from_at = base + (round(adding_seconds + 0.5) + WARM_UP_SECONDS) * 1000
    to_at = from_at + seconds * 1000
    time.sleep(max(0.0, from_at / 1000 - time.time()))
    before = bed.cpu_seconds()
    time.sleep(max(0.0, to_at / 1000 - time.time()))
    after = bed.cpu_seconds()
    fires = fires_per_second * seconds
    wait_until(
        lambda: bed.database.read_sync(_started, jobs, from_at, to_at) >= fires,
        timeout_seconds=LAST_START_SECONDS,
        what=f"{fires} fires have started",
    )
    for job in jobs:
        bed.cluster.api().post(f"/jobs/{job}/pause")
    rows = bed.database.read_sync(_rows, jobs, from_at, to_at)
    if len(rows) != fires:
        raise AssertionError(f"{len(rows)} fires instead of {fires}")
    dispatched = [row.dispatched_at - row.scheduled_at for row in rows]
    started = [row.started_at - row.scheduled_at for row in rows]
    return Steady(
        fires_per_second=fires_per_second,
        fires=len(rows),
        dispatched_p50_ms=percentile(dispatched, 0.5),
        dispatched_p99_ms=percentile(dispatched, 0.99),
        started_p50_ms=percentile(started, 0.5),
        started_p99_ms=percentile(started, 0.99),
        started_max_ms=max(started),
        cpu_share={name: round((after[name] - before[name]) / seconds, 3) for name in before},
    )


def _add_job(bed: Bed, numbers: Sequence[int], *, base: int, fires_per_second: int) -> int:
    """A job with the triggers of these numbers, each at its own part of every second."""
    triggers = [
        {
            "kind": "fixed_rate",
            "every_seconds": 1,
            "anchor_at": base + number * 1000 // fires_per_second,
        }
        for number in numbers
    ]
    return bed.cluster.add_job(f"steady-{base}-{numbers[0]}", "noop", triggers=triggers)


def _started(conn: sa.Connection, jobs: Sequence[int], from_at: int, to_at: int) -> int:
    return int(
        conn.execute(
            sa.select(sa.func.count())
            .select_from(run_table)
            .where(*_within(jobs, from_at, to_at), run_table.c.started_at.is_not(None))
        ).scalar_one()
    )


def _rows(
    conn: sa.Connection, jobs: Sequence[int], from_at: int, to_at: int
) -> list[sa.Row[tuple[int, int, int]]]:
    return list(
        conn.execute(
            sa.select(
                run_table.c.scheduled_at, run_table.c.dispatched_at, run_table.c.started_at
            ).where(*_within(jobs, from_at, to_at))
        )
    )


def _within(jobs: Sequence[int], from_at: int, to_at: int) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        run_table.c.job_id.in_(jobs),
        run_table.c.scheduled_at >= from_at,
        run_table.c.scheduled_at < to_at,
    )
