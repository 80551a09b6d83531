"""Due triggers, and planning them: fires and the advance in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.run_signals import signals_of_skipped
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.domain.triggers.trigger import Trigger, TriggerState
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database.batch import update_values
from tickwheel_admin.store.database.clock import database_now, now_ms
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.facts import BatchStep, facts_of
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.tables import bucket, job, run, trigger
from tickwheel_admin.store.runs.inserts import insert_fires

# Admins plan side by side, each some buckets at a time. More would only mean more look-ups.
BUCKETS = 16


def bucket_of(trigger_id: int) -> int:
    """The bucket a new trigger belongs to."""
    return trigger_id % BUCKETS


class PlannedTrigger(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A trigger's fires, and how it stands after them."""

    trigger_id: int
    bucket: int
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


_FIRST = sa.select(sa.func.min(trigger.c.next_fire_at))


def first_fire_at(conn: sa.Connection) -> int | None:
    """The soonest next fire of all triggers; one index look-up."""
    return conn.execute(_FIRST).scalar_one_or_none()


_FIRST_OF_BUCKETS = sa.select(
    bucket.c.id,
    # Not min(): in a subquery MariaDB reads the whole bucket for it, and not its first entry only.
    reading(
        sa.select(trigger.c.next_fire_at)
        .where(trigger.c.bucket == bucket.c.id, trigger.c.next_fire_at.is_not(None))
        .order_by(trigger.c.next_fire_at)
        .limit(1),
        trigger,
        "ix_trigger_to_plan",
    )
    .scalar_subquery()
    .label("first_at"),
).order_by(bucket.c.id)


def due_buckets(conn: sa.Connection, *, now: int, ahead_ms: int) -> list[tuple[int, int]]:
    """(bucket, how late its first trigger is in ms) of those that are due within `ahead_ms`.

    One index look-up a bucket.
    """
    return [
        (bucket_id, now - first_at)
        for bucket_id, first_at in conn.execute(_FIRST_OF_BUCKETS)
        if first_at is not None and first_at <= now + ahead_ms
    ]


@lru_cache(maxsize=4)  # making a statement costs more than SQLAlchemy's cache saves
def _due_triggers(*, of_bucket: bool, beside_paused: bool) -> sa.Select[Any]:
    statement = (
        sa.select(
            trigger.c.id,
            trigger.c.job_id,
            trigger.c.executor_id,
            trigger.c.bucket,
            trigger.c.spec,
            trigger.c.next_fire_at,
            trigger.c.last_fire_at,
            trigger.c.version,
            trigger.c.fires,
            trigger.c.calendar_version,
            trigger.c.created_at,
            job.c.revision,
        )
        .join(job, job.c.id == trigger.c.job_id)
        .where(
            trigger.c.next_fire_at > sa.bindparam("after"),
            trigger.c.next_fire_at <= sa.bindparam("until"),
        )
        .order_by(trigger.c.next_fire_at)
        .limit(sa.bindparam("count"))
    )
    if beside_paused:
        is_paused = trigger.c.executor_id.in_(sa.bindparam("paused", expanding=True))
        is_due = trigger.c.next_fire_at <= sa.bindparam("now")
        statement = statement.where(sa.or_(sa.not_(is_paused), is_due))
    if of_bucket:
        statement = statement.where(trigger.c.bucket == sa.bindparam("bucket"))
    # The index is named, or MariaDB would start from the jobs and read all triggers of one.
    return reading(statement, trigger, "ix_trigger_to_plan" if of_bucket else "ix_trigger_next")


def due_triggers(
    conn: sa.Connection,
    *,
    bucket_id: int | None,
    after: int,
    until: int,
    limit: int,
    paused: Collection[int] = (),
    now: int,
) -> list[tuple[Trigger, int, int]]:
    """(trigger, when it was created, its job's revision), soonest first; read without a lock.

    Args:
        bucket_id: None: of all buckets.
        after: fires at or before this instant are left out.
        paused: executors whose fires are not planned ahead.
    """
    given: dict[str, object] = {"after": after, "until": until, "count": limit}
    if bucket_id is not None:
        given["bucket"] = bucket_id
    if paused:
        given |= {"paused": sorted(paused), "now": now}
    statement = _due_triggers(of_bucket=bucket_id is not None, beside_paused=bool(paused))
    return [_due_trigger(*row) for row in conn.execute(statement, given)]


