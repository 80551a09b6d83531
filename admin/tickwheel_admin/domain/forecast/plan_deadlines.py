"""The deadlines that rules set for jobs, for a plan of the next hours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwheel_admin.domain.alarms.deadlines import counts_from, deadline_schedule
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.matching import AlarmPlace, RuleBook
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.forecast.night_plan import PlanDeadline
from tickwheel_admin.domain.forecast.situation import ForecastJob
from tickwheel_admin.domain.schedule.base import ScheduleError


def deadlines_of(
    jobs: Sequence[ForecastJob],
    rules: Sequence[AlarmRule],
    calendars: Mapping[str, Calendar],
    *,
    now: int,
    until: int,
) -> list[PlanDeadline]:
    """The deadlines of these jobs from now to an instant, in the order of time.

    Those that are hidden have none: they are parts of workflows.
    """
    book = RuleBook(rules)
    instants = {rule.id: _instants(rule, calendars, now, until) for rule in rules if rule.enabled}
    found = []
    for job in jobs:
        if job.is_hidden:
            continue
        place = AlarmPlace(executor_id=job.executor_id, job_id=job.id, tags=tuple(job.config.tags))
        for rule in book.of(AlarmKind.DEADLINE_MISSED, place):
            for at in instants[rule.id]:
                since = counts_from(rule.limits, at)
                found.append(
                    PlanDeadline(
                        rule_id=rule.id,
                        job_id=job.id,
                        at=at,
                        since=since,
                        is_met=job.last_success_at is not None and job.last_success_at >= since,
                    )
                )
    return sorted(found, key=lambda each: (each.at, each.job_id, each.rule_id))


def _instants(
    rule: AlarmRule, calendars: Mapping[str, Calendar], now: int, until: int
) -> list[int]:
    name = rule.limits.calendar
    if name is not None and name not in calendars:
        return []
    try:
        schedule = deadline_schedule(rule.limits, None if name is None else calendars[name])
    except (ScheduleError, ValueError):
        return []  # its alarm cannot tell of it either
    found, at = [], schedule.next_after(now)
    while at is not None and at <= until:
        found.append(at)
        at = schedule.next_after(at)
    return found
