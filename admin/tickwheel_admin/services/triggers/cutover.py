"""How the triggers of a job pass from before an edit to after it (G11).

Under the locks of job and triggers: fires that are overdue are planned under the version that stood
when they were due, fires planned ahead that nobody claimed are taken back, and planning goes on
with the first instant after everything that remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.planning.fires import runs_needed, runs_of_plan
from tickwheel_admin.domain.planning.plan import (
    Plan,
    next_after_end,
    next_since,
    plan,
    plan_fixed_delay,
    runs_left,
)
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.triggers.schedule import calendar_of, first_allowed, parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_admin.store.triggers import triggers as job_triggers
from tickwheel_admin.store.triggers.pauses import read_pauses
from tickwheel_admin.store.triggers.triggers import NewTrigger, StoredTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutover:
    """A trigger whose past is written, and where it would go on."""

    stored: StoredTrigger
    next_fire_at: int | None
    last_fire_at: int | None
    fires: int  # runs that it brought and that are not taken back
    calendar_version: int | None  # of the calendar that it follows
    waits_for_run: bool  # a fixed delay: the end of its run says when it fires next
    now: int  # up to where its past is written

    @property
    def id(self) -> int:
        return self.stored.trigger.id


def cut_over(
    conn: sa.Connection, job: Job, run_ids: Sequence[int], *, only: int | None = None
) -> tuple[list[Cutover], int]:
    """Write what is overdue, take back what is ahead; returns the triggers and the time.

    A trigger in error is left out: only its removal, another spec or the calendar that it misses
    changes that.

    Args:
        run_ids: for overdue fires.
        only: the trigger concerned; None: all of the job.

    Raises:
        TooFewIds: there are more of them.
    """
    triggers = job_triggers.lock_triggers(conn, job.id)
    now = now_ms(conn)  # after the locks, so that no fire lies between
    paused_at = read_pauses(conn, [job.executor_id]).of(job.executor_id)
    until = now if paused_at is None else min(now, paused_at)
    ids = iter(run_ids)
    needed = 0
    cutovers = []
    if only is not None:
        triggers = [stored for stored in triggers if stored.trigger.id == only]
    named = (stored.trigger.spec.calendar for stored in triggers)
    calendars = read_calendars(conn, {name for name in named if name is not None})
    for stored in triggers:
        followed = _followed(stored, calendars)
        if followed is None:
            continue
        back = job_triggers.delete_unclaimed_fires(conn, stored.trigger.id, after=now)
        overdue = _overdue(stored, followed, until=until, back=back)
        if overdue is not None:
            needed += runs_needed(overdue)
            if needed <= len(run_ids):
                _write(conn, job, stored, overdue, ids, now=now)
        cutovers.append(_cutover(conn, stored, followed, overdue, now=now, back=back))
    if needed > len(run_ids):
        raise TooFewIds(needed)
    return cutovers, now


def rearm(conn: sa.Connection, cutover: Cutover, *, job_paused: bool, paused: bool) -> None:
    """Plan the trigger from where its past ends; nothing while it or its job is paused.

    Args:
        paused: whether the trigger itself is, from now on.
    """
    over = cutover.next_fire_at is None and not cutover.waits_for_run
    job_triggers.reset_trigger(
        conn,
        cutover.stored.trigger,
        paused=paused,
        state=TriggerState.COMPLETE if over else TriggerState.ACTIVE,
        next_fire_at=None if job_paused or paused else cutover.next_fire_at,
        last_fire_at=cutover.last_fire_at,
        fires=cutover.fires,
        calendar_version=cutover.calendar_version,
        now=cutover.now,
    )


def add_triggers(
    conn: sa.Connection,
    job: Job,
    specs: Sequence[TriggerSpec],
    *,
    trigger_ids: Sequence[int],
    calendars: Mapping[str, Calendar],
    now: int,
) -> None:
    """Add triggers that are planned from their first instant on.

    Args:
        calendars: those that they name.

    Raises:
        InvalidInput: trigger.never_fires.
    """
    job_triggers.add_triggers(
        conn, new_triggers(job, specs, trigger_ids=trigger_ids, calendars=calendars, now=now)
    )


def new_triggers(
    job: Job,
    specs: Sequence[TriggerSpec],
    *,
    trigger_ids: Sequence[int],
    calendars: Mapping[str, Calendar],
    now: int,
) -> list[NewTrigger]:
    """The triggers that `add_triggers` adds; raises likewise."""
    new = []
    for trigger_id, spec in zip(trigger_ids, specs, strict=False):
        calendar = calendar_of(spec, calendars)
        # A fixed delay without a first delay fires at once.
        since = now - 1 if spec.follows_runs else now
        first_at = parse(spec, saved_at=now, calendar=calendar).next_after(since)
        if first_at is None:
            raise InvalidInput.one(
                f"triggers[{job.config.triggers.index(spec.as_written())}]",
                "trigger.never_fires",
                "This lies in the past and would never fire.",
            )
        new.append(
            NewTrigger(
                id=trigger_id,
                of=job,
                spec=spec,
                next_fire_at=None if job.paused else first_at,
                calendar_version=None if calendar is None else calendar.version,
                created_at=now,
            )
        )
    return new


@dataclass(frozen=True, slots=True)
class _Followed:
    """What a trigger goes by: its schedule, and its calendar if it names one."""

    schedule: Schedule
    calendar: Calendar | None


def _followed(stored: StoredTrigger, calendars: Mapping[str, Calendar]) -> _Followed | None:
    """None: it cannot be computed."""
    spec = stored.trigger.spec
    try:
        calendar = calendar_of(spec, calendars)
        return _Followed(parse(spec, saved_at=stored.saved_at, calendar=calendar), calendar)
    except ScheduleError:
        return None


def _overdue(stored: StoredTrigger, followed: _Followed, *, until: int, back: int) -> Plan | None:
    trigger, calendar = stored.trigger, followed.calendar
    next_fire_at = trigger.next_fire_at
    if next_fire_at is None:
        return None
    if calendar is not None and trigger.calendar_version != calendar.version:
        since = calendar.changed_at
        next_fire_at = next_since(followed.schedule, trigger, since=since, calendar=calendar)
    left = runs_left(trigger.spec, trigger.fires - back)
    if next_fire_at is None or next_fire_at > until or left == 0:
        return None
    # What a pause holds back is neither due nor missed: it ends where the pause began.
    if trigger.spec.follows_runs:
        return plan_fixed_delay(
            trigger.spec, next_fire_at=next_fire_at, now=until, paused_at=None, fires=trigger.fires
        )
    return plan(
        followed.schedule,
        next_fire_at=next_fire_at,
        now=until,
        until=until,
        misfire=trigger.spec.misfire,
        threshold_ms=trigger.spec.misfire_threshold_ms,
        catch_up_limit=trigger.spec.catch_up_limit,
        left=left,
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


def _cutover(
    conn: sa.Connection,
    stored: StoredTrigger,
    followed: _Followed,
    overdue: Plan | None,
    *,
    now: int,
    back: int,
) -> Cutover:
    trigger = stored.trigger
    fires = trigger.fires - back + (0 if overdue is None else overdue.runs)
    calendar = followed.calendar
    cutover = Cutover(
        stored=stored,
        next_fire_at=None,
        last_fire_at=trigger.last_fire_at,
        fires=fires,
        calendar_version=None if calendar is None else calendar.version,
        waits_for_run=False,
        now=now,
    )
    if trigger.spec.follows_runs:
        written = () if overdue is None else (*overdue.caught_up, *overdue.fires)
        fired_at = written[-1] if written else trigger.last_fire_at
        return _delay_cutover(conn, cutover, followed, fired_at, now=now)
    last_at = job_triggers.last_fire_of_trigger(conn, trigger.id)
    over = runs_left(trigger.spec, fires) == 0
    return replace(
        cutover,
        next_fire_at=None if over else followed.schedule.next_after(max(now, last_at or 0)),
        last_fire_at=last_at,
    )


def _delay_cutover(
    conn: sa.Connection, cutover: Cutover, followed: _Followed, fired_at: int | None, *, now: int
) -> Cutover:
    """A fixed delay goes on after the end of its last run, or waits for that end.

    That is the run of its last fire, and not the latest of its runs: the database's clock may have
    been set back since others were planned.

    The run is locked: should it end at this moment, either its end is seen here, or what follows
    from its end sees what is written here.
    """
    trigger, spec, calendar = cutover.stored.trigger, cutover.stored.trigger.spec, followed.calendar
    last = None if fired_at is None else job_triggers.lock_run_of_fire(conn, cutover.id, fired_at)
    if last is not None:
        cutover = replace(cutover, last_fire_at=last.scheduled_at)
        if last.state not in FINAL:
            return replace(cutover, waits_for_run=runs_left(spec, cutover.fires) != 0)
        # When the delay is over, at once.
        ended_at = max(min(last.ended_at or now, now), now - spec.delay_ms)
        next_at = next_after_end(spec, ended_at=ended_at, fires=cutover.fires, calendar=calendar)
        return replace(cutover, next_fire_at=next_at)
    if fired_at is not None and fired_at > now:
        first_at = fired_at  # it was planned ahead, and has just been taken back
    else:
        first_at = trigger.next_fire_at or followed.schedule.next_after(now) or now
    next_at = first_allowed(spec, max(now, first_at), calendar=calendar)
    if runs_left(spec, cutover.fires) == 0:
        next_at = None
    return replace(cutover, next_fire_at=next_at, last_fire_at=None)
