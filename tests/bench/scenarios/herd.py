"""Herds: very many triggers due at one instant, and very many overdue beside some on time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tests.bench.scenarios.steady import TRIGGERS_PER_JOB
from tests.bench.testbed.bed import Bed
from tests.bench.testbed.many_triggers import add_triggers, arm, first_due_at
from tests.bench.testbed.measure import cpu_us_per_run, peak_mebibytes, percentile
from tests.support.polling import wait_until
from tickwheel_admin.domain.runs.run import LIVE, RunState
from tickwheel_admin.store.database.tables import run as run_table

ON_TIME_PER_SECOND = 50
ON_TIME_MS = 1_000  # they are watched for so long at least
HEAD_START_MS = 3_000  # between the writing of a herd's instant and that instant
_UNFINISHED = [state.value for state in (*LIVE, RunState.QUEUED)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """Triggers due at one instant: from the fire to the stored result."""

    triggers: int
    started_p50_ms: int  # after the instant
    last_started_ms: int
    runs_per_second: int  # all of them, until the end of the last
    cpu_us_per_run: dict[str, int]
    peak_mebibytes: int  # of the admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """Overdue triggers, planned while others are on time."""

    triggers: int
    planned_seconds: float  # until none was overdue any more
    ran_seconds: float  # until the last of their runs had ended
    on_time_started_p99_ms: int  # late, of the triggers that were due meanwhile
    on_time_started_max_ms: int
    peak_mebibytes: int


def herd(bed: Bed, *, triggers: int) -> Herd:
    """Let that many triggers fire at one instant."""
    job_id = bed.cluster.add_job(f"herd-{time.time_ns()}", "noop")
    soon = round(time.time() * 1000)
    add_triggers(bed, job_id, count=triggers, next_fire_at=soon, armed=False)
    at = round(time.time() * 1000) + HEAD_START_MS
    arm(bed, job_id, at)
    time.sleep(max(0.0, at / 1000 - time.time()))
    before = bed.cpu_seconds()
    wait_until(
        lambda: first_due_at(bed) > at, timeout_seconds=300, what="the whole herd is planned"
    )
    _wait_for_runs(bed, job_id, triggers, until=at)
    after = bed.cpu_seconds()
    rows = bed.database.read_sync(_started, [job_id])
    late = [row.started_at - row.scheduled_at for row in rows]
    return Herd(
        triggers=triggers,
        started_p50_ms=percentile(late, 0.5),
        last_started_ms=max(late),
        runs_per_second=round(triggers / (max(row.ended_at for row in rows) - at) * 1000),
        cpu_us_per_run=cpu_us_per_run(before, after, triggers),
        peak_mebibytes=peak_mebibytes(bed.cluster.admins[0].process.pid),
    )


def overdue(bed: Bed, *, triggers: int) -> Overdue:
    """Give an admin that many triggers whose time was an hour ago, beside some on time."""
    on_time = _on_time_jobs(bed)
    job_id = bed.cluster.add_job(f"overdue-{time.time_ns()}", "noop")
    missed_at = round(time.time() * 1000) - 3_600_000
    add_triggers(bed, job_id, count=triggers, next_fire_at=missed_at, armed=False)
    time.sleep(ON_TIME_MS / 1000)  # those on time have begun
    arm(bed, job_id, missed_at)
    began = time.monotonic()
    began_at = round(time.time() * 1000)
    wait_until(
        lambda: first_due_at(bed) > round(time.time() * 1000) - 5_000,
        timeout_seconds=300,
        what="every overdue trigger is planned",
    )
    planned = time.monotonic() - began
    _wait_for_runs(bed, job_id, triggers, until=began_at)
    ran = time.monotonic() - began
    watched_until = max(round(time.time() * 1000), began_at + ON_TIME_MS)
    time.sleep(max(0.0, watched_until / 1000 + 1 - time.time()))  # the last of them have started
    for job in on_time:
        bed.cluster.api().post(f"/jobs/{job}/pause")
    late = [
        row.started_at - row.scheduled_at
        for row in bed.database.read_sync(_started, on_time)
        if began_at <= row.scheduled_at <= watched_until
    ]
    return Overdue(
        triggers=triggers,
        planned_seconds=round(planned, 1),
        ran_seconds=round(ran, 1),
        on_time_started_p99_ms=percentile(late, 0.99),
        on_time_started_max_ms=max(late),
        peak_mebibytes=peak_mebibytes(bed.cluster.admins[0].process.pid),
    )


def _on_time_jobs(bed: Bed) -> list[int]:
    begin_at = round(time.time() * 1000)
    return [
        bed.cluster.add_job(
            f"on-time-{begin_at}-{start}",
            "noop",
            triggers=[
                {
                    "kind": "fixed_rate",
                    "every_seconds": 1,
                    "anchor_at": begin_at + number * 1000 // ON_TIME_PER_SECOND,
                }
                for number in range(start, min(start + TRIGGERS_PER_JOB, ON_TIME_PER_SECOND))
            ],
        )
        for start in range(0, ON_TIME_PER_SECOND, TRIGGERS_PER_JOB)
    ]


def _wait_for_runs(bed: Bed, job_id: int, count: int, *, until: int) -> None:
    """Until none of the job's runs is on its way; all are in the ledger already, for `until`."""
    wait_until(
        lambda: not bed.database.read_sync(_is_unfinished, job_id, until),
        timeout_seconds=600,
        what=f"all {count} runs have ended",
    )
    succeeded = bed.database.read_sync(_succeeded, job_id)
    if succeeded != count:
        raise AssertionError(f"{succeeded} of {count} runs succeeded")


def _is_unfinished(conn: sa.Connection, job_id: int, until: int) -> bool:
    # By state and instant: to go through all runs of the job would cost what is measured.
    found = conn.execute(
        sa.select(run_table.c.id)
        .where(
            run_table.c.state.in_(_UNFINISHED),
            run_table.c.scheduled_at <= until,
            run_table.c.job_id == job_id,
        )
        .limit(1)
    )
    return found.first() is not None


def _succeeded(conn: sa.Connection, job_id: int) -> int:
    return int(
        conn.execute(
            sa.select(sa.func.count())
            .select_from(run_table)
            .where(run_table.c.job_id == job_id, run_table.c.state == RunState.SUCCEEDED.value)
        ).scalar_one()
    )


def _started(conn: sa.Connection, jobs: Sequence[int]) -> list[sa.Row[Any]]:
    return list(
        conn.execute(
            sa.select(run_table.c.scheduled_at, run_table.c.started_at, run_table.c.ended_at).where(
                run_table.c.job_id.in_(jobs), run_table.c.started_at.is_not(None)
            )
        )
    )
