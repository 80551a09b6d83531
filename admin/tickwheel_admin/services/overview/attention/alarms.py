"""Open alarms among what needs attention: with what they are about in one row, or in rows that
count them.

An outage opens thousands of alarms. What is read is bounded, and so is the number of rows; the
numbers in them are right up to `store.alarms.attention.COUNTED`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm, subject_of_failure, subject_of_job
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
    is_treated,
    told,
)
from tickwheel_admin.store.alarms import attention as store
from tickwheel_admin.store.alarms.attention import AlarmGroup
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.jobs.jobs import names_of_jobs
from tickwheel_admin.store.overview.attention import Scope

NEWEST = 200  # open alarms that may be told one by one
ONE_BY_ONE = 3  # of one kind and executor; more of them are one row

# Kinds that are the same matter when they are about the same job: it fails.
FAILING = frozenset(
    {
        AlarmKind.FAILED,
        AlarmKind.TRY_FAILED,
        AlarmKind.TIMED_OUT,
        AlarmKind.LOST,
        AlarmKind.FAILING_STREAK,
        AlarmKind.RETRY_FAILED,
        AlarmKind.LAST_FAILED,
        AlarmKind.FAILURE_RATE,
    }
)
Matter = tuple[AlarmKind, str]  # the first kind of those that are one matter, and the subject


@dataclass(frozen=True, slots=True)
class _Names:
    executors: Mapping[int, str]
    jobs: Mapping[int, str]


def with_alarms(conn: sa.Connection, scope: Scope, concerns: Sequence[Concern]) -> list[Concern]:
    """The concerns with the open alarms about them, and a row for every other open alarm or many.

    Args:
        scope: executors whose alarms are told; None: all, and those of no executor.
    """
    groups = store.open_groups(conn, executor_ids=scope)
    if not groups:
        return list(concerns)
    found = {each.id: each for each in _about(conn, scope, concerns, groups)}
    newest = store.newest_open(conn, executor_ids=scope, limit=NEWEST)
    found |= {each.id: each for each in newest}
    by_matter: defaultdict[Matter, list[Alarm]] = defaultdict(list)
    for alarm in found.values():
        by_matter[_matter(alarm.kind, alarm.subject)].append(alarm)
    told_of: set[int] = set()
    rows = []
    for each in concerns:
        alarms = [
            alarm
            for subject in _subjects(each)
            for alarm in by_matter.pop(_matter(each.kind, subject), [])
        ]
        told_of |= {alarm.id for alarm in alarms}
        rows.append(_joined(each, alarms))
    return [*rows, *_others(conn, groups, list(found.values()), told_of)]


def _about(
    conn: sa.Connection,
    scope: Scope,
    concerns: Iterable[Concern],
    groups: Sequence[AlarmGroup],
) -> list[Alarm]:
    """Open alarms that may be about one of the concerns."""
    jobs = {each.job_id for each in concerns if each.job_id is not None}
    jobs |= {job_id for each in concerns for job_id in each.failing_jobs}
    kinds = {each.kind for each in concerns if each.job_id is None}
    some = kinds & {group.kind for group in groups}
    return [
        *store.open_of_jobs(conn, jobs, executor_ids=scope),
        *store.open_of_kinds(conn, some, executor_ids=scope),
    ]


def _matter(kind: AlarmKind, subject: str) -> Matter:
    return (AlarmKind.FAILED if kind in FAILING else kind), subject


def _subjects(concern: Concern) -> list[str]:
    """All that alarms about it may be about."""
    if concern.failure is None:
        return [_subject(concern)]
    jobs = [subject_of_job(job_id) for job_id in sorted(concern.failing_jobs)]
    return [subject_of_failure(concern.failure.id), *jobs]


def _subject(concern: Concern) -> str:
    """As alarms name it."""
    if concern.kind is AlarmKind.TRIGGER_ERROR:
        return f"trigger:{concern.trigger_id}"
    if concern.admin_id is not None:
        return f"admin:{concern.admin_id}"
    # Runs that wait are of a job, but it is their executor that is full or late.
    if concern.job_id is not None and concern.kind not in (AlarmKind.FULL, AlarmKind.LATE):
        return subject_of_job(concern.job_id)
    if concern.executor_id is not None:
        return f"executor:{concern.executor_id}"
    return "installation"


def _joined(concern: Concern, alarms: Sequence[Alarm]) -> Concern:
    if not alarms:
        return concern
    return replace(concern, alarm=_foremost(alarms), alarms=len(alarms))


def _foremost(alarms: Sequence[Alarm]) -> Alarm:
    """The one that needs somebody most: a row is only treated when all its alarms are."""
    return min(alarms, key=lambda a: (is_treated(a), a.severity is not Severity.ERROR, -a.last_at))


# --- what no concern tells ------------------------------------------------------------------------


def _others(
    conn: sa.Connection,
    groups: Sequence[AlarmGroup],
    found: Sequence[Alarm],
    told_of: set[int],
) -> list[Concern]:
    names = _names(conn, groups, found)
    merged = Counter((a.kind, a.executor_id) for a in found if a.id in told_of)
    rest: defaultdict[tuple[AlarmKind, int | None], list[Alarm]] = defaultdict(list)
    for alarm in found:
        if alarm.id not in told_of:
            rest[alarm.kind, alarm.executor_id].append(alarm)
    by_kind: defaultdict[AlarmKind, list[Concern]] = defaultdict(list)
    left: Counter[AlarmKind] = Counter()
    for group in groups:
        place = group.kind, group.executor_id
        count = group.count - merged[place]
        left[group.kind] += count
        by_kind[group.kind] += _of_group(group, count, rest[place], names)
    rows: list[Concern] = []
    for kind, of_kind in by_kind.items():
        if len(of_kind) <= PER_KIND:
            rows += of_kind
        else:
            rows.append(_of_kind([g for g in groups if g.kind is kind], left[kind]))
    return rows


def _of_group(
    group: AlarmGroup, count: int, alarms: Sequence[Alarm], names: _Names
) -> list[Concern]:
    """Rows for the alarms of a kind and executor of which no concern tells."""
    if count <= 0:
        return []
    by_matter: defaultdict[str, list[Alarm]] = defaultdict(list)
    for alarm in alarms:
        by_matter[alarm.subject].append(alarm)
    if len(alarms) == count and len(by_matter) <= ONE_BY_ONE:
        return [_alone(same, names) for same in by_matter.values()]
    name = names.executors.get(group.executor_id or 0)
    return [
        Concern(
            kind=group.kind,
            severity=group.severity,
            template="Open alarms of “%(executor)s”: %(count)s."
            if name is not None
            else "Open alarms: %(count)s.",
            params={"count": told(count, store.COUNTED), "executor": name},
            last_at=group.last_at,
            executor_id=group.executor_id,
            executor_name=name,
            alarms=count,
            is_told_by_alarm=True,
        )
    ]


def _of_kind(groups: Sequence[AlarmGroup], count: int) -> Concern:
    """One row for the alarms of a kind at many executors."""
    errors = any(each.severity is Severity.ERROR for each in groups)
    return Concern(
        kind=groups[0].kind,
        severity=Severity.ERROR if errors else Severity.WARNING,
        template="Open alarms of %(executors)d executors: %(count)s.",
        params={"count": told(count, store.COUNTED), "executors": len(groups)},
        last_at=max(each.last_at for each in groups),
        alarms=count,
        is_told_by_alarm=True,
    )


def _alone(alarms: Sequence[Alarm], names: _Names) -> Concern:
    alarm = _foremost(alarms)
    return Concern(
        kind=alarm.kind,
        severity=alarm.severity,
        template=alarm.told.template,
        params=alarm.told.params,
        since=alarm.since,
        last_at=alarm.last_at if alarm.count > 1 else None,
        executor_id=alarm.executor_id,
        executor_name=names.executors.get(alarm.executor_id or 0),
        job_id=alarm.job_id,
        job_name=names.jobs.get(alarm.job_id or 0),
        run_id=alarm.run_id,
        alarm=alarm,
        alarms=len(alarms),
        is_told_by_alarm=True,
    )


def _names(conn: sa.Connection, groups: Sequence[AlarmGroup], found: Sequence[Alarm]) -> _Names:
    executors = {n for each in groups if (n := each.executor_id) is not None}
    jobs = {n for each in found if (n := each.job_id) is not None}
    return _Names(executor_names(conn, executors), names_of_jobs(conn, jobs) if jobs else {})
