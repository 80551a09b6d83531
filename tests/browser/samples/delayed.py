"""Some hours in which the runs of a busy executor waited for one another."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from tests.browser.samples.rows import NOW, row
from tickwheel_admin.store.database import tables

MINUTE = 60_000
NODES = (7, 8)  # of the executor "ml", with 6 and 10 slots
BEGAN = NOW - 300 * MINUTE
# job, due after so many minutes, claimed, ended, number of such runs on each node
RUNS = (
    ("features-backfill", 0, 0, 95, (4, 6)),
    ("embeddings-refresh", 1, 1, 62, (2, 4)),
    ("churn-scoring", 20, 62, 80, (2, 4)),
    ("features-backfill", 60, 80, 120, (2, 4)),
    ("embeddings-refresh", 50, 95, 110, (3, 3)),
    ("churn-scoring", 70, 95, 99, (1, 2)),
)


def add_delayed_runs(
    conn: sa.Connection, job_ids: dict[str, int], executor_id: int, ids: Iterator[int]
) -> dict[str, int]:
    """All slots of an executor are taken for an hour; returns one of those that waited."""
    rows = [
        row(
            id=next(ids), executor_id=executor_id, job_id=job_ids[name], origin="api",
            state="succeeded", scheduled_at=BEGAN + due * MINUTE, due_at=BEGAN + due * MINUTE,
            created_at=BEGAN + due * MINUTE - 1_500, dispatched_at=BEGAN + claimed * MINUTE + 180,
            started_at=BEGAN + claimed * MINUTE + 240, ended_at=BEGAN + ended * MINUTE,
            node_id=node_id, claim_token="t" * 32,
        )
        for name, due, claimed, ended, counts in RUNS
        for node_id, count in zip(NODES, counts, strict=True)
        for _ in range(count)
    ]  # fmt: skip
    conn.execute(tables.run.insert(), rows)
    late = next(each for each in rows if each["scheduled_at"] == BEGAN + 20 * MINUTE)
    return {"run:delayed": int(str(late["id"]))}
