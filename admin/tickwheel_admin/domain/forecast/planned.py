"""The fires of a trigger within a forecast, as the planner would write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.forecast.situation import ForecastTrigger
from tickwheel_admin.domain.planning.plan import plan, runs_left
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.jitter import due_of
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse


class PlannedFire(NamedTuple):
    """One fire."""

    due_at: int  # with its jitter
    scheduled_at: int


def schedule_of(
    trigger: ForecastTrigger, calendars: Mapping[str, Calendar]
) -> tuple[Schedule, Calendar | None] | None:
    """Its schedule and calendar; None: it cannot be computed, as its planner will find."""
    try:
        calendar = calendar_of(trigger.spec, calendars)
        return parse(trigger.spec, saved_at=trigger.saved_at, calendar=calendar), calendar
    except ScheduleError:
        return None


class PlannedFires:
    """The fires of many triggers, computed once for several forecasts."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[ForecastTrigger, list[PlannedFire]]] = {}

    def of(
        self,
        trigger: ForecastTrigger,
        calendars: Mapping[str, Calendar],
        *,
        now: int,
        end: int,
        paused_at: int | None,
        limit: int,
    ) -> list[PlannedFire]:
        """As `planned_fires`, the first `limit` of them."""
        calendar = calendars.get(trigger.spec.calendar or "")
        version = -1 if calendar is None else calendar.version
        key = (id(trigger), version, now, end, -1 if paused_at is None else paused_at)
        known = self._known.get(key)
        if known is None or len(known[1]) > limit:
            fires = planned_fires(trigger, calendars, now=now, end=end, paused_at=paused_at)
            known = self._known[key] = trigger, list(islice(fires, limit))
        return known[1]


def planned_fires(
    trigger: ForecastTrigger,
    calendars: Mapping[str, Calendar],
    *,
    now: int,
    end: int,
    paused_at: int | None,
) -> Iterator[PlannedFire]:
    """Its fires up to `end`, one pass of the planner after the other.

    A fixed delay has one at most: the end of its run brings the next.
    """
    found = schedule_of(trigger, calendars)
    at, fires = trigger.next_fire_at, trigger.fires
    if found is None or at is None:
        return
    schedule, _ = found
    spec = trigger.spec
    if spec.follows_runs:
        if at <= end and (paused_at is None or at <= paused_at):
            yield PlannedFire(max(at, now), at)
        return
    while at is not None and at <= end:
        left = runs_left(spec, fires)
        if left == 0:
            return
        made = plan(
            schedule,
            next_fire_at=at,
            now=now,
            until=end,
            misfire=spec.misfire,
            threshold_ms=spec.misfire_threshold_ms,
            catch_up_limit=spec.catch_up_limit,
            paused_at=paused_at,
            left=left,
        )
        for instant in made.caught_up:
            yield PlannedFire(now, instant)
        followed = (*made.fires[1:], made.next_fire_at)
        for instant, following in zip(made.fires, followed, strict=False):
            due_at = instant
            if spec.jitter_ms:
                due_at = due_of(
                    trigger.id, instant, jitter_ms=spec.jitter_ms, next_nominal=following
                )
            yield PlannedFire(due_at, instant)
        fires += made.runs
        if made.next_fire_at == at or (not made.runs and made.missed is None):
            return  # paused: nothing more comes
        at = made.next_fire_at
