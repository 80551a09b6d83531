"""How the triggers of a job pass from before an edit to after it (G11).

Under the locks of job and triggers: fires that are overdue are planned under the version that stood
when they were due, fires planned ahead that nobody claimed are taken back, and planning goes on
with the first instant after everything that remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fires import runs_needed, runs_of_plan
from tickwheel_admin.domain.job import Job
from tickwheel_admin.domain.planning import Plan, plan
from tickwheel_admin.domain.run import FINAL
from tickwheel_admin.domain.schedule import Schedule, ScheduleError, parse
from tickwheel_admin.domain.trigger import TriggerKind, TriggerSpec, TriggerState
from tickwheel_admin.store import job_triggers
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.ids import MoreIds
from tickwheel_admin.store.job_triggers import StoredTrigger
from tickwheel_admin.store.pauses import read_pauses
from tickwheel_admin.store.runs import insert_fires


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A trigger whose past is written, and where it would go on."""

    stored: StoredTrigger
    next_fire_at: int | None
    last_fire_at: int | None
    waits_for_run: bool  # a fixed delay: the end of its run says when it fires next

    @property
    def id(self) -> int:
        return self.stored.trigger.id


def settle(
    conn: sa.Connection, job: Job, run_ids: Sequence[int], *, only: int | None = None
) -> tuple[list[Settled], int]:
    """Write what is overdue, take back what is ahead; returns the triggers and the time.

    A trigger in error is left out: only its removal or another spec changes that.

    Args:
        run_ids: for overdue fires.
        only: the trigger concerned; None: all of the job.

    Raises:
        MoreIds: there are more of them.
    """
    triggers = job_triggers.lock_triggers(conn, job.id)
    now = now_ms(conn)  # after the locks, so that no fire lies between
    paused_at = read_pauses(conn, [job.executor_id]).of(job.executor_id)
    until = now if paused_at is None else min(now, paused_at)
    ids = iter(run_ids)
    needed = 0
    settled = []
    for stored in triggers:
        if only is not None and stored.trigger.id != only:
            continue
        try:
            schedule = parse(stored.trigger.spec, saved_at=stored.saved_at)
        except ScheduleError:
            continue
        job_triggers.delete_unclaimed_fires(conn, stored.trigger.id, after=now)
        overdue = _overdue(stored, schedule, now=now, until=until)
        if overdue is not None:
            needed += runs_needed(overdue)
            if needed <= len(run_ids):
                _write(conn, job, stored, overdue, ids, now=now)
        settled.append(_settled(conn, stored, schedule, overdue, now=now))
    if needed > len(run_ids):
        raise MoreIds(needed)
    return settled, now


def go_on(conn: sa.Connection, settled: Settled, *, job_paused: bool, paused: bool) -> None:
    """Plan the trigger from where its past ends; nothing while it or its job is paused.

    Args:
        paused: whether the trigger itself is, from now on.
    """
    over = settled.next_fire_at is None and not settled.waits_for_run
    job_triggers.reset_trigger(
        conn,
        settled.stored.trigger,
        paused=paused,
        state=TriggerState.COMPLETE if over else TriggerState.ACTIVE,
        next_fire_at=None if job_paused or paused else settled.next_fire_at,
        last_fire_at=settled.last_fire_at,
    )


def add_triggers(
    conn: sa.Connection,
    job: Job,
    specs: Sequence[TriggerSpec],
    *,
    trigger_ids: Sequence[int],
    now: int,
) -> None:
    """Add triggers that are planned from their first instant on.

    Raises:
        InvalidInput: trigger.never_fires.
    """
    for trigger_id, spec in zip(trigger_ids, specs, strict=False):
        first_at = parse(spec, saved_at=now).next_after(now)
        if first_at is None:
            raise InvalidInput.one(
                f"triggers[{job.config.triggers.index(spec)}]",
                "trigger.never_fires",
                "This lies in the past and would never fire.",
            )
        job_triggers.add_trigger(
            conn,
            spec,
            trigger_id=trigger_id,
            of=job,
            next_fire_at=None if job.paused else first_at,
            now=now,
        )


def _overdue(stored: StoredTrigger, schedule: Schedule, *, now: int, until: int) -> Plan | None:
    trigger = stored.trigger
    if trigger.next_fire_at is None or trigger.next_fire_at > until:
        return None
    return plan(
        schedule,
        next_fire_at=trigger.next_fire_at,
        # What a pause holds back is neither due nor missed: it ends where the pause began.
        now=until,
        until=until,
        misfire=trigger.spec.misfire,
        threshold_ms=trigger.spec.misfire_threshold_ms,
        catch_up_limit=trigger.spec.catch_up_limit,
    )


def _write(
    conn: sa.Connection,
    job: Job,
    stored: StoredTrigger,
    overdue: Plan,
    ids: Iterator[int],
    *,
    now: int,
) -> None:
    runs = runs_of_plan(
        overdue, stored.trigger, job.config, revision=job.revision, now=now, ids=ids
    )
    insert_fires(conn, runs)


def _settled(
    conn: sa.Connection,
    stored: StoredTrigger,
    schedule: Schedule,
    overdue: Plan | None,
    *,
    now: int,
) -> Settled:
    if stored.trigger.spec.kind is TriggerKind.FIXED_DELAY:
        written = () if overdue is None else (*overdue.caught_up, *overdue.fires)
        fired_at = written[-1] if written else stored.trigger.last_fire_at
        return _settled_delay(conn, stored, schedule, fired_at, now=now)
    last_at = job_triggers.last_fire_of_trigger(conn, stored.trigger.id)
    return Settled(
        stored=stored,
        next_fire_at=schedule.next_after(max(now, last_at or 0)),
        last_fire_at=last_at,
        waits_for_run=False,
    )


def _settled_delay(
    conn: sa.Connection,
    stored: StoredTrigger,
    schedule: Schedule,
    fired_at: int | None,
    *,
    now: int,
) -> Settled:
    """A fixed delay goes on after the end of its last run, or waits for that end.

    That is the run of its last fire, and not the latest of its runs: the database's clock may have
    been set back since others were planned.

    The run is locked: should it end at this moment, either its end is seen here, or what follows
    from its end sees what is written here.
    """
    trigger_id = stored.trigger.id
    last = None if fired_at is None else job_triggers.lock_run_of_fire(conn, trigger_id, fired_at)
    every_ms = stored.trigger.spec.every_ms or 0
    waits = last is not None and last.state not in FINAL
    if last is not None:
        next_at = max(now, min(last.ended_at or now, now) + every_ms)
    elif fired_at is not None and fired_at > now:
        next_at = fired_at  # it was planned ahead, and has just been taken back
    else:
        next_at = stored.trigger.next_fire_at or schedule.next_after(now) or now
        next_at = max(now, next_at)
    return Settled(
        stored=stored,
        next_fire_at=None if waits else next_at,
        last_fire_at=None if last is None else last.scheduled_at,
        waits_for_run=waits,
    )
