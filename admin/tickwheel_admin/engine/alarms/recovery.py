"""Which open alarms are over: their jobs succeeded since, or what they are about is gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import AlarmRule, RuleLimits
from tickwheel_admin.domain.alarms.run_limits import MEASURED, is_late, is_slow
from tickwheel_admin.domain.executors.node import ADMIN_LEASE_MS
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.forecast.deadline_record import DeadlineOutcome
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.workflows.answering import question_of_subject
from tickwheel_admin.engine.alarms.conditions import CONDITIONS
from tickwheel_admin.store.executors.admins import newest_starts
from tickwheel_admin.store.failures.groups import groups_by_id
from tickwheel_admin.store.forecast.deadline_forecasts import newest_of_jobs
from tickwheel_admin.store.overview.alarm_facts import (
    AlarmedJob,
    alarmed_jobs,
    broken_triggers_among,
)
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries
from tickwheel_admin.store.self_audit.results import differences_stand
from tickwheel_admin.store.workflows.questions import still_asked

MARKS = 20  # newest runs of a job that are looked at
JOBS_AT_ONCE = 100
SETTLE_MS = 600_000  # late starts and long runs are over after so long without another
FADE_MS = 3_600_000  # an event that nothing makes good is over after so long without another

OF_RUNS = frozenset(
    {
        AlarmKind.FAILED,
        AlarmKind.TRY_FAILED,
        AlarmKind.TIMED_OUT,
        AlarmKind.LOST,
        AlarmKind.SKIPPED,
        AlarmKind.FAILING_STREAK,
        AlarmKind.RETRY_FAILED,
        AlarmKind.LAST_FAILED,
        AlarmKind.DEADLINE_MISSED,
    }
)
FADING = frozenset({AlarmKind.NODES_LOST, AlarmKind.ADMIN_GONE})


@dataclass(slots=True, kw_only=True)
class Endings:
    """Ids of open alarms that are over."""

    recovered: set[int] = field(default_factory=set)  # people are told
    ended: set[int] = field(default_factory=set)  # nothing is left to be told


def find_endings(
    conn: sa.Connection,
    alarms: Sequence[Alarm],
    rules: Mapping[int, AlarmRule],
    holding: Collection[tuple[int, str]],
    *,
    unsure: Collection[tuple[AlarmKind, int]] = (),
    now: int,
) -> Endings:
    """Which of these open alarms are over.

    Args:
        rules: those of the alarms that are not deleted.
        holding: (rule, subject) of the conditions that hold now.
        unsure: kinds with executors that could not all be looked at.
    """
    endings = Endings()
    ruled = []
    for each in alarms:
        rule = rules.get(each.rule_id)
        if rule is None or not rule.enabled:
            endings.ended.add(each.id)
        else:
            ruled.append(each)
    jobs = alarmed_jobs(conn, [each.job_id for each in ruled if each.job_id is not None])
    broken = _still_broken(conn, ruled)
    asked = _still_asked(conn, ruled)
    marks = _marks(conn, ruled, now=now)
    of_ledger = any(each.kind is AlarmKind.LEDGER_DIFFERENCE for each in ruled)
    stands = of_ledger and differences_stand(conn)
    missed = _missed_after_all(conn, ruled, now=now)
    returned = _admins_returned(conn, ruled)
    failures = groups_by_id(conn, {n for each in ruled if (n := each.failure_group_id) is not None})
    for each in ruled:
        if each.failure_group_id is not None:
            if _is_resolved(each, failures.get(each.failure_group_id)):
                endings.recovered.add(each.id)
            continue
        job = jobs.get(each.job_id or 0)
        if each.job_id is not None and (job is None or job.is_deleted):
            endings.ended.add(each.id)
        elif each.kind in OF_RUNS:
            if _has_succeeded(each, marks.get(each.job_id or 0, ())):
                endings.recovered.add(each.id)
        elif each.kind in MEASURED:
            if (
                (each.rule_id, each.subject) not in holding
                and (each.kind, each.executor_id) not in unsure
                and (
                    each.last_at < now - SETTLE_MS
                    or _was_in_time(each, rules[each.rule_id].limits, job, marks)
                )
            ):
                endings.recovered.add(each.id)
        elif each.kind in CONDITIONS:
            if (each.rule_id, each.subject) in holding or (each.kind, each.executor_id) in unsure:
                pass
            elif each.id in missed:  # that it was missed is told by its own alarm
                endings.ended.add(each.id)
            else:
                endings.recovered.add(each.id)
        elif each.kind is AlarmKind.LEDGER_DIFFERENCE:
            # The difference stays on the page of the self-audit, with the time when it was over.
            if not stands:
                endings.recovered.add(each.id)
        elif each.kind is AlarmKind.TRIGGER_ERROR:
            if _subject_id(each) not in broken:
                endings.recovered.add(each.id)
        elif each.kind is AlarmKind.APPROVAL_WAITS:
            if each.subject not in asked:
                endings.recovered.add(each.id)
        elif each.id in returned:
            endings.recovered.add(each.id)
        elif each.kind in FADING and each.last_at < now - FADE_MS:
            endings.ended.add(each.id)
    return endings


def _missed_after_all(conn: sa.Connection, alarms: Sequence[Alarm], *, now: int) -> set[int]:
    """Warnings of deadlines that have passed, and were not met as far as anybody knows."""
    warnings = [each for each in alarms if each.kind is AlarmKind.DEADLINE_WARNING]
    if not warnings:
        return set()
    since = min(each.opened_at for each in warnings)
    last = newest_of_jobs(conn, {each.job_id or 0 for each in warnings}, since=since, until=now)
    return {
        each.id
        for each in warnings
        if (record := last.get(each.job_id or 0)) is not None
        and record.at >= each.opened_at
        and record.outcome is not DeadlineOutcome.MET
    }


def _is_resolved(alarm: Alarm, group: FailureGroup | None) -> bool:
    """Whether all its jobs work again, or did before the group began anew."""
    return group is None or group.is_resolved or group.since > alarm.last_at


def _marks(
    conn: sa.Connection, alarms: Sequence[Alarm], *, now: int
) -> dict[int, list[RunSummary]]:
    wanted = OF_RUNS | MEASURED
    jobs = sorted(
        {
            a.job_id
            for a in alarms
            if a.kind in wanted and a.job_id is not None and a.failure_group_id is None
        }
    )
    found: dict[int, list[RunSummary]] = {}
    for first in range(0, len(jobs), JOBS_AT_ONCE):
        some = jobs[first : first + JOBS_AT_ONCE]
        found |= recent_summaries(conn, some, until=now, per_job=MARKS)
    return found


def _has_succeeded(alarm: Alarm, marks: Sequence[RunSummary]) -> bool:
    """Whether a run of the job succeeded since, or the one that was told of did after all."""
    return any(
        mark.state is RunState.SUCCEEDED
        and (mark.id == alarm.run_id or (mark.ended_at or 0) > alarm.last_at)
        for mark in marks
    )


def _was_in_time(
    alarm: Alarm,
    limits: RuleLimits,
    job: AlarmedJob | None,
    marks: Mapping[int, Sequence[RunSummary]],
) -> bool:
    """Whether another run of the job has started in time since, or succeeded fast enough."""
    for mark in marks.get(alarm.job_id or 0, ()):
        if mark.started_at is None or mark.id == alarm.run_id:
            continue
        if alarm.kind is AlarmKind.STARTED_LATE:
            delay_ms = mark.start_delay_ms
            if (
                mark.started_at > alarm.last_at
                and delay_ms is not None
                and not is_late(limits, delay_ms)
            ):
                return True
        elif mark.state is RunState.SUCCEEDED and (mark.ended_at or 0) > alarm.last_at:
            usual_ms = 0 if job is None else job.usual_ms
            if not is_slow(limits, mark.duration_ms or 0, usual_ms):
                return True
    return False


def _still_broken(conn: sa.Connection, alarms: Sequence[Alarm]) -> set[int]:
    ids = [_subject_id(each) for each in alarms if each.kind is AlarmKind.TRIGGER_ERROR]
    return broken_triggers_among(conn, ids) if ids else set()


def _still_asked(conn: sa.Connection, alarms: Sequence[Alarm]) -> set[str]:
    questions = [
        question_of_subject(each.subject)
        for each in alarms
        if each.kind is AlarmKind.APPROVAL_WAITS
    ]
    return {each.subject for each in still_asked(conn, questions)} if questions else set()


def _admins_returned(conn: sa.Connection, alarms: Sequence[Alarm]) -> set[int]:
    """Alarms of admins that are gone, of which one of the same name has started since."""
    gone = [each for each in alarms if each.kind is AlarmKind.ADMIN_GONE]
    if not gone:
        return set()
    started_at = newest_starts(conn)
    # It may have been started at once, while the lease of the one before it still ran.
    return {
        each.id
        for each in gone
        if started_at.get(each.told.params["admin"], 0) > each.last_at - 2 * ADMIN_LEASE_MS
    }


def _subject_id(alarm: Alarm) -> int:
    return int(alarm.subject.partition(":")[2])
