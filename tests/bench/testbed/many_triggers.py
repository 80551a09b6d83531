"""Very many triggers, written as they would stand after a long time: past the API's bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tests.bench.testbed.bed import Bed
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.ids import take_block
from tickwheel_admin.store.database.tables import trigger
from tickwheel_admin.store.triggers.planning import bucket_of

DAY_MS = 86_400_000
ROWS_PER_BATCH = 5_000


def add_triggers(
    bed: Bed, job_id: int, *, count: int, next_fire_at: int, armed: bool = True
) -> None:
    """Give the job triggers of a day that fire next at one instant (UTC epoch ms).

    Args:
        armed: whether the planner sees them already; else `arm` shows them to it.
    """
    spec = FixedRateSpec(every_ms=DAY_MS, anchor_at=next_fire_at)
    first_id = bed.database.run_sync(take_block, "trigger", count)
    rows = [
        {
            "id": trigger_id,
            "job_id": job_id,
            "executor_id": bed.cluster.executor_id,
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


def arm(bed: Bed, job_id: int, next_fire_at: int) -> None:
    """Show all triggers of the job to the planner at once."""
    bed.database.run_sync(_arm, job_id, next_fire_at)


def first_due_at(bed: Bed) -> int:
    """When the first of all triggers fires next (UTC epoch ms)."""
    return bed.database.read_sync(_first_due_at)


def _write(conn: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    insert_rows(conn, trigger, rows, columns=tuple(rows[0]))


def _arm(conn: sa.Connection, job_id: int, at: int) -> None:
    conn.execute(sa.update(trigger).where(trigger.c.job_id == job_id).values(next_fire_at=at))


def _first_due_at(conn: sa.Connection) -> int:
    return int(conn.execute(sa.select(sa.func.min(trigger.c.next_fire_at))).scalar_one())
