"""What only time makes true: executors without nodes or slots, runs that start late or take long,
planning and admins that do not keep up.

Each look tells everything that holds now; an open alarm of these kinds that it does not tell is
over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Told, subject_of_job
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.matching import AlarmPlace, RuleBook
from tickwheel_admin.domain.alarms.rule import FULL_S, NO_NODES_S, AlarmRule
from tickwheel_admin.domain.alarms.run_limits import MEASURED, is_late, is_slow
from tickwheel_admin.engine.alarms.concerns import CONCERNS
from tickwheel_admin.engine.alarms.happenings import (
    Happening,
    place_of,
    subject_of_executor,
)
from tickwheel_admin.services.overview.attention.admins import admins_behind, database_slow
from tickwheel_admin.services.overview.attention.concern import Concern
from tickwheel_admin.services.overview.attention.coverage import standing_gaps, told_of_gap
from tickwheel_admin.services.overview.attention.executors import late_planning, late_runs
from tickwheel_admin.store.alarms.evaluation import SeenSince
from tickwheel_admin.store.overview import attention as facts
from tickwheel_admin.store.overview.alarm_facts import (
    AlarmedJob,
    LateStart,
    alarmed_jobs,
    late_starts,
)
from tickwheel_admin.store.overview.attention import Load, RunningRun
from tickwheel_admin.store.runs.queue_depth import QueueDepth, queue_depths
from tickwheel_admin.store.triggers.pauses import read_pauses

OF_EXECUTORS = frozenset({AlarmKind.NO_NODES, AlarmKind.FULL})
OF_INSTALLATION = frozenset({AlarmKind.LATE, AlarmKind.ADMIN_BEHIND, AlarmKind.DATABASE_SLOW})
CONDITIONS = (
    OF_EXECUTORS | OF_INSTALLATION | MEASURED | CONCERNS | frozenset({AlarmKind.COVERAGE_GAP})
)
MAX_LATE_EXECUTORS = 100  # that are asked about in a look


class FirstSeen:
    """Since when conditions hold that nothing else says the beginning of.

    Another admin may look next, so it is stored between two looks.
    """

    def __init__(self, before: SeenSince) -> None:
        """
        Args:
            before: what the look before has left.
        """
        self._before = before
        self._after: dict[str, dict[int, int]] = {}

    def since(self, kind: AlarmKind, holding: Iterable[int], *, now: int) -> Mapping[int, int]:
        """By executor; those that do not hold any more are forgotten."""
        before = self._before.get(kind.value, {})
        known = {executor_id: before.get(executor_id, now) for executor_id in holding}
        if known:
            self._after[kind.value] = known
        return known

    @property
    def changed(self) -> SeenSince | None:
        """What is to be stored; None: what was stored is still right."""
        return None if self._after == self._before else self._after


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a look has found."""

    holding: Sequence[Happening] = ()
    # Executors of which not all could be looked at: what is not among `holding` may hold.
    unsure: Collection[tuple[AlarmKind, int]] = frozenset()


def read_conditions(
    conn: sa.Connection, rules: Sequence[AlarmRule], first_seen: FirstSeen, *, now: int
) -> Conditions:
    """Everything that holds now and that a rule asks for; nothing is written."""
    book = RuleBook(rules)
    found: list[Happening] = []
    unsure: set[tuple[AlarmKind, int]] = set()
    if book.kinds & OF_INSTALLATION:
        found += _of_installation(conn, book, now=now)
    if book.kinds & (OF_EXECUTORS | {AlarmKind.LATE, AlarmKind.STARTED_LATE}):
        loads = facts.loads(conn, scope=None, now=now)
        waiting = queue_depths(conn, [each.id for each in loads], now=now)
        found += _without_nodes(conn, book, loads, waiting, first_seen, now=now)
        found += _full(book, loads, waiting, first_seen, now=now)
        found += _late_runs(conn, book, loads, waiting, unsure, now=now)
        found += _late_starts(conn, book, rules, loads, waiting, unsure, now=now)
    if AlarmKind.SLOW in book.kinds:
        found += _slow(conn, book, rules, now=now)
    if AlarmKind.COVERAGE_GAP in book.kinds:
        found += _gaps(conn, book, now=now)
    return Conditions(holding=found, unsure=unsure)


# --- executors -----------------------------------------------------------------------------------


