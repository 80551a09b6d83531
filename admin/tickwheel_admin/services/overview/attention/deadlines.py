"""Deadlines that will be missed, as the newest forecasts say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

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
from tickwheel_admin.store.overview.alarm_facts import alarmed_jobs, first_successes
from tickwheel_admin.store.overview.attention import Scope

HOUR_MS = 3_600_000
HORIZON_MS = 12 * HOUR_MS  # so far ahead deadlines are forecast
FRESH_MS = 3 * HOUR_MS  # an older forecast does not count any more
# After a deadline, so long its warning stands unless it is known what became of it.
SETTLE_MS = 600_000
LOOKED_AT_ONCE = 200  # warnings whose jobs are asked for a success


def deadline_warnings(
    conn: sa.Connection, scope: Scope, *, most: int | None = PER_KIND, now: int
) -> list[Concern]:
    """One for each job with a warning, about its next deadline; None: all of them."""
    records = standing_warnings(
        conn, scope, since=now - SETTLE_MS, until=now + HORIZON_MS, made_since=now - FRESH_MS
    )
    wanted = list(islice(_not_met(conn, records, now=now), most))
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


def _not_met(
    conn: sa.Connection, records: Sequence[DeadlineRecord], *, now: int
) -> Iterator[DeadlineRecord]:
    """The next deadline of each job that no success has met since it was forecast."""
    seen: set[int] = set()
    for first in range(0, len(records), LOOKED_AT_ONCE):
        some = records[first : first + LOOKED_AT_ONCE]
        jobs_since: dict[int, set[int]] = defaultdict(set)
        for each in some:
            jobs_since[each.since].add(each.job_id)
        met = {
            (since, job_id)
            for since, job_ids in jobs_since.items()
            if since <= now
            for job_id in first_successes(conn, sorted(job_ids), since=since, until=now)
        }
        for each in some:
            if (each.since, each.job_id) not in met and each.job_id not in seen:
                seen.add(each.job_id)
                yield each


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
