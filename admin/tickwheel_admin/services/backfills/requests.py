"""What somebody asks to be run again, and which instants that means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.backfills.backfill import (
    MAX_INSTANTS,
    MAX_OPEN_OF_JOB,
    MAX_PARALLEL,
)
from tickwheel_admin.domain.backfills.instants import DueInstant, all_instants
from tickwheel_admin.domain.backfills.runs import parameters_of
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.input.job import parse_parameters
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse
from tickwheel_admin.services.lists.heavy_reads import Breath
from tickwheel_admin.services.runs.parameters import check_run_parameters
from tickwheel_admin.store.backfills.backfills import count_open_of_job
from tickwheel_admin.store.backfills.coverage import not_holes
from tickwheel_admin.store.backfills.existing import count_existing
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.triggers.triggers import StoredTrigger, triggers_of_jobs

_EVERY = 100  # instants between two breaths
_LOOKED_AT = 1_000  # instants whose coverage is read at once


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """Which fires of a job are wanted, and how they are run."""

    from_at: int  # UTC epoch ms
    to_at: int  # the first instant that is not wanted; now at the latest
    trigger_id: int | None = None  # None: the job has only one that goes by the clock
    newest_first: bool = False
    # Intervals that nothing covers, also those whose run failed; without: what has no run.
    only_holes: bool = False
    parallel: int = 1  # most runs that have not ended
    parameters: str | None = None  # JSON object over those of job and trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPreview:
    """What a backfill would do if it were started now."""

    trigger: StoredTrigger
    to_at: int  # as asked for, or before what the planner has still to write
    total: int  # instants; at most MAX_INSTANTS
    existing: int  # of these, those that are not run: they have a run already, or are no holes
    first_at: int | None  # None: there is no instant
    last_at: int | None

    @property
    def new(self) -> int:
        """Instants that would be run."""
        return self.total - self.existing


def checked_request(request: BackfillRequest) -> BackfillRequest:
    """The request with its parameters as they are stored.

    Raises:
        InvalidInput: what can be seen to be wrong without the job.
    """
    if request.to_at <= request.from_at:
        raise InvalidInput.one(
            "to", "backfill.empty_range", "Choose an end that is after the beginning."
        )
    if not 1 <= request.parallel <= MAX_PARALLEL:
        raise InvalidInput.one(
            "parallel",
            "out_of_range",
            "This must lie between %(low)s and %(high)s.",
            low=1,
            high=MAX_PARALLEL,
        )
    if request.parameters is None:
        return request
    return replace(request, parameters=parse_parameters(request.parameters))


def preview_of(
    conn: sa.Connection, job: Job, request: BackfillRequest, calendars: CalendarCache
) -> BackfillPreview:
    """Count what is wanted; computes for long, so it rests in between.

    Raises:
        InvalidInput: the trigger, the range, too many instants, or the parameters.
    """
    now = now_ms(conn)
    stored = chosen_trigger(conn, job.id, request.trigger_id)
    request = within_past(request, stored, now=now)
    spec = stored.trigger.spec
    check_run_parameters(conn, job, parameters_of(job, spec, request.parameters))
    schedule = schedule_of(conn, stored, calendars)
    instants: list[int] = []
    breath = Breath()
    for at in all_instants(schedule, from_at=request.from_at, to_at=request.to_at):
        instants.append(at)
        if len(instants) % _EVERY == 0:
            breath.take()
    if len(instants) > MAX_INSTANTS:
        raise InvalidInput.one(
            "from",
            "backfill.too_many",
            "These are more than %(limit)d instants; choose a shorter time.",
            limit=MAX_INSTANTS,
        )
    if request.only_holes:
        existing = _count_no_holes(conn, stored, schedule, instants, breath)
    else:
        existing = count_existing(conn, job.id, stored.trigger.id, instants, breathe=breath.take)
    return BackfillPreview(
        trigger=stored,
        to_at=request.to_at,
        total=len(instants),
        existing=existing,
        first_at=instants[0] if instants else None,
        last_at=instants[-1] if instants else None,
    )


def schedule_of(conn: sa.Connection, stored: StoredTrigger, calendars: CalendarCache) -> Schedule:
    """The schedule of a trigger with its calendar as it is now; raises InvalidInput."""
    spec = stored.trigger.spec
    try:
        calendar = calendar_of(spec, calendars.get_many(conn, [spec.calendar]))
        return parse(spec, saved_at=stored.saved_at, calendar=calendar)
    except ScheduleError as error:
        raise InvalidInput.one(
            "trigger_id",
            "backfill.no_schedule",
            "The schedule of this trigger cannot be computed: %(why)s",
            why=str(error),
        ) from None


def _count_no_holes(
    conn: sa.Connection,
    stored: StoredTrigger,
    schedule: Schedule,
    instants: Sequence[int],
    breath: Breath,
) -> int:
    """How many of these instants a backfill of holes leaves."""
    count = 0
    previous_at = schedule.last_before(instants[0]) if instants else None
    for first in range(0, len(instants), _LOOKED_AT):
        due: list[DueInstant] = []
        for at in instants[first : first + _LOOKED_AT]:
            due.append(DueInstant(at, previous_at))
            previous_at = at
        count += len(not_holes(conn, stored.trigger.job_id, stored.trigger.id, due))
        breath.take()
    return count


def chosen_trigger(conn: sa.Connection, job_id: int, trigger_id: int | None) -> StoredTrigger:
    """The trigger that is meant; raises InvalidInput."""
    triggers = triggers_of_jobs(conn, [job_id]).get(job_id, [])
    by_the_clock = [each for each in triggers if not each.trigger.spec.follows_runs]
    if trigger_id is not None:
        for each in triggers:
            if each.trigger.id == trigger_id and each in by_the_clock:
                return each
            if each.trigger.id == trigger_id:
                raise InvalidInput.one(
                    "trigger_id",
                    "backfill.fixed_delay",
                    "A fixed delay has no instants in the past: the end of each run says when it"
                    " fires next.",
                )
        raise InvalidInput.one(
            "trigger_id", "backfill.unknown_trigger", "The job has no such trigger."
        )
    if not by_the_clock:
        raise InvalidInput.one(
            "trigger_id",
            "backfill.no_trigger",
            "The job has no trigger that goes by the clock, so it has no instants in the past."
            " Add one; it may be paused.",
        )
    if len(by_the_clock) > 1:
        raise InvalidInput.one(
            "trigger_id",
            "backfill.which_trigger",
            "The job has several triggers; choose one: %(triggers)s.",
            triggers=", ".join(_told(each) for each in by_the_clock),
        )
    return by_the_clock[0]


def _told(stored: StoredTrigger) -> str:
    """Its id, with what it is known by."""
    spec = stored.trigger.spec
    what = spec.expression if isinstance(spec, CronSpec) else None
    return f"{stored.trigger.id} ({what or spec.kind})"


def no_instant(seen: BackfillPreview) -> InvalidInput:
    """What to say of a time without instants."""
    spec = seen.trigger.trigger.spec
    if spec.counts_from_save and spec.start_at is None:
        return InvalidInput.one(
            "from",
            "backfill.no_instant",
            "The trigger has no instant in this time: a fixed rate counts from when it was saved."
            " Give it an anchor in the past.",
        )
    return InvalidInput.one(
        "from", "backfill.no_instant", "The trigger has no instant in this time."
    )


def within_past(request: BackfillRequest, stored: StoredTrigger, *, now: int) -> BackfillRequest:
    """Without what the planner has still to write; raises InvalidInput for what is to come."""
    if request.to_at > now:
        raise InvalidInput.one(
            "to", "backfill.not_past", "A backfill is of the past: choose an end up to now."
        )
    planned_to = stored.trigger.next_fire_at
    if planned_to is not None and planned_to < request.to_at:
        return replace(request, to_at=max(planned_to, request.from_at))
    return request


def check_unchanged(conn: sa.Connection, job_id: int, seen: BackfillPreview) -> None:
    """Refuse to start what was counted for a trigger that somebody changes just now.

    Raises:
        Conflict: backfill.trigger_changed.
    """
    was = seen.trigger
    for each in triggers_of_jobs(conn, [job_id]).get(job_id, []):
        same = each.trigger.spec == was.trigger.spec and each.saved_at == was.saved_at
        if each.trigger.id == was.trigger.id and same:
            return
    raise Conflict(
        "backfill.trigger_changed",
        "The trigger was changed at the same moment. Look at the preview, and start again.",
    )


def check_open(conn: sa.Connection, job_id: int) -> None:
    """Refuse one more than a job may have open.

    Raises:
        Conflict: backfill.too_many_open.
    """
    if count_open_of_job(conn, job_id) >= MAX_OPEN_OF_JOB:
        raise Conflict(
            "backfill.too_many_open",
            "The job has %(limit)d backfills that run or are paused. Wait for one to end, or"
            " cancel one.",
            limit=MAX_OPEN_OF_JOB,
        )
