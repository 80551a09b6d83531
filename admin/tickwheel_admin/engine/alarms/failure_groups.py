"""Counts runs that failed alike, by the signals of alarms, and notes when they work again.

Signals are taken once, in the transaction that counts by them: so a run counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import OF_GROUPS
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.failures.group import FailureGroup, GroupedFailure, counted
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.failures.groups import (
    GroupJob,
    end_jobs,
    failures_of_runs,
    forget_jobs,
    insert_groups,
    jobs_of_groups,
    lock_groups,
    standing_jobs,
    update_groups,
    write_jobs,
)
from tickwheel_admin.store.overview.alarm_facts import alarmed_jobs
from tickwheel_admin.store.runs.retries import retries_of
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries

JOBS_PER_LOOK = 100
MARKS = 20  # newest runs of a job that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFailures:
    """Groups that were counted, and which runs counted to them."""

    groups: Mapping[int, FailureGroup]
    group_of: Mapping[int, int]  # by run
    joined: Collection[tuple[int, int]]  # (group, job) of jobs that were not failing in it

    def of_run(self, run_id: int) -> FailureGroup | None:
        """The group that the run counts to."""
        return self.groups.get(self.group_of.get(run_id, 0))

    def joins(self, group_id: int, job_id: int) -> bool:
        """Whether the job was not among the failing ones of the group before."""
        return (group_id, job_id) in self.joined


def count_failures(conn: sa.Connection, signals: Sequence[AlarmSignal]) -> CountedFailures:
    """Count the runs that these signals tell of; the caller takes the signals."""
    at = {each.subject_id: each.at for each in signals if each.kind in OF_GROUPS}
    by_group: defaultdict[int, list[GroupedFailure]] = defaultdict(list)
    for run_id, failure in failures_of_runs(conn, at):
        by_group[failure.group_id].append(replace(failure, at=at[run_id]))
    if not by_group:
        return CountedFailures(groups={}, group_of={}, joined=())
    known = lock_groups(conn, by_group)
    forget_jobs(conn, [each.id for each in known.values() if each.is_resolved])
    job_ids = {each.job_id for same in by_group.values() for each in same}
    jobs = jobs_of_groups(conn, known, job_ids)
    groups, new_jobs, changed_jobs, joined = {}, [], [], set()
    for group_id, same in sorted(by_group.items()):
        of_jobs = _by_job(same)
        new = [each for each in of_jobs if (group_id, each.job_id) not in jobs]
        new_jobs += new
        changed_jobs += [
            _added(jobs[group_id, each.job_id], each)
            for each in of_jobs
            if (group_id, each.job_id) in jobs
        ]
        joined |= {
            (group_id, each.job_id)
            for each in of_jobs
            if (known_job := jobs.get((group_id, each.job_id))) is None or known_job.is_over
        }
        groups[group_id] = counted(known.get(group_id), same, new_jobs=len(new))
    insert_groups(conn, [each for each in groups.values() if each.id not in known])
    update_groups(conn, [each for each in groups.values() if each.id in known])
    write_jobs(conn, new_jobs, changed_jobs)
    return CountedFailures(
        groups=groups,
        group_of={each.run_id: each.group_id for same in by_group.values() for each in same},
        joined=joined,
    )


def _by_job(failures: Sequence[GroupedFailure]) -> list[GroupJob]:
    by_job: defaultdict[int, list[GroupedFailure]] = defaultdict(list)
    for each in failures:
        by_job[each.job_id].append(each)
    found = []
    for job_id, same in sorted(by_job.items()):
        last = max(same, key=lambda each: (each.at, each.run_id))
        found.append(
            GroupJob(
                group_id=last.group_id,
                job_id=job_id,
                runs=len(same),
                last_run_id=last.run_id,
                last_at=last.at,
            )
        )
    return found


def _added(known: GroupJob, more: GroupJob) -> GroupJob:
    newest = more if more.last_at >= known.last_at else known
    return replace(newest, runs=known.runs + more.runs, is_over=False)


def find_recovered(
    conn: sa.Connection, after: tuple[int, int]
) -> tuple[list[GroupJob], tuple[int, int]]:
    """(jobs of groups that work again, after which one to go on); looks at `JOBS_PER_LOOK`.

    A job works again when a run of it succeeded after its last failure in the group, or a retry
    of that one by hand did. One that is deleted, or has no run any more, is not waited for.
    """
    jobs = standing_jobs(conn, after, limit=JOBS_PER_LOOK)
    if not jobs:
        return [], (0, 0)
    facts = alarmed_jobs(conn, {each.job_id for each in jobs})
    until = max(now_ms(conn), *(each.last_at for each in jobs))
    marks = recent_summaries(conn, sorted(facts), until=until, per_job=MARKS)
    retried = retries_of(conn, {each.last_run_id for each in jobs})
    over = []
    for each in jobs:
        fact, outcome = facts.get(each.job_id), retried.get(each.last_run_id)
        if (
            fact is None
            or fact.is_deleted
            or (outcome is not None and outcome.succeeded)
            or _works_again(each, marks.get(each.job_id, ()))
        ):
            over.append(each)
    last = jobs[-1]
    full = len(jobs) == JOBS_PER_LOOK
    return over, (last.group_id, last.job_id) if full else (0, 0)


def _works_again(failed: GroupJob, marks: Sequence[RunSummary]) -> bool:
    return not marks or any(
        mark.state is RunState.SUCCEEDED
        # A late result may say that it succeeded after all.
        and (mark.id == failed.last_run_id or (mark.ended_at or 0) > failed.last_at)
        for mark in marks
    )


def note_recovered(conn: sa.Connection, jobs: Sequence[GroupJob]) -> int:
    """Write it, but of those that failed again; how many groups are resolved by it."""
    return end_jobs(conn, jobs, now=now_ms(conn))
