"""The deadlines of a job that a forecast misses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tickwheel_admin.domain.alarms.deadlines import counts_from, deadline_schedule
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RuleLimits
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.forecast.situation import ForecastJob
from tickwheel_admin.domain.schedule.base import ScheduleError

MAX_DEADLINES = 100  # of one rule


def missed_deadlines(
    job: ForecastJob,
    successes: Iterable[int],
    *,
    start: int,
    end: int,
    calendars: Mapping[str, Calendar],
) -> tuple[int, ...]:
    """The instants between `start` and `end` by which it must have succeeded, and has not.

    Args:
        successes: when runs of it end well in the forecast.
    """
    ends = [*successes]
    if job.last_success_at is not None:
        ends.insert(0, job.last_success_at)
    return tuple(
        deadline
        for alarm in job.config.alarms
        if alarm.kind is AlarmKind.DEADLINE_MISSED and alarm.enabled
        for deadline in _deadlines(alarm.limits, start, end, calendars)
        if not any(counts_from(alarm.limits, deadline) <= at <= deadline for at in ends)
    )


def _deadlines(
    limits: RuleLimits, start: int, end: int, calendars: Mapping[str, Calendar]
) -> Iterator[int]:
    calendar = None if limits.calendar is None else calendars.get(limits.calendar)
    if limits.calendar is not None and calendar is None:
        return
    try:
        schedule = deadline_schedule(limits, calendar)
    except (ScheduleError, ValueError):
        return  # its alarm cannot tell of it either
    at = schedule.next_after(start)
    for _ in range(MAX_DEADLINES):
        if at is None or at >= end:
            return
        yield at
        at = schedule.next_after(at)
