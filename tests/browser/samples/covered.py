"""A job whose runs are fires of its schedule, with the intervals that they work for."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import run, trigger

EVERY = 900_000
WIDER = 3 * EVERY
_TIMES = ("scheduled_at", "created_at", "due_at", "dispatched_at", "started_at", "ended_at")


def add_intervals(conn: sa.Connection, job_ids: dict[str, int]) -> None:
    """Move runs of sync-salesforce to the instants of its trigger; a few reached back too far."""
    job_id = job_ids["sync-salesforce"]
    triggers = conn.execute(sa.select(trigger.c.id).where(trigger.c.job_id == job_id))
    trigger_id = triggers.scalar_one()
    fires = conn.execute(
        sa.select(run.c.id, run.c.scheduled_at)
        .where(run.c.job_id == job_id, run.c.state != "queued", run.c.shard_index == 0)
        .order_by(run.c.scheduled_at)
    ).all()
    seen: set[int] = set()
    for place, (run_id, at) in enumerate(fires):
        instant = at // EVERY * EVERY
        if instant in seen or place % 37 == 20:
            continue
        seen.add(instant)
        conn.execute(
            sa.update(run)
            .where(run.c.id == run_id)
            .values(
                trigger_id=trigger_id,
                interval_start=instant - (WIDER if place % 61 == 10 else EVERY),
                **{name: run.c[name] - at % EVERY for name in _TIMES},
            )
        )
