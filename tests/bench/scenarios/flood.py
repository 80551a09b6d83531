"""Runs per second: many queued runs of a handler that does nothing, from claim to stored result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tests.bench.testbed.bed import Bed
from tickwheel_admin.domain.runs.run import LIVE, Origin, Run, RunState
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.ids import take_block
from tickwheel_admin.store.database.tables import run as run_table
from tickwheel_admin.store.runs.inserts import insert_fires

HEAD_START_MS = 1_000  # all rows are in the database when the first becomes due
ROWS_PER_INSERT = 1_000
POLL_SECONDS = 0.05
TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """One measurement."""

    runs: int
    seconds: float  # from the instant they were due until the last result was stored
    cpu_seconds: dict[str, float]

    @property
    def runs_per_second(self) -> float:
        return self.runs / self.seconds

    @property
    def cpu_us_per_run(self) -> dict[str, int]:
        """Microseconds of processor time, by part."""
        return {
            name: round(seconds / self.runs * 1e6) for name, seconds in self.cpu_seconds.items()
        }


def rate_of(floods: Sequence[Flood]) -> int:
    """Runs per second, the median."""
    return round(statistics.median(each.runs_per_second for each in floods))


def cpu_of(floods: Sequence[Flood]) -> dict[str, int]:
    """Microseconds of processor time per run by part, the median of each."""
    return {
        name: round(statistics.median(each.cpu_us_per_run[name] for each in floods))
        for name in floods[0].cpu_seconds
    }


def flood(bed: Bed, *, job_id: int, runs: int) -> Flood:
    """Queue `runs` runs of the job and wait until each has its result."""
    due_at = queue_runs(bed, job_id=job_id, executor_id=bed.cluster.executor_id, runs=runs)
    time.sleep(max(0.0, due_at / 1000 - time.time()))  # all on one machine, with one clock
    before = bed.cpu_seconds()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while bed.database.read_sync(_unfinished):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{runs} runs did not end within {TIMEOUT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    seconds = time.time() - due_at / 1000
    after = bed.cpu_seconds()
    succeeded = bed.database.read_sync(_succeeded, job_id, due_at)
    if succeeded != runs:
        raise AssertionError(f"{succeeded} of {runs} runs succeeded")
    return Flood(
        runs=runs,
        seconds=seconds,
        cpu_seconds={name: after[name] - before[name] for name in before},
    )


def queue_runs(bed: Bed, *, job_id: int, executor_id: int, runs: int) -> int:
    """Insert the runs, to become due a moment after the last of them is there; returns when."""
    now = bed.database.read_sync(now_ms)
    # Inserting takes its time, and nothing may start meanwhile: due only once all are in.
    far = now + 3_600_000
    first = bed.database.run_sync(take_block, "run", runs)
    for start in range(0, runs, ROWS_PER_INSERT):
        batch = [
            Run(
                id=first + number,
                executor_id=executor_id,
                job_id=job_id,
                job_revision=1,
                trigger_id=None,
                origin=Origin.API,
                scheduled_at=far,
                created_at=now,
                state=RunState.QUEUED,
                due_at=far,
            )
            for number in range(start, min(start + ROWS_PER_INSERT, runs))
        ]
        bed.database.run_sync(insert_fires, batch)
    return bed.database.run_sync(_make_due, far)


def _make_due(conn: sa.Connection, far: int) -> int:
    due_at = now_ms(conn) + HEAD_START_MS
    conn.execute(
        sa.update(run_table)
        .where(run_table.c.due_at == far, run_table.c.state == RunState.QUEUED.value)
        .values(due_at=due_at, scheduled_at=due_at)
    )
    return due_at


def _unfinished(conn: sa.Connection) -> bool:
    states = [state.value for state in (*LIVE, RunState.QUEUED)]
    found = conn.execute(sa.select(run_table.c.id).where(run_table.c.state.in_(states)).limit(1))
    return found.first() is not None


def _succeeded(conn: sa.Connection, job_id: int, due_at: int) -> int:
    return int(
        conn.execute(
            sa.select(sa.func.count())
            .select_from(run_table)
            .where(
                run_table.c.job_id == job_id,
                run_table.c.scheduled_at == due_at,
                run_table.c.state == RunState.SUCCEEDED.value,
            )
        ).scalar_one()
    )
