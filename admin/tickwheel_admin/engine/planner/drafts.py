"""Plan drafts: what planning the due triggers would write, computed outside any lock.

When a plan is written, `store.triggers.planning` checks that the trigger is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import runs_needed, runs_of_plan
from tickwheel_admin.domain.planning.plan import (
    Plan,
    next_since,
    plan,
    plan_fixed_delay,
    runs_left,
)
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse
from tickwheel_admin.domain.triggers.spec import MISFIRE_THRESHOLD_MS
from tickwheel_admin.domain.triggers.trigger import Trigger, TriggerState
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.triggers.pauses import read_pauses
from tickwheel_admin.store.triggers.planning import PlannedTrigger, due_triggers

log = structlog.get_logger(__name__)


class PlanDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger and its plan, before its runs get ids."""

    trigger: Trigger
    next_fire_at: int
    revision: int
    config: JobConfig
    now: int
    calendar: Calendar | None  # the one that it follows, if it exists
    plan: Plan | None  # None: its schedule cannot be computed, `reason` says why
    reason: str | None = None

    @property
    def ids_needed(self) -> int:
        return 0 if self.plan is None else runs_needed(self.plan)


def draft_due_triggers(
    conn: sa.Connection,
    configs: JobConfigs,
    calendars: CalendarCache,
    *,
    bucket_id: int | None,
    overdue: bool,
    now: int,
    ahead_ms: int,
    limit: int,
) -> list[PlanDraft]:
    """Read due triggers, soonest first, and compute their fires.

    Args:
        bucket_id: None: of all buckets.
        overdue: those that are later than the misfire threshold; False: those that are not.
        ahead_ms: how long before their instants fires are planned.
    """
    pauses = read_pauses(conn)
    late = now - MISFIRE_THRESHOLD_MS
    # While everything is paused nothing is planned ahead, so that resuming takes effect at once.
    until = now if pauses.everything is not None else now + ahead_ms
    due = due_triggers(
        conn,
        bucket_id=bucket_id,
        after=0 if overdue else late,
        until=late if overdue else until,
        limit=limit,
        paused=pauses.executors,
        now=now,
    )
    known = configs.get_many(conn, {(t.job_id, revision) for t, _, revision in due})
    followed = calendars.get_many(conn, {t.spec.calendar for t, _, _ in due})
    drafts = []
    for trigger, saved_at, revision in due:
        found, reason = None, None
        try:
            found = _plan(
                trigger,
                followed,
                saved_at=saved_at,
                paused_at=pauses.of(trigger.executor_id),
                now=now,
                until=now + ahead_ms,
            )
        except ScheduleError as error:
            reason = str(error)
            log.error("trigger.schedule_error", trigger_id=trigger.id, reason=reason)
        draft = PlanDraft(
            trigger=trigger,
            next_fire_at=trigger.next_fire_at or now,
            revision=revision,
            config=known[trigger.job_id, revision],
            now=now,
            calendar=followed.get(trigger.spec.calendar or ""),
            plan=found,
            reason=reason,
        )
        drafts.append(draft)
    return drafts


def _plan(
    trigger: Trigger,
    followed: Mapping[str, Calendar],
    *,
    saved_at: int,
    paused_at: int | None,
    now: int,
    until: int,
) -> Plan:
    spec = trigger.spec
    calendar = calendar_of(spec, followed)
    schedule = parse(spec, saved_at=saved_at, calendar=calendar)
    next_fire_at: int | None = trigger.next_fire_at or now
    if calendar is not None and trigger.calendar_version != calendar.version:
        since = calendar.changed_at
        next_fire_at = next_since(schedule, trigger, since=since, calendar=calendar)
    left = runs_left(spec, trigger.fires)
    if next_fire_at is None or left == 0:
        return Plan(missed=None, caught_up=(), fires=(), next_fire_at=None)
    if next_fire_at > until:
        return Plan(missed=None, caught_up=(), fires=(), next_fire_at=next_fire_at)
    if spec.follows_runs:
        return plan_fixed_delay(
            spec,
            next_fire_at=next_fire_at,
            now=now,
            paused_at=paused_at,
            fires=trigger.fires,
            calendar=calendar,
        )
    return plan(
        schedule,
        next_fire_at=next_fire_at,
        now=now,
        until=until,
        misfire=spec.misfire,
        threshold_ms=spec.misfire_threshold_ms,
        catch_up_limit=spec.catch_up_limit,
        paused_at=paused_at,
        left=left,
    )


def planned_trigger(draft: PlanDraft, ids: Iterator[int]) -> PlannedTrigger:
    """What is written for a draft; takes the ids it needs."""
    trigger, found = draft.trigger, draft.plan
    if found is None:
        return failed_trigger(draft, draft.reason or "")
    runs = runs_of_plan(
        found, trigger, draft.config, revision=draft.revision, now=draft.now, ids=ids
    )
    complete = found.next_fire_at is None and not found.waits
    return PlannedTrigger(
        trigger_id=trigger.id,
        bucket=trigger.bucket,
        version=trigger.version,
        planned_from=draft.next_fire_at,
        runs=runs,
        next_fire_at=found.next_fire_at,
        last_fire_at=runs[-1].scheduled_at if runs else trigger.last_fire_at,
        fires=trigger.fires + found.runs,
        calendar_version=_version_met(trigger, draft.calendar),
        state=TriggerState.COMPLETE if complete else TriggerState.ACTIVE,
    )


def failed_trigger(draft: PlanDraft, reason: str) -> PlannedTrigger:
    """What is written for a trigger that cannot be planned, so that it delays no other."""
    trigger = draft.trigger
    return PlannedTrigger(
        trigger_id=trigger.id,
        bucket=trigger.bucket,
        version=trigger.version,
        planned_from=draft.next_fire_at,
        runs=(),
        next_fire_at=None,
        last_fire_at=trigger.last_fire_at,
        fires=trigger.fires,
        calendar_version=trigger.calendar_version,
        state=TriggerState.ERROR,
        reason=reason[:500],
    )


def _version_met(trigger: Trigger, calendar: Calendar | None) -> int | None:
    """The version of its calendar that a planned trigger is marked with.

    Not the new version while fires that were planned with an older one lie ahead: the refresher
    finds the trigger by its version, and takes those fires back.
    """
    if calendar is None:
        return None
    if trigger.last_fire_at is not None and trigger.last_fire_at > calendar.changed_at:
        return trigger.calendar_version
    return calendar.version
