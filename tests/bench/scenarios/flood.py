"""Runs per second: many queued runs of a handler that does nothing, from claim to stored result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tests.bench.testbed.bed import Bed
from tests.bench.testbed.queued_runs import Share, queue_runs
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database.run_conditions import OPEN
from tickwheel_admin.store.database.tables import run as run_table

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
    share = Share(job_id=job_id, executor_id=bed.cluster.executor_id, runs=runs)
    return flood_of(bed, [share], ends=ends, shard_index=shard_index)


def flood_of(
    bed: Bed,
    shares: Sequence[Share],
    *,
    ends: RunState = RunState.SUCCEEDED,
    shard_index: int = 0,
) -> Flood:
    """The same with runs of several jobs, all due at one instant."""
    due_at = queue_runs(bed, shares, shard_index=shard_index)
    time.sleep(max(0.0, due_at / 1000 - time.time()))  # all on one machine, with one clock
    before = bed.cpu_seconds()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    runs = sum(share.runs for share in shares)
    while bed.database.read_sync(_unfinished):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{runs} runs did not end within {TIMEOUT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    seconds = time.time() - due_at / 1000
    after = bed.cpu_seconds()
    ended = bed.database.read_sync(_ended, [share.job_id for share in shares], due_at, ends)
    if ended != runs:
        raise AssertionError(f"{ended} of {runs} runs {ends}")
    return Flood(
        runs=runs,
        seconds=seconds,
        cpu_seconds={name: after[name] - before[name] for name in before},
    )


def _unfinished(conn: sa.Connection) -> bool:
    found = conn.execute(sa.select(run_table.c.id).where(run_table.c.listed_as == OPEN).limit(1))
    return found.first() is not None


def _ended(conn: sa.Connection, job_ids: Sequence[int], due_at: int, state: RunState) -> int:
    return int(
        conn.execute(
            sa.select(sa.func.count())
            .select_from(run_table)
            .where(
                run_table.c.job_id.in_(job_ids),
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
