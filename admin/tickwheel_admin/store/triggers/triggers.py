"""The triggers of jobs: reading them for people, and changing them with their jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import Trigger, TriggerState
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.tables import job, run, trigger
from tickwheel_admin.store.runs.events.writer import delete_queued
from tickwheel_admin.store.runs.rows import SELECTED_RUN, run_from_selected
from tickwheel_admin.store.self_audit.periods import end_periods
from tickwheel_admin.store.triggers.planning import bucket_of, trigger_from_row

# Shards belong to a whole fire that was claimed, though its instant may be yet to come: when the
# database's clock was set back.
_NEVER_CLAIMED = sa.and_(
    run.c.state == RunState.QUEUED.value, run.c.attempt == 0, run.c.fire_id.is_(None)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrigger:
    """A trigger with the instant that anchors a fixed rate without an anchor of its own."""

    trigger: Trigger
    saved_at: int


def triggers_of_jobs(conn: sa.Connection, job_ids: Sequence[int]) -> dict[int, list[StoredTrigger]]:
    """Triggers by job, in the order in which they were added."""
    found: defaultdict[int, list[StoredTrigger]] = defaultdict(list)
    rows = conn.execute(
        sa.select(trigger).where(trigger.c.job_id.in_(job_ids)).order_by(trigger.c.id)
    )
    for row in rows:
        found[row.job_id].append(stored_trigger(row))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerOfJob(StoredTrigger):
    """A trigger, and whether its job is paused."""

    job_paused: bool


def get_trigger(conn: sa.Connection, trigger_id: int) -> TriggerOfJob | None:
    """A trigger by its id."""
    row = conn.execute(
        sa.select(trigger, job.c.paused.label("job_paused"))
        .join(job, job.c.id == trigger.c.job_id)
        .where(trigger.c.id == trigger_id)
    ).one_or_none()
    if row is None:
        return None
    return TriggerOfJob(
        trigger=trigger_from_row(row),
        saved_at=row.created_at,
        job_paused=bool(row.job_paused),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmedTrigger(StoredTrigger):
    """A trigger that will fire, with the name of its job."""

    job_name: str


def armed_triggers(
    conn: sa.Connection,
    *,
    after: int,
    before_at: int,
    scope: frozenset[int] | None,
    without: Collection[int] = (),
    limit: int,
) -> list[ArmedTrigger]:
    """Triggers that fire before an instant, by id from behind `after`.

    Args:
        scope: of these executors only; None: of all.
        without: executors to leave out.
    """
    statement = (
        sa.select(trigger, job.c.name.label("job_name"))
        .join(job, job.c.id == trigger.c.job_id)
        .where(trigger.c.id > after, unindexed(trigger.c.next_fire_at) < before_at)
        .order_by(trigger.c.id)
        .limit(limit)
    )
    if scope is not None:
        statement = statement.where(trigger.c.executor_id.in_(sorted(scope)))
    if without:
        statement = statement.where(trigger.c.executor_id.not_in(sorted(without)))
    rows = conn.execute(reading(statement, trigger, "PRIMARY"))
    return [
        ArmedTrigger(trigger=trigger_from_row(row), saved_at=row.created_at, job_name=row.job_name)
        for row in rows
    ]


def lock_triggers(conn: sa.Connection, job_id: int) -> list[StoredTrigger]:
    """The job's triggers, locked in ascending order of id; planning them waits."""
    rows = conn.execute(
        sa.select(trigger)
        .where(trigger.c.job_id == job_id)
        .order_by(trigger.c.id)
        .with_for_update()
    )
    return [stored_trigger(row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrigger:
    """A trigger to be added."""

    id: int
    of: Job
    spec: TriggerSpec
    next_fire_at: int | None  # it is planned from then on
    calendar_version: int | None  # of the calendar that its spec names; None: it names none
    created_at: int
    paused: bool = False


def pause_triggers(conn: sa.Connection, trigger_ids: Collection[int]) -> None:
    """Let triggers plan nothing from now on that were added in this transaction."""
    now = now_ms(conn)
    end_periods(conn, trigger_ids, now=now, planned_to_now=False)
    conn.execute(
        sa.update(trigger)
        .where(trigger.c.id.in_(sorted(trigger_ids)))
        .values(paused=True, next_fire_at=None, version=trigger.c.version + 1, since_at=now)
    )


def add_triggers(conn: sa.Connection, new: Sequence[NewTrigger]) -> None:
    """Insert triggers."""
    rows = [
        {
            "id": each.id,
            "job_id": each.of.id,
            "executor_id": each.of.executor_id,
            "bucket": bucket_of(each.id),
            "spec": spec_to_json(each.spec),
            "paused": each.paused,
            "state": TriggerState.ACTIVE.value,
            "next_fire_at": each.next_fire_at,
            "fires": 0,
            "calendar": each.spec.calendar,
            "calendar_version": each.calendar_version,
            "version": 1,
            "created_at": each.created_at,
            "since_at": each.created_at,
            "place_at": each.created_at if each.spec.is_placed else None,
        }
        for each in new
    ]
    if rows:
        insert_rows(conn, trigger, rows, columns=tuple(rows[0]))


def reset_trigger(
    conn: sa.Connection,
    old: Trigger,
    *,
    paused: bool,
    state: TriggerState,
    next_fire_at: int | None,
    last_fire_at: int | None,
    fires: int,
    calendar_version: int | None,
    now: int,
    since_at: int | None = None,
    anchor: int | None = None,
) -> None:
    """Set where planning goes on; plans made from the old version become void.

    What was due until now must be planned.

    Args:
        since_at: instants after this one are planned; None: those after now and the last fire.
        anchor: of a fixed rate without one of its own, instead of when it was saved; None: as it
            is.
    """
    changed = {} if anchor is None else {"created_at": anchor}
    goes_on = (
        not changed
        and since_at is None
        and (old.paused, old.state) == (paused, state)
        and (old.next_fire_at is None) == (next_fire_at is None)
        and (last_fire_at or 0) <= now
        # What a fixed delay fires next would follow none, though there was one.
        and not (old.spec.follows_runs and last_fire_at is None and old.last_fire_at is not None)
    )
    if not goes_on:
        # Only then does the audit need to know: else all that was taken back is planned again.
        last_at = last_fire_at if old.state is TriggerState.COMPLETE else None
        end_periods(conn, [old.id], now=now, planned_to_now=True, last_fire_at=last_at)
        changed["since_at"] = max(now, last_fire_at or 0) if since_at is None else since_at
    conn.execute(
        sa.update(trigger)
        .where(trigger.c.id == old.id)
        .values(
            **changed,
            paused=paused,
            state=state.value,
            reason=None,
            next_fire_at=next_fire_at,
            last_fire_at=last_fire_at,
            fires=fires,
            calendar_version=calendar_version,
            version=old.version + 1,
        )
    )


def delete_triggers(
    conn: sa.Connection, trigger_ids: Sequence[int], *, planned: Collection[int] = (), now: int
) -> None:
    """Remove triggers; they must be locked.

    Args:
        planned: those whose fires up to now are written.
    """
    if trigger_ids:
        done = set(trigger_ids) & set(planned)
        end_periods(conn, done, now=now, planned_to_now=True)
        end_periods(conn, set(trigger_ids) - done, now=now, planned_to_now=False)
        conn.execute(sa.delete(trigger).where(trigger.c.id.in_(sorted(trigger_ids))))


def delete_unclaimed_fires(conn: sa.Connection, trigger_id: int, *, after: int) -> int:
    """Take back fires that were planned ahead for instants after `after`; returns how many."""
    return delete_queued(
        conn,
        sa.and_(run.c.trigger_id == trigger_id, run.c.scheduled_at > after, _NEVER_CLAIMED),
    )


def last_fire_of_trigger(conn: sa.Connection, trigger_id: int) -> int | None:
    """Nominal instant of the newest run of a trigger."""
    return conn.execute(
        sa.select(sa.func.max(run.c.scheduled_at)).where(run.c.trigger_id == trigger_id)
    ).scalar_one_or_none()


def lock_run_of_fire(conn: sa.Connection, trigger_id: int, fired_at: int) -> Run | None:
    """The run of a trigger's fire, locked; of one that is cut into shards, the whole fire."""
    row = conn.execute(
        reading(
            sa.select(*SELECTED_RUN)
            .where(run.c.trigger_id == trigger_id, run.c.scheduled_at == fired_at)
            .order_by(run.c.shard_index)  # the whole fire before its shards
            .limit(1),
            run,
            "uq_run_fires_once",
        ).with_for_update()
    ).one_or_none()
    return None if row is None else run_from_selected(row)


def stored_trigger(row: Any) -> StoredTrigger:
    """A trigger from a row with all columns of the table."""
    return StoredTrigger(trigger=trigger_from_row(row), saved_at=row.created_at)
