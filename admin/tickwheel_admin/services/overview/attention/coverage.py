"""Intervals of data that were not processed in time, as the watch over coverage has found them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Told
from tickwheel_admin.domain.alarms.matching import AlarmPlace, RuleBook
from tickwheel_admin.domain.alarms.rule import GAP_S, AlarmRule
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
)
from tickwheel_admin.store.alarms.rules import rules_of_kinds
from tickwheel_admin.store.backfills.watches import CoverageWatch, watches_with_holes
from tickwheel_admin.store.overview.alarm_facts import AlarmedJob, alarmed_jobs
from tickwheel_admin.store.overview.attention import Scope

MAX_STANDING = 10_000  # watches that are read at once; an open alarm beyond them would end
MAX_SHOWN = 500  # and for a list that shows a few


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageGap:
    """A job with intervals that were not processed in time."""

    job: AlarmedJob
    rules: Sequence[AlarmRule]  # by which it is one
    watches: Sequence[CoverageWatch]  # of its triggers with holes, the oldest hole first

    @property
    def since(self) -> int:
        """The end of its oldest hole."""
        return self.watches[0].first_hole_at or 0

    @property
    def holes(self) -> int:
        """Of all its triggers."""
        return sum(each.holes for each in self.watches)


def limit_ms_of(rule: AlarmRule) -> int:
    """So long after its end an interval must have been processed."""
    return (rule.limits.seconds or GAP_S) * 1_000


def standing_gaps(
    conn: sa.Connection, scope: Scope, book: RuleBook, *, most: int | None, now: int
) -> list[CoverageGap]:
    """One for each job that a rule is about, the oldest first; None: all of them."""
    limit = MAX_STANDING if most is None else MAX_SHOWN
    of_job: defaultdict[int, list[CoverageWatch]] = defaultdict(list)
    for each in watches_with_holes(conn, scope, until=now, limit=limit):
        of_job[each.job_id].append(each)
    jobs = alarmed_jobs(conn, of_job)
    found = []
    for job_id, watches in of_job.items():
        job = jobs.get(job_id)
        if job is None or job.is_deleted:
            continue
        age_ms = now - (watches[0].first_hole_at or now)
        place = AlarmPlace(executor_id=job.executor_id, job_id=job.id, tags=job.tags)
        rules = [
            rule for rule in book.of(AlarmKind.COVERAGE_GAP, place) if limit_ms_of(rule) <= age_ms
        ]
        if rules:
            found.append(CoverageGap(job=job, rules=rules, watches=watches))
    return found[:most]


def told_of_gap(gap: CoverageGap) -> Told:
    """What people are told."""
    return Told(
        template="Intervals of data that “%(job)s” did not process: %(holes)d.",
        params={"job": gap.job.name, "holes": gap.holes},
    )


def coverage_gaps(conn: sa.Connection, scope: Scope, *, now: int) -> list[Concern]:
    """What needs attention; nothing is computed here, and mostly one index entry is read."""
    rules = rules_of_kinds(conn, [AlarmKind.COVERAGE_GAP])
    if not rules:
        return []
    found = []
    for gap in standing_gaps(conn, scope, RuleBook(rules), most=PER_KIND, now=now):
        told = told_of_gap(gap)
        is_error = any(each.severity is Severity.ERROR for each in gap.rules)
        found.append(
            Concern(
                kind=AlarmKind.COVERAGE_GAP,
                severity=Severity.ERROR if is_error else Severity.WARNING,
                template=told.template,
                params=told.params,
                since=gap.since,
                executor_id=gap.job.executor_id,
                executor_name=gap.job.executor_name,
                job_id=gap.job.id,
                job_name=gap.job.name,
                trigger_id=gap.watches[0].trigger_id,
            )
        )
    return found
