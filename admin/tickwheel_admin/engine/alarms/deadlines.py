"""Deadlines: each instant of each rule is looked at once, also when no admin was up at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.alarms.alarm import Told, subject_of_job
from tickwheel_admin.domain.alarms.deadlines import GRACE_MS, counts_from, deadline_schedule
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.matching import RuleBook
from tickwheel_admin.domain.alarms.rule import AlarmRule, RuleScope
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.wall_clock import seconds_of_time, short_time
from tickwheel_admin.engine.alarms.happenings import Happening, place_of
from tickwheel_admin.store.alarms.rules import rules_of_places, set_next_deadline
from tickwheel_admin.store.overview.alarm_facts import (
    AlarmedJob,
    alarmed_jobs,
    first_successes,
    jobs_in_scope,
)

log = structlog.get_logger(__name__)

JOBS_PER_RULE = 5_000  # that a rule about more than one job is looked at for
_PAGE = 500

Calendars = Mapping[str, Calendar]


def is_due(rule: AlarmRule, now: int) -> bool:
    """Whether one of its deadlines is to be looked at."""
    return rule.enabled and rule.next_at is not None and rule.next_at <= now - GRACE_MS


def plan_deadlines(
    conn: sa.Connection, rules: Iterable[AlarmRule], calendars: Calendars, *, now: int
) -> None:
    """Set the next deadlines of rules: new ones, and those whose calendar has changed.

    One that is due stays: it is looked at first.
    """
    for rule in rules:
        if rule.kind is not AlarmKind.DEADLINE_MISSED or is_due(rule, now):
            continue
        schedule = _schedule(rule, calendars)
        if schedule is None or not rule.enabled:
            next_at = None
        else:
            next_at = schedule.next_after(now if rule.next_at is None else now - GRACE_MS)
        if next_at != rule.next_at:
            set_next_deadline(conn, rule, next_at)


def missed_deadlines(conn: sa.Connection, rule: AlarmRule, calendars: Calendars) -> list[Happening]:
    """The jobs that missed the rule's next deadline, which advances to the one after it.

    Both in the caller's transaction: the instant is looked at once.
    """
    at = rule.next_at
    schedule = _schedule(rule, calendars)
    following = None if schedule is None or at is None else schedule.next_after(at)
    if at is None or not set_next_deadline(conn, rule, following):
        return []
    if schedule is None or schedule.next_after(at - 1) != at:
        return []  # the calendar has taken it away since
    jobs = _jobs_of(conn, rule)
    since = counts_from(rule.limits, at)
    done = first_successes(conn, [each.id for each in jobs], since=since, until=at)
    late = [each for each in jobs if each.id not in done]
    if len(jobs) > 1:
        late = _not_nearer(conn, rule, late)
    by = short_time(seconds_of_time(rule.limits.by or ""))
    return [
        Happening(
            kind=AlarmKind.DEADLINE_MISSED,
            subject=subject_of_job(job.id),
            place=place_of(job),
            told=Told(
                template="“%(job)s” had not succeeded by %(by)s (%(zone)s).",
                params={"job": job.name, "by": by, "zone": rule.limits.timezone or "UTC"},
            ),
            at=at,
            rule_id=rule.id,
        )
        for job in late
    ]


def _schedule(rule: AlarmRule, calendars: Calendars) -> Schedule | None:
    """When its deadlines are; None: that cannot be said, for its calendar or zone is gone."""
    name = rule.limits.calendar
    if name is not None and name not in calendars:
        log.warning("alarm.deadline_unknown", rule_id=rule.id, calendar=name)
        return None
    try:
        return deadline_schedule(rule.limits, None if name is None else calendars[name])
    except (ScheduleError, ValueError) as error:
        log.warning("alarm.deadline_unknown", rule_id=rule.id, reason=str(error)[:200])
        return None


def _jobs_of(conn: sa.Connection, rule: AlarmRule) -> list[AlarmedJob]:
    if rule.scope is RuleScope.JOB:
        found = alarmed_jobs(conn, [rule.job_id or 0]).values()
        return [each for each in found if not each.is_deleted]
    jobs: list[AlarmedJob] = []
    after = 0
    while len(jobs) < JOBS_PER_RULE:
        page = jobs_in_scope(conn, executor_id=rule.executor_id, after=after, limit=_PAGE)
        jobs += [each for each in page if rule.tag is None or rule.tag in each.tags]
        if len(page) < _PAGE:
            return jobs
        after = page[-1].id
    log.warning("alarm.deadline_cut", rule_id=rule.id, jobs=JOBS_PER_RULE)
    return jobs[:JOBS_PER_RULE]


def _not_nearer(conn: sa.Connection, rule: AlarmRule, jobs: list[AlarmedJob]) -> list[AlarmedJob]:
    """Those of the jobs that no nearer rule of the kind is about."""
    rules = rules_of_places(
        conn,
        executor_ids={each.executor_id for each in jobs},
        job_ids=[each.id for each in jobs],
        tags={tag for each in jobs for tag in each.tags},
    )
    book = RuleBook(rules)
    return [
        each
        for each in jobs
        if rule.id in {found.id for found in book.of(AlarmKind.DEADLINE_MISSED, place_of(each))}
    ]
