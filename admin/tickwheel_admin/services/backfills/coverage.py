"""What became of the intervals of a job's trigger, as far as the ledger tells."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.backfills.coverage import MAX_INTERVALS, Coverage, coverage_of
from tickwheel_admin.domain.backfills.instants import DueInstant, instants_between
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.services.backfills.requests import chosen_trigger, schedule_of
from tickwheel_admin.services.lists.heavy_reads import Breath
from tickwheel_admin.store.backfills.coverage import read_coverage
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.triggers.triggers import StoredTrigger

DAY_MS = 86_400_000
DEFAULT_DAYS = 30
_EVERY = 100  # instants between two breaths


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRequest:
    """Which intervals are asked for: those that end at instants in a time."""

    from_at: int | None = None  # UTC epoch ms; None: `days` back, and no earlier than the job
    until_at: int | None = None  # the first instant that is not wanted; None: now
    trigger_id: int | None = None  # None: the job has only one that goes by the clock
    days: int = DEFAULT_DAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCoverage:
    """The coverage of a trigger."""

    trigger: StoredTrigger
    coverage: Coverage


def trigger_coverage(
    conn: sa.Connection, job: Job, request: CoverageRequest, calendars: CalendarCache
) -> TriggerCoverage:
    """Look at the intervals from the oldest one on; rests in between.

    Instants that the planner has still to write are left out.

    Raises:
        InvalidInput: on until or trigger_id.
    """
    now = now_ms(conn)
    stored = chosen_trigger(conn, job.id, request.trigger_id)
    until_at = now if request.until_at is None else min(request.until_at, now)
    from_at = request.from_at
    if from_at is None:
        # A trigger fires only after it was saved, and not in that instant.
        from_at = max(0, job.created_at + 1, until_at - request.days * DAY_MS)
        from_at = min(from_at, until_at)
    elif request.until_at is not None and request.until_at < from_at:
        raise InvalidInput.one("until", "out_of_range", "This must not be before “from”.")
    planned_to = stored.trigger.next_fire_at
    if planned_to is not None:
        until_at = min(until_at, planned_to)
    until_at = max(from_at, until_at)
    breath = Breath()
    schedule = schedule_of(conn, stored, calendars)
    previous_at = schedule.last_before(from_at)
    instants: list[DueInstant] = []
    next_at: int | None = None
    for at in instants_between(schedule, from_at=from_at, to_at=until_at):
        if len(instants) == MAX_INTERVALS:
            next_at = at
            break
        instants.append(DueInstant(at, previous_at))
        previous_at = at
        if len(instants) % _EVERY == 0:
            breath.take()
    found = read_coverage(conn, job.id, stored.trigger.id, instants, breathe=breath.take)
    if found.cut_at is not None:
        next_at = found.cut_at
    return TriggerCoverage(
        trigger=stored,
        coverage=coverage_of(
            found.intervals,
            from_at=from_at,
            until_at=until_at if next_at is None else next_at,
            more=next_at is not None,
        ),
    )