def _without_nodes(
    conn: sa.Connection,
    book: RuleBook,
    loads: Sequence[Load],
    waiting: Mapping[int, QueueDepth],
    first_seen: FirstSeen,
    *,
    now: int,
) -> list[Happening]:
    kind = AlarmKind.NO_NODES
    if kind not in book.kinds:
        return []
    idle = [each for each in loads if not each.live_nodes]
    active = facts.with_active_jobs(conn, [each.id for each in idle if not each.paused])
    concerned = {each.id: each for each in idle if each.id in active or each.id in waiting}
    seen = first_seen.since(kind, concerned, now=now)
    ended = facts.last_node_ended(conn, list(concerned))
    found = []
    for executor_id, load in concerned.items():
        since = min(ended.get(executor_id, seen[executor_id]), now)
        place = AlarmPlace(executor_id=executor_id)
        for rule in book.of(kind, place):
            if now - since >= (rule.limits.seconds or NO_NODES_S) * 1000:
                told = Told(
                    template="“%(executor)s” has jobs, but no live node.",
                    params={"executor": load.name},
                )
                found.append(_of_executor(kind, place, told, since=since, now=now, rule=rule))
    return found


def _full(
    book: RuleBook,
    loads: Sequence[Load],
    waiting: Mapping[int, QueueDepth],
    first_seen: FirstSeen,
    *,
    now: int,
) -> list[Happening]:
    kind = AlarmKind.FULL
    if kind not in book.kinds:
        return []
    full = {
        each.id: each
        for each in loads
        if each.open_slots and not each.free_slots and each.id in waiting
    }
    seen = first_seen.since(kind, full, now=now)
    found = []
    for executor_id, load in full.items():
        # Another run waits each time: what waits now need not have waited long.
        since = min(seen[executor_id], waiting[executor_id].since)
        place = AlarmPlace(executor_id=executor_id)
        for rule in book.of(kind, place):
            if now - since >= (rule.limits.seconds or FULL_S) * 1000:
                told = Told(
                    template="All %(slots)d slots of “%(executor)s” are taken; %(waiting)s runs"
                    " wait.",
                    params={
                        "slots": load.open_slots,
                        "executor": load.name,
                        "waiting": str(waiting[executor_id].waiting),
                    },
                )
                found.append(_of_executor(kind, place, told, since=since, now=now, rule=rule))
    return found


def _late_runs(
    conn: sa.Connection,
    book: RuleBook,
    loads: Sequence[Load],
    waiting: Mapping[int, QueueDepth],
    unsure: set[tuple[AlarmKind, int]],
    *,
    now: int,
) -> list[Happening]:
    """Due runs that wait although slots are free, as the overview lists them."""
    kind = AlarmKind.LATE
    if kind not in book.kinds:
        return []
    late = late_runs(conn, loads, waiting, most=MAX_LATE_EXECUTORS, now=now)
    unsure |= {(kind, executor_id) for executor_id in late.left_out}
    return [
        Happening(
            kind=kind,
            subject=subject_of_executor(each.executor_id or 0),
            place=AlarmPlace(executor_id=each.executor_id),
            told=Told(template=each.template, params=each.params),
            at=now,
            since=each.since,
            run_id=each.run_id,
        )
        for each in late.concerns
        if each.kind is kind  # others wait for slots, of which FULL tells
    ]


def _of_executor(
    kind: AlarmKind, place: AlarmPlace, told: Told, *, since: int, now: int, rule: AlarmRule
) -> Happening:
    return Happening(
        kind=kind,
        subject=subject_of_executor(place.executor_id or 0),
        place=place,
        told=told,
        at=now,
        since=since,
        rule_id=rule.id,
    )


# --- jobs ----------------------------------------------------------------------------------------


def _late_starts(
    conn: sa.Connection,
    book: RuleBook,
    rules: Sequence[AlarmRule],
    loads: Sequence[Load],
    waiting: Mapping[int, QueueDepth],
    unsure: set[tuple[AlarmKind, int]],
    *,
    now: int,
) -> list[Happening]:
    kind = AlarmKind.STARTED_LATE
    shortest = min(
        (r.limits.seconds or 0 for r in rules if r.kind is kind and r.enabled), default=None
    )
    if shortest is None or read_pauses(conn, None).everything is not None:
        return []
    before = now - shortest * 1000
    late: list[LateStart] = []
    for load in loads:
        if not load.paused and load.id in waiting and waiting[load.id].since <= before:
            some, is_all = late_starts(conn, load.id, before=before, now=now)
            late += some
            if not is_all:
                unsure.add((kind, load.id))
    jobs = alarmed_jobs(conn, [each.job_id for each in late])
    found = []
    for each in late:
        job = jobs.get(each.job_id)
        if job is None or job.is_deleted:  # nobody has rules about what a workflow hides
            continue
        for rule in book.of(kind, place_of(job, is_step=each.are_steps)):
            if is_late(rule.limits, now - each.due_at):
                told = Told(
                    template="Run %(run)d of “%(job)s” should have started %(seconds)d s ago;"
                    " waiting are %(count)d.",
                    params={
                        "run": each.run_id,
                        "job": job.name,
                        "seconds": (now - each.due_at) // 1000,
                        "count": each.count,
                    },
                )
                found.append(
                    _of_job(kind, job, told, each.run_id, since=each.due_at, now=now, rule=rule)
                )
    return _oldest_of_each(found)


