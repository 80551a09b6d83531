"""What "Needs attention" finds by comparing runs or by asking what waits, for those rules that ask
for it.

The overview tells the worst of each kind. Here all of it counts, and whatever an open alarm is
about is looked at again: an alarm that others crowd out of a list is not over.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm, Told, subject_of_job
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.matching import AlarmPlace, RuleBook
from tickwheel_admin.engine.alarms.happenings import (
    Happening,
    place_of,
    subject_of_executor,
)
from tickwheel_admin.services.overview.attention.concern import Concern
from tickwheel_admin.services.overview.attention.deadlines import deadline_warnings
from tickwheel_admin.services.overview.attention.declared_jobs import (
    declared_broken,
    declared_waiting,
)
from tickwheel_admin.services.overview.attention.failures import last_failed
from tickwheel_admin.services.overview.attention.outcomes import (
    DAY_MS,
    HOUR_MS,
    low_success,
    read_outcomes,
)
from tickwheel_admin.services.overview.attention.rates import failure_rates, often_failed
from tickwheel_admin.store.overview.alarm_facts import alarmed_jobs

OF_OUTCOMES = frozenset({AlarmKind.LAST_FAILED, AlarmKind.FAILURE_RATE, AlarmKind.LOW_SUCCESS})
OF_DECLARED = frozenset({AlarmKind.DECLARED_WAITING, AlarmKind.DECLARED_BROKEN})
CONCERNS = OF_OUTCOMES | OF_DECLARED | {AlarmKind.DEADLINE_WARNING}
MAX_LAST_FAILED = 1_000  # jobs that are looked at


def read_concerns(
    conn: sa.Connection, book: RuleBook, standing: Iterable[Alarm], *, now: int
) -> list[Happening]:
    """All that holds now of the kinds that rules ask for; nothing is written.

    Args:
        standing: open alarms, which are looked at whatever else is the matter.
    """
    concerns: list[Concern] = []
    if book.kinds & OF_OUTCOMES:
        concerns += _of_outcomes(conn, book, list(standing), now=now)
    if AlarmKind.DECLARED_WAITING in book.kinds:
        concerns += declared_waiting(conn, None, most=None)
    if AlarmKind.DECLARED_BROKEN in book.kinds:
        concerns += declared_broken(conn, None, most=None)
    if AlarmKind.DEADLINE_WARNING in book.kinds:
        concerns += deadline_warnings(conn, None, most=None, now=now)
    jobs = alarmed_jobs(conn, {n for each in concerns if (n := each.job_id) is not None})
    found = []
    for each in concerns:
        job = jobs.get(each.job_id or 0)
        if each.job_id is not None and job is not None and not job.is_deleted:
            found.append(_happening(each, subject_of_job(job.id), place_of(job), now=now))
        elif each.job_id is None:
            found.append(_of_executor(each, now=now))
    return found


def _of_outcomes(
    conn: sa.Connection, book: RuleBook, standing: list[Alarm], *, now: int
) -> list[Concern]:
    day = read_outcomes(conn, None, since=now - DAY_MS)
    found: list[Concern] = []
    if AlarmKind.LAST_FAILED in book.kinds:
        failed = day.all_failures
        found += last_failed(conn, None, failed, most=MAX_LAST_FAILED, now=now)
    if AlarmKind.FAILURE_RATE in book.kinds:
        jobs = {a.job_id for a in standing if a.kind is AlarmKind.FAILURE_RATE and a.job_id}
        suspects = dict.fromkeys([*often_failed(day.all_failures, most=None), *sorted(jobs)])
        found += failure_rates(conn, list(suspects), standing=jobs, now=now)
    if AlarmKind.LOW_SUCCESS in book.kinds:
        hour = read_outcomes(conn, None, since=now - HOUR_MS)
        executors = {
            a.executor_id for a in standing if a.kind is AlarmKind.LOW_SUCCESS and a.executor_id
        }
        found += low_success(conn, [hour, day], standing=executors, now=now)
    return found


def _of_executor(concern: Concern, *, now: int) -> Happening:
    executor_id = concern.executor_id
    subject = "installation" if executor_id is None else subject_of_executor(executor_id)
    return _happening(concern, subject, AlarmPlace(executor_id=executor_id), now=now)


def _happening(concern: Concern, subject: str, place: AlarmPlace, *, now: int) -> Happening:
    return Happening(
        kind=concern.kind,
        subject=subject,
        place=place,
        told=Told(template=concern.template, params=concern.params),
        # Of runs that failed, when they did: a success after that may end the alarm.
        at=min(concern.last_at or now, now),
        since=concern.since,
        run_id=concern.run_id,
    )
