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
ALARM_RULES = (
    {"kind": "started_late", "limits": {"seconds": 3_600}},
    {"kind": "slow", "limits": {"seconds": 3_600}},
    {"kind": "slow", "limits": {"factor": 1_000}},
)
LEARNED_SECONDS = 3.0  # by then the admin knows of new rules


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


def flood(
    bed: Bed,
    *,
    job_id: int,
    runs: int,
    ends: RunState = RunState.SUCCEEDED,
    shard_index: int = 0,
) -> Flood:
    """Queue `runs` runs of the job and wait until each has its result, which must be `ends`."""
    due_at = queue_runs(
        bed,
        job_id=job_id,
        executor_id=bed.cluster.executor_id,
        runs=runs,
        shard_index=shard_index,
    )
    time.sleep(max(0.0, due_at / 1000 - time.time()))  # all on one machine, with one clock
    before = bed.cpu_seconds()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while bed.database.read_sync(_unfinished):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{runs} runs did not end within {TIMEOUT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    seconds = time.time() - due_at / 1000
    after = bed.cpu_seconds()
    ended = bed.database.read_sync(_ended, job_id, due_at, ends)
    if ended != runs:
        raise AssertionError(f"{ended} of {runs} runs {ends}")
    return Flood(
        runs=runs,
        seconds=seconds,
        cpu_seconds={name: after[name] - before[name] for name in before},
    )


def queue_runs(bed: Bed, *, job_id: int, executor_id: int, runs: int, shard_index: int = 0) -> int:
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
                shard_index=shard_index,
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


def _ended(conn: sa.Connection, job_id: int, due_at: int, state: RunState) -> int:
    return int(
        conn.execute(
            sa.select(sa.func.count())
            .select_from(run_table)
            .where(
                run_table.c.job_id == job_id,
                run_table.c.scheduled_at == due_at,
                run_table.c.state == state.value,
            )
        ).scalar_one()
    )


# --- with alarms ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmsFlood:
    """Runs per second; ratios are to floods without failures and rules, measured in turns."""

    runs: int
    plain_runs_per_second: int
    measured_runs_per_second: int  # beside rules about late and slow runs, which none breaks
    measured_ratio: float
    failing_runs_per_second: int  # every run fails, which opens an alarm that counts
    failing_ratio: float


def alarms_flood(bed: Bed, *, runs: int) -> AlarmsFlood:
    """Plain, measured, plain and failing floods, on one bed."""
    failing = bed.cluster.add_job(f"fails-{time.time_ns()}", "fail")

    def plain() -> float:
        return flood(bed, job_id=bed.noop_job, runs=runs).runs_per_second

    before = plain()
    made = _add_rules(bed)
    try:
        time.sleep(LEARNED_SECONDS)
        measured = plain()
    finally:
        for rule_id in made:
            bed.cluster.api().delete(f"/alarm-rules/{rule_id}")
    time.sleep(LEARNED_SECONDS)
    usual = (before + plain()) / 2
    failed = flood(bed, job_id=failing, runs=runs, ends=RunState.FAILED).runs_per_second
    return AlarmsFlood(
        runs=runs,
        plain_runs_per_second=round(usual),
        measured_runs_per_second=round(measured),
        measured_ratio=round(measured / usual, 3),
        failing_runs_per_second=round(failed),
        failing_ratio=round(failed / usual, 3),
    )


def _add_rules(bed: Bed) -> list[int]:
    api, name = bed.cluster.api(), time.time_ns()
    return [
        int(api.post("/alarm-rules", rule | {"name": f"bench {name} {number}"})["id"])
        for number, rule in enumerate(ALARM_RULES)
    ]
