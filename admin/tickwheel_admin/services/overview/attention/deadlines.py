"""Deadlines that will be missed, as the newest forecasts say."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Told
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.forecast.deadline_record import DeadlineRecord
from tickwheel_admin.domain.schedule.wall_clock import seconds_of_time, short_time
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
)
from tickwheel_admin.store.alarms.rules import rules_by_id
from tickwheel_admin.store.forecast.deadline_forecasts import standing_warnings
from tickwheel_admin.store.overview.alarm_facts import alarmed_jobs
from tickwheel_admin.store.overview.attention import Scope

HOUR_MS = 3_600_000
HORIZON_MS = 12 * HOUR_MS  # so far ahead deadlines are forecast
FRESH_MS = 3 * HOUR_MS  # an older forecast does not count any more
# After a deadline, so long its warning stands unless it is known what became of it.
SETTLE_MS = 600_000


def deadline_warnings(
    conn: sa.Connection, scope: Scope, *, most: int | None = PER_KIND, now: int
) -> list[Concern]:
    """One for each job with a warning, about its next deadline; None: all of them."""
    records = standing_warnings(
        conn, scope, since=now - SETTLE_MS, until=now + HORIZON_MS, made_since=now - FRESH_MS
    )
    next_of_job: dict[int, DeadlineRecord] = {}
    for each in records:
        next_of_job.setdefault(each.job_id, each)
    wanted = list(next_of_job.values())[:most]
    rules = rules_by_id(conn, {each.rule_id for each in wanted})
    jobs = alarmed_jobs(conn, [each.job_id for each in wanted])
    found = []
    for each in wanted:
        rule, job = rules.get(each.rule_id), jobs.get(each.job_id)
        if rule is None or not rule.enabled or job is None or job.is_deleted:
            continue
        told = _told(each, rule, job.name)
        found.append(
            Concern(
                kind=AlarmKind.DEADLINE_WARNING,
                severity=Severity.WARNING,
                template=told.template,
                params=told.params,
                since=each.warned_since,
                executor_id=job.executor_id,
                executor_name=job.executor_name,
                job_id=job.id,
                job_name=job.name,
            )
        )
    return found


def _told(record: DeadlineRecord, rule: AlarmRule, job_name: str) -> Told:
    by = short_time(seconds_of_time(rule.limits.by or ""))
    named = {"job": job_name, "by": by, "zone": rule.limits.timezone or "UTC"}
    if record.end_at is None or record.end_at <= record.at:
        return Told(
            template="“%(job)s” will probably not have succeeded by %(by)s (%(zone)s).",
            params=named,
        )
    minutes = max(1, round((record.end_at - record.at) / 60_000))
    return Told(
        template="“%(job)s” will probably miss its deadline at %(by)s (%(zone)s) by"
        " %(minutes)d min.",
        params={**named, "minutes": minutes},
    )