def _due_trigger(
    trigger_id: int,
    job_id: int,
    executor_id: int,
    bucket_id: int,
    spec: str,
    next_fire_at: int,
    last_fire_at: int | None,
    version: int,
    fires: int,
    calendar_version: int | None,
    created_at: int,
    revision: int,
) -> tuple[Trigger, int, int]:
    due = Trigger(
        id=trigger_id,
        job_id=job_id,
        executor_id=executor_id,
        bucket=bucket_id,
        spec=spec_from_json(spec),
        paused=False,  # or it would have no next fire
        state=TriggerState.ACTIVE,
        reason=None,
        next_fire_at=next_fire_at,
        last_fire_at=last_fire_at,
        version=version,
        fires=fires,
        calendar_version=calendar_version,
    )
    return due, created_at, revision


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
    found = {row.id: row.last_fire_at for row in rows if spec_from_json(row.spec).follows_runs}
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


_LOCK_BUCKETS = (
    sa.select(bucket.c.id)
    .where(among(bucket.c.id, "ids"))
    .order_by(bucket.c.id)
    .with_for_update(skip_locked=True)
)
_WRITE_BUCKETS = (
    sa.update(bucket)
    .where(among(bucket.c.id, "ids"))
    .values(planned_at=database_now(), planned_by=sa.bindparam("admin"))
)
_LOCK_TRIGGERS = (
    sa.select(trigger.c.id, trigger.c.version, trigger.c.next_fire_at)
    .where(among(trigger.c.id, "ids"))
    .order_by(trigger.c.id)
    .with_for_update()
)


def plan_due_triggers(
    conn: sa.Connection, *, admin_id: int, planned: Sequence[PlannedTrigger]
) -> int:
    """Write the fires and advance the triggers; returns how many triggers were planned.

    Left out are those of buckets that another admin is planning, and plans whose trigger changed
    since it was read. The lock of a bucket is also a write, so it holds on clusters whose locks are
    local.
    """
    buckets = sorted({plan.bucket for plan in planned})
    locked = set(conn.execute(_LOCK_BUCKETS, {"ids": buckets}).scalars())
    if not locked:
        return 0
    conn.execute(_WRITE_BUCKETS, {"ids": sorted(locked), "admin": admin_id})
    if len(locked) < len(buckets):
        planned = [plan for plan in planned if plan.bucket in locked]
    rows = conn.execute(_LOCK_TRIGGERS, {"ids": [plan.trigger_id for plan in planned]})
    unchanged = set(map(tuple, rows))
    valid = [p for p in planned if (p.trigger_id, p.version, p.planned_from) in unchanged]
    runs = [run for plan in valid for run in plan.runs]
    insert_fires(conn, runs)
    _advance(conn, valid)
    _signal(conn, valid)
    facts = facts_of(conn)
    facts.planned.append(runs)
    facts.batches.append((BatchStep.PLANNING, len(valid)))
    return len(valid)


def _signal(conn: sa.Connection, planned: Sequence[PlannedTrigger]) -> None:
    """Tell alarms of triggers in error, and of missed fires that nothing makes up for."""
    broken = [plan for plan in planned if plan.state is TriggerState.ERROR]
    missed = [
        run
        for plan in planned
        if plan.runs and not any(_makes_up(run) for run in plan.runs)
        for run in plan.runs[:1]  # the summary of missed fires comes first
        if run.state is RunState.SKIPPED
    ]
    if not broken and not missed:  # nearly always
        return
    now = now_ms(conn)
    signals = signals_of_skipped(missed, now=now)
    for plan in broken:
        signals.append(
            AlarmSignal(
                kind=AlarmKind.TRIGGER_ERROR,
                subject_id=plan.trigger_id,
                number=plan.version,
                at=now,
                text=plan.reason,
            )
        )
    add_signals(conn, signals)


def _makes_up(run: Run) -> bool:
    return run.origin is Origin.MISFIRE and run.state is not RunState.SKIPPED


def _advance(conn: sa.Connection, planned: Sequence[PlannedTrigger]) -> None:
    update_values(
        conn,
        trigger,
        [
            (
                plan.trigger_id,
                plan.version,
                plan.next_fire_at,
                plan.last_fire_at,
                plan.fires,
                plan.calendar_version,
                plan.state.value,
                plan.reason,
            )
            for plan in planned
        ],
        match=("id", "version"),
        values=("next_fire_at", "last_fire_at", "fires", "calendar_version", "state", "reason"),
    )
