"""A backfill that has come halfway, with instants of every outcome."""

from __future__ import annotations

import sqlalchemy as sa

from tests.browser.samples.rows import NOW
from tickwheel_admin.domain.backfills.backfill import (
    ENDED,
    Backfill,
    BackfillState,
    FillOutcome,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.store.backfills.backfills import add_backfill
from tickwheel_admin.store.database.tables import backfill_run, run

BACKFILL_ID = 1
DAY_MS = 86_400_000


def add_backfills(conn: sa.Connection, job_ids: dict[str, int], executor_id: int) -> dict[str, int]:
    """One of the job payment-reconcile; returns its id by name."""
    job_id = job_ids["payment-reconcile"]
    runs = list(
        conn.execute(
            sa.select(run.c.id).where(run.c.job_id == job_id).order_by(run.c.id).limit(12)
        ).scalars()
    )
    outcomes = list(FillOutcome)
    filled = [(at, run_id, outcomes[at % len(outcomes)]) for at, run_id in enumerate(runs)]
    count = {each: sum(1 for _, _, outcome in filled if outcome is each) for each in outcomes}
    add_backfill(
        conn,
        Backfill(
            id=BACKFILL_ID,
            executor_id=executor_id,
            job_id=job_id,
            trigger_id=1,
            spec=CronSpec(expression="*/5 * * * *", timezone="Europe/Berlin"),
            saved_at=NOW,
            from_at=NOW - 60 * DAY_MS,
            to_at=NOW - 30 * DAY_MS,
            newest_first=False,
            parallel=4,
            parameters='{"dry_run":true,"date":"2026-09-20"}',
            requested_by="li.wei",
            total=8_640,
            state=BackfillState.PAUSED,
            written=len(filled) - count[FillOutcome.EXISTING],
            existing=count[FillOutcome.EXISTING],
            created_at=NOW - 3_600_000,
        ).with_outcomes({each: count[each] for each in ENDED}),
        request_key=None,
    )
    conn.execute(
        sa.insert(backfill_run),
        [
            {
                "job_id": job_id,
                "at": NOW - 60 * DAY_MS + at * 300_000,
                "backfill_id": BACKFILL_ID,
                "trigger_id": 1,
                "run_id": run_id,
                "outcome": outcome.value,
            }
            for at, run_id, outcome in filled
        ],
    )
    return {"backfill:autumn": BACKFILL_ID}
