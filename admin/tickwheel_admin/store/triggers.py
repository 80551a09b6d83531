"""Triggers: what is due, and planning it: fires and the advance in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.run import Run, RunState
from tickwheel_admin.domain.trigger import Trigger, TriggerKind, TriggerState
from tickwheel_admin.domain.trigger_json import spec_from_json
from tickwheel_admin.store.batch import update_rows
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.index_hints import reading, unindexed
from tickwheel_admin.store.runs import insert_fires
from tickwheel_admin.store.tables import bucket, job, run, trigger

# Admins plan side by side, each one bucket at a time. More buckets would only mean more look-ups.
BUCKETS = 16


def bucket_of(trigger_id: int) -> int:
    """The bucket a new trigger belongs to."""
    return trigger_id % BUCKETS


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrigger:
    """A trigger's fires, and how it stands after them."""

    trigger_id: int
    version: int  # as it was read; an edit in between makes the plan void
    planned_from: int  # its next_fire_at as it was read
    runs: Sequence[Run]
    next_fire_at: int | None
    last_fire_at: int | None
    fires: int  # runs that it brought so far, these included
    calendar_version: int | None  # with which this was computed
    state: TriggerState
    reason: str | None = None


def trigger_from_row(row: Any) -> Trigger:
    """A domain trigger from a row with all columns of the table."""
    return Trigger(
        id=row.id,
        job_id=row.job_id,
        executor_id=row.executor_id,
        bucket=row.bucket,
        spec=spec_from_json(row.spec),
        paused=bool(row.paused),
        state=TriggerState(row.state),
        reason=row.reason,
        next_fire_at=row.next_fire_at,
        last_fire_at=row.last_fire_at,
        version=row.version,
        fires=row.fires,
        calendar_version=row.calendar_version,
    )


def ensure_buckets(conn: sa.Connection) -> None:
    """Create the bucket rows that are missing; a race between two admins is repeated."""
    present = set(conn.execute(sa.select(bucket.c.id)).scalars())
    missing = [
        {"id": number, "planned_at": 0, "planned_by": 0}
        for number in range(BUCKETS)
        if number not in present
    ]
    if missing:
        conn.execute(sa.insert(bucket), missing)


_FIRST_OF_BUCKETS = sa.select(
    bucket.c.id,
    sa.select(sa.func.min(trigger.c.next_fire_at))
    .where(trigger.c.bucket == bucket.c.id)
    .scalar_subquery()
    .label("first_at"),
).order_by(bucket.c.id)


def due_buckets(conn: sa.Connection, *, ahead_ms: int) -> list[tuple[int, int]]:
    """(bucket, how late its first trigger is in ms) of those that are due within `ahead_ms`.

    One index look-up a bucket.
    """
    now = now_ms(conn)
    rows = conn.execute(_FIRST_OF_BUCKETS)
    return [
        (row.id, now - row.first_at)
        for row in rows
        if row.first_at is not None and row.first_at <= now + ahead_ms
    ]


def due_triggers(
    conn: sa.Connection,
    *,
    bucket_id: int,
    after: int,
    until: int,
    limit: int,
    paused: Collection[int] = (),
    now: int,
) -> list[tuple[Trigger, int, int]]:
    """(trigger, when it was created, its job's revision), soonest first; read without a lock.

    Args:
        after: fires at or before this instant are left out.
        paused: executors whose fires are not planned ahead.
    """
    due = [
        trigger.c.bucket == bucket_id,
        trigger.c.next_fire_at > after,
        trigger.c.next_fire_at <= until,
    ]
    if paused:
        due.append(
            sa.or_(trigger.c.executor_id.not_in(sorted(paused)), trigger.c.next_fire_at <= now)
        )
    # The index is named, or MariaDB would start from the jobs and read all triggers of one.
    rows = conn.execute(
        reading(
            sa.select(trigger, job.c.revision)
            .join(job, job.c.id == trigger.c.job_id)
            .where(*due)
            .order_by(trigger.c.next_fire_at)
            .limit(limit),
            trigger,
            "ix_trigger_to_plan",
        )
    )
    return [(trigger_from_row(row), row.created_at, row.revision) for row in rows]


