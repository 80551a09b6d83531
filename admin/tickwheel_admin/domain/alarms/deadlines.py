"""Deadlines: the instants by which a job must have succeeded, by wall time and calendar."""

from __future__ import annotations

from functools import lru_cache

from tickwheel_admin.domain.alarms.rule import RuleLimits
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, seconds_of_time
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.schedule import parse

GRACE_MS = 5_000  # after a deadline: what ended in time is recorded by then


@lru_cache(maxsize=1_000)
def deadline_schedule(limits: RuleLimits, calendar: Calendar | None = None) -> Schedule:
    """The instants of a rule's deadlines: one a day, or none on days that the calendar takes away.

    A wall time that clocks jump over is due where they go on; of one that they show twice, the
    first counts.

    Args:
        calendar: what `limits.calendar` names; None: every day has a deadline.

    Raises:
        ScheduleError: there is no such zone.
        ValueError: the rule has no deadline.
    """
    seconds = seconds_of_time(limits.by or "")
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    spec = CronSpec(
        expression=f"{second} {minute} {hour} * * ?",
        dialect="quartz",
        timezone=limits.timezone or "UTC",
        gap=Gap.FIRE,
        overlap=Overlap.FIRST,
    )
    return parse(spec, saved_at=0, calendar=calendar)


def counts_from(limits: RuleLimits, deadline: int) -> int:
    """From when on a success counts for a deadline, UTC ms: the start of its local day, or as long
    before as the rule says.
    """
    if limits.seconds is not None:
        return deadline - limits.seconds * 1000
    zone = zone_of(limits.timezone)
    local, _ = zone.to_local(deadline // 1000)
    midnight = local // DAY_SECONDS * DAY_SECONDS
    shown = zone.instants_of(midnight)
    if shown:
        return shown[0] * 1000
    after_gap = zone.gap_end(midnight)  # where clocks go forward at midnight
    return deadline if after_gap is None else after_gap * 1000
