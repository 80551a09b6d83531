"""Herds: very many triggers due at one instant, and very many overdue beside some on time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tests.bench.bed import Bed
from tests.bench.measure import peak_mebibytes, percentile
from tests.bench.steady import TRIGGERS_PER_JOB
from tests.support.polling import wait_until
from tickwheel_admin.domain.trigger import TriggerKind, TriggerSpec
from tickwheel_admin.domain.trigger_json import spec_to_json
from tickwheel_admin.store.batch import insert_rows
from tickwheel_admin.store.tables import executor, trigger
from tickwheel_admin.store.tables import run as run_table
from tickwheel_admin.store.triggers import bucket_of

FIRST_ID = 2**40  # far from the ids that the admin gives
DAY_MS = 86_400_000
ON_TIME_PER_SECOND = 50
ROWS_PER_BATCH = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """Triggers due at one instant; lateness of their attempts in milliseconds."""

    triggers: int
    started_p50: int
    last_started: int
    peak_mebibytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """Overdue triggers, planned while others are on time."""

    triggers: int
    planned_seconds: float  # until none was overdue any more
    ran_seconds: float  # until the last of their runs had ended
    on_time_started_p99: int  # ms late, of the triggers that were due meanwhile
    on_time_started_max: int
    peak_mebibytes: int


def herd(bed: Bed, *, triggers: int) -> Herd:
    """Let that many triggers fire at one instant."""
    job_id = bed.cluster.add_job("herd", "noop")
    at = round(time.time() * 1000) + 10_000
    _add_triggers(bed, job_id, count=triggers, next_fire_at=at, first_id=FIRST_ID)
    _wait_for_runs(bed, job_id, triggers)
    rows = bed.database.read_sync(_started, [job_id])
    late = [row.started_at - row.scheduled_at for row in rows]
    return Herd(
        triggers=triggers,
        started_p50=percentile(late, 0.5),
        last_started=max(late),
        peak_mebibytes=peak_mebibytes(bed.cluster.admins[0].process.pid),
    )


def overdue(bed: Bed, *, triggers: int) -> Overdue:
    """Give an admin that many triggers whose time was an hour ago, beside some on time."""
    on_time = _on_time_jobs(bed)
    job_id = bed.cluster.add_job("overdue", "noop")
    missed_at = round(time.time() * 1000) - 3_600_000
    first_id = FIRST_ID + 2**20
    _add_triggers(
        bed, job_id, count=triggers, next_fire_at=missed_at, first_id=first_id, armed=False
    )
    bed.database.run_sync(_arm, job_id, missed_at)
    began = time.monotonic()
    began_at = round(time.time() * 1000)
    wait_until(
        lambda: bed.database.read_sync(_first_due) > round(time.time() * 1000) - 5_000,
        timeout_seconds=300,
        what="every overdue trigger is planned",
    )
    planned = time.monotonic() - began
    planned_at = round(time.time() * 1000)
    _wait_for_runs(bed, job_id, triggers)
    ran = time.monotonic() - began
    for job in on_time:
        bed.cluster.api().post(f"/jobs/{job}/pause")
    late = [
        row.started_at - row.scheduled_at
        for row in bed.database.read_sync(_started, on_time)
        if began_at <= row.scheduled_at <= planned_at
    ]
    return Overdue(
        triggers=triggers,
        planned_seconds=round(planned, 1),
        ran_seconds=round(ran, 1),
        on_time_started_p99=percentile(late, 0.99),
        on_time_started_max=max(late),
        peak_mebibytes=peak_mebibytes(bed.cluster.admins[0].process.pid),
    )


def _on_time_jobs(bed: Bed) -> list[int]:
    begin_at = round(time.time() * 1000) + 2_000
    return [
        bed.cluster.add_job(
            f"on-time-{start}",
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


def _add_triggers(
    bed: Bed, job_id: int, *, count: int, next_fire_at: int, first_id: int, armed: bool = True
) -> None:
    """Write triggers as they would stand after a long time, past the API's bounds per job.

    Args:
        armed: whether the planner sees them already.
    """
    spec = TriggerSpec(kind=TriggerKind.FIXED_RATE, every_ms=DAY_MS, anchor_at=next_fire_at)
    rows = [
        {
            "id": trigger_id,
            "job_id": job_id,
            "bucket": bucket_of(trigger_id),
            "spec": spec_to_json(spec),
            "paused": False,
            "state": "active",
            "next_fire_at": next_fire_at if armed else None,
            "version": 1,
            "created_at": next_fire_at - DAY_MS,
        }
        for trigger_id in range(first_id, first_id + count)
    ]
    for start in range(0, count, ROWS_PER_BATCH):
        bed.database.run_sync(_write, rows[start : start + ROWS_PER_BATCH])


def _write(conn: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    executor_id = conn.execute(sa.select(executor.c.id)).scalar_one()
    given = [{**row, "executor_id": executor_id} for row in rows]
    insert_rows(conn, trigger, given, columns=tuple(given[0]))


def _arm(conn: sa.Connection, job_id: int, at: int) -> None:
    conn.execute(sa.update(trigger).where(trigger.c.job_id == job_id).values(next_fire_at=at))


def _first_due(conn: sa.Connection) -> int:
    return int(conn.execute(sa.select(sa.func.min(trigger.c.next_fire_at))).scalar_one())


def _wait_for_runs(bed: Bed, job_id: int, count: int) -> None:
    wait_until(
        lambda: bed.database.read_sync(_ended, job_id) == count,
        timeout_seconds=600,
        what=f"all {count} runs have ended",
    )


def _ended(conn: sa.Connection, job_id: int) -> int:
    return int(
        conn.execute(
            sa.select(sa.func.count())
            .select_from(run_table)
            .where(run_table.c.job_id == job_id, run_table.c.state == "succeeded")
        ).scalar_one()
    )


def _started(conn: sa.Connection, jobs: Sequence[int]) -> list[sa.Row[Any]]:
    return list(
        conn.execute(
            sa.select(run_table.c.scheduled_at, run_table.c.started_at).where(
                run_table.c.job_id.in_(jobs), run_table.c.started_at.is_not(None)
            )
        )
    )