def unarmed_fixed_delays(
    conn: sa.Connection, *, after: int, limit: int
) -> tuple[dict[int, int | None], int]:
    """(fixed-delay triggers that wait for the end of a run and the instant of its fire, trigger id
    to go on from).

    Those of paused jobs are among them: who arms them looks at their jobs.
    Looks at `limit` of the triggers without a next fire; 0 means that there are no more.
    """
    rows = conn.execute(
        reading(
            sa.select(trigger.c.id, trigger.c.spec, trigger.c.last_fire_at)
            .where(
                trigger.c.next_fire_at.is_(None),
                trigger.c.id > after,
                unindexed(trigger.c.state) == TriggerState.ACTIVE.value,
                trigger.c.paused.is_(False),
            )
            .order_by(trigger.c.id)
            .limit(limit),
            trigger,
            "ix_trigger_next",
        )
    ).all()
    found = {
        row.id: row.last_fire_at
        for row in rows
        if spec_from_json(row.spec).kind is TriggerKind.FIXED_DELAY
    }
    return found, rows[-1].id if len(rows) == limit else 0


def states_of_fires(conn: sa.Connection, fires: Mapping[int, int | None]) -> dict[int, RunState]:
    """By trigger, the state of the run of its fire at that instant; one look-up each."""
    found: dict[int, RunState] = {}
    for trigger_id, fired_at in fires.items():
        state = conn.execute(
            reading(
                sa.select(run.c.state)
                .where(run.c.trigger_id == trigger_id, run.c.scheduled_at == fired_at)
                .order_by(run.c.shard_index)  # the whole fire before its shards
                .limit(1),
                run,
                "uq_run_fires_once",
            )
        ).scalar_one_or_none()
        if state is not None:
            found[trigger_id] = RunState(state)
    return found


def plan_due_triggers(
    conn: sa.Connection, *, bucket_id: int, admin_id: int, planned: Sequence[PlannedTrigger]
) -> int | None:
    """Write the fires and advance the triggers; returns how many triggers were planned.

    None: another admin is planning this bucket. Plans whose trigger changed since it was read are
    left out. The bucket's lock is also a write, so it holds on clusters whose locks are local.
    """
    locked = conn.execute(
        sa.select(bucket.c.id).where(bucket.c.id == bucket_id).with_for_update(skip_locked=True)
    ).one_or_none()
    if locked is None:
        return None
    conn.execute(
        sa.update(bucket)
        .where(bucket.c.id == bucket_id)
        .values(planned_at=now_ms(conn), planned_by=admin_id)
    )
    unchanged = {
        (row.id, row.version, row.next_fire_at)
        for row in conn.execute(
            sa.select(trigger.c.id, trigger.c.version, trigger.c.next_fire_at)
            .where(trigger.c.id.in_([plan.trigger_id for plan in planned]))
            .order_by(trigger.c.id)
            .with_for_update()
        )
    }
    valid = [p for p in planned if (p.trigger_id, p.version, p.planned_from) in unchanged]
    insert_fires(conn, [run for plan in valid for run in plan.runs])
    update_rows(
        conn,
        trigger,
        [
            {
                "id": plan.trigger_id,
                "version": plan.version,
                "next_fire_at": plan.next_fire_at,
                "last_fire_at": plan.last_fire_at,
                "fires": plan.fires,
                "calendar_version": plan.calendar_version,
                "state": plan.state.value,
                "reason": plan.reason,
            }
            for plan in valid
        ],
        match=("id", "version"),
        values=("next_fire_at", "last_fire_at", "fires", "calendar_version", "state", "reason"),
    )
    return len(valid)