def _slow(
    conn: sa.Connection, book: RuleBook, rules: Sequence[AlarmRule], *, now: int
) -> list[Happening]:
    kind = AlarmKind.SLOW
    slow = [rule.limits for rule in rules if rule.kind is kind and rule.enabled]
    # A limit by what is usual may be shorter than every fixed one.
    shortest = min((x.seconds or 0 if x.factor is None else 0 for x in slow), default=0)
    longest: dict[tuple[int, bool], RunningRun] = {}
    running = facts.long_running(
        conn, started_before=now - shortest * 1000, scope=None, with_steps=True
    )
    for run in running:
        longest.setdefault((run.job_id, run.is_step), run)  # the oldest comes first
    jobs = alarmed_jobs(conn, [job_id for job_id, _ in longest])
    found = []
    for (job_id, is_step), run in longest.items():
        job = jobs.get(job_id)
        if job is None or job.is_deleted:
            continue
        took = now - run.started_at
        for rule in book.of(kind, place_of(job, is_step=is_step)):
            if is_slow(rule.limits, took, job.usual_ms):
                told = Told(
                    template="Run %(run)d of “%(job)s” has been running for %(seconds)d s.",
                    params={"run": run.id, "job": job.name, "seconds": took // 1000},
                )
                found.append(
                    _of_job(kind, job, told, run.id, since=run.started_at, now=now, rule=rule)
                )
    return _oldest_of_each(found)


def _gaps(conn: sa.Connection, book: RuleBook, *, now: int) -> list[Happening]:
    return [
        Happening(
            kind=AlarmKind.COVERAGE_GAP,
            subject=subject_of_job(each.job.id),
            place=place_of(each.job),
            told=told_of_gap(each),
            at=now,
            since=each.since,
            rule_id=rule.id,
        )
        for each in standing_gaps(conn, None, book, most=None, now=now)
        for rule in each.rules
    ]


def _oldest_of_each(found: Iterable[Happening]) -> list[Happening]:
    """One of each rule and job: a rule about a job is about its steps as well as its other runs."""
    oldest: dict[tuple[int | None, str], Happening] = {}
    for each in sorted(found, key=lambda each: each.since or 0):
        oldest.setdefault((each.rule_id, each.subject), each)
    return list(oldest.values())


def _of_job(
    kind: AlarmKind,
    job: AlarmedJob,
    told: Told,
    run_id: int,
    *,
    since: int,
    now: int,
    rule: AlarmRule,
) -> Happening:
    return Happening(
        kind=kind,
        subject=subject_of_job(job.id),
        place=place_of(job),
        told=told,
        at=now,
        since=since,
        run_id=run_id,
        rule_id=rule.id,
    )


# --- the installation ----------------------------------------------------------------------------


def _of_installation(conn: sa.Connection, book: RuleBook, *, now: int) -> list[Happening]:
    concerns: list[Concern] = []
    if AlarmKind.LATE in book.kinds:
        concerns += late_planning(conn, None, read_pauses(conn, None), now=now)
    if AlarmKind.ADMIN_BEHIND in book.kinds:
        concerns += admins_behind(conn, now=now)
    if AlarmKind.DATABASE_SLOW in book.kinds:
        concerns += database_slow(conn, now=now)
    by_subject: defaultdict[tuple[AlarmKind, str], list[Concern]] = defaultdict(list)
    for each in concerns:
        subject = "installation" if each.admin_id is None else f"admin:{each.admin_id}"
        by_subject[each.kind, subject].append(each)
    return [
        Happening(
            kind=kind,
            subject=subject,
            place=AlarmPlace(),
            told=Told(template=same[0].template, params=same[0].params),
            at=now,
            since=same[0].since,
        )
        for (kind, subject), same in by_subject.items()
    ]
