"""What happened, told by signals, in the form that rules are matched with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Told, subject_of_failure, subject_of_job
from tickwheel_admin.domain.alarms.kind import OF_GROUPS, AlarmKind
from tickwheel_admin.domain.alarms.matching import AlarmPlace, RuleBook
from tickwheel_admin.domain.alarms.rule import STREAK, AlarmRule, RuleScope
from tickwheel_admin.domain.alarms.run_limits import MEASURED, is_late, is_slow, measured_ms
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.runs.run import FAILURES, PASSED_OVER, Origin
from tickwheel_admin.domain.workflows.answering import Question, question_of_signal
from tickwheel_admin.domain.workflows.graph import Approval
from tickwheel_admin.domain.workflows.states import APPROVAL
from tickwheel_admin.engine.alarms.failure_groups import CountedFailures
from tickwheel_admin.store.overview.alarm_facts import (
    AlarmedJob,
    alarmed_jobs,
    jobs_of_triggers,
    nodes_with_executors,
    retries_and_steps,
)
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries
from tickwheel_admin.store.workflows.questions import OpenQuestion, open_questions

STREAK_JOBS = 50  # whose newest runs are read at once
MAX_STREAK = 24
MAX_QUESTION_CHARS = 300  # of a message; the page has all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something is the matter with a subject."""

    kind: AlarmKind
    subject: str  # "job:17"
    place: AlarmPlace
    told: Told
    at: int  # UTC ms, when it happened last
    since: int | None = None  # when it began; None: at `at`
    run_id: int | None = None
    count: int = 1
    rule_id: int | None = None  # of this rule only, which has looked itself; None: of all
    # How late a run started or how long it took, and what is usual of its job: rules decide by it.
    measured_ms: int | None = None
    usual_ms: int = 0
    # The same, told of the failure group: what rules hear of it that are about more than one job.
    alike: Happening | None = None
    joins: bool = False  # the job was not among the failing ones of its group

    def heard_by(self, rule: AlarmRule) -> Happening:
        """As this rule hears of it."""
        return self if self.alike is None or rule.scope is RuleScope.JOB else self.alike

    def matters_to(self, rule: AlarmRule) -> bool:
        """Whether it is beyond the rule's limits."""
        if self.rule_id is not None:
            return self.rule_id == rule.id
        if self.measured_ms is None:
            return True
        if self.kind is AlarmKind.SLOW:
            return is_slow(rule.limits, self.measured_ms, self.usual_ms)
        return is_late(rule.limits, self.measured_ms)


def subject_of_executor(executor_id: int) -> str:
    return f"executor:{executor_id}"


def place_of(job: AlarmedJob, *, is_step: bool = False) -> AlarmPlace:
    """Where rules look for it, or for a run of it that is a step of a workflow."""
    return AlarmPlace(executor_id=job.executor_id, job_id=job.id, tags=job.tags, is_step=is_step)


def read_happenings(
    conn: sa.Connection,
    signals: Sequence[AlarmSignal],
    failures: CountedFailures,
    *,
    now: int,
) -> list[Happening]:
    """What signals tell of; those of jobs and nodes that are gone tell nothing, nor do runs of a
    failure group that is muted.
    """
    by_trigger = jobs_of_triggers(conn, _subjects(signals, AlarmKind.TRIGGER_ERROR))
    wanted = {each.job_id for each in signals if each.job_id is not None}
    jobs = alarmed_jobs(conn, wanted | set(by_trigger.values()))
    nodes = nodes_with_executors(conn, _subjects(signals, AlarmKind.NODES_LOST))
    retries, steps = retries_and_steps(conn, _subjects(signals, *_OF_RUNS, *MEASURED))
    asked = open_questions(
        conn, [question_of_signal(s) for s in signals if s.kind is AlarmKind.APPROVAL_WAITS]
    )
    found: list[Happening] = []
    for each in signals:
        match each.kind:
            case AlarmKind.TRIGGER_ERROR:
                job = jobs.get(by_trigger.get(each.subject_id, 0))
                if job is not None and not job.is_deleted:
                    found.append(_of_trigger(each, job))
            case AlarmKind.NODES_LOST:
                if each.subject_id in nodes:
                    found.append(_of_node(each, *nodes[each.subject_id]))
            case AlarmKind.ADMIN_GONE:
                found.append(_of_admin(each))
            case AlarmKind.LEDGER_DIFFERENCE:
                found.append(_of_ledger(each))
            case AlarmKind.STARTED_LATE | AlarmKind.SLOW:
                job = jobs.get(each.job_id or 0)
                if job is not None and not job.is_deleted:
                    found.append(_measured(each, job, is_step=each.subject_id in steps))
            case AlarmKind.APPROVAL_WAITS:
                job, question = jobs.get(each.job_id or 0), question_of_signal(each)
                if job is not None and not job.is_deleted and question in asked:
                    found.append(_of_question(question, asked[question], job))
            case _:
                job = jobs.get(each.job_id or 0)
                group = failures.of_run(each.subject_id) if each.kind in OF_GROUPS else None
                if group is not None and group.is_muted(now):
                    continue
                if job is not None and not job.is_deleted:
                    found += _of_run(
                        each,
                        job,
                        group,
                        joins=group is not None and failures.joins(group.id, job.id),
                        is_retry=each.subject_id in retries,
                        is_step=each.subject_id in steps,
                    )
    return found


def streaks(
    conn: sa.Connection, book: RuleBook, happenings: Iterable[Happening], *, now: int
) -> list[Happening]:
    """Jobs whose last runs all failed, as many as the rules that apply ask for."""
    if AlarmKind.FAILING_STREAK not in book.kinds:
        return []
    failed: dict[int, Happening] = {}
    rules: defaultdict[int, dict[int, AlarmRule]] = defaultdict(dict)
    for each in happenings:
        if each.kind in OF_GROUPS and (job_id := each.place.job_id) is not None:
            failed[job_id] = each
            rules[job_id] |= {r.id: r for r in book.of(AlarmKind.FAILING_STREAK, each.place)}
    suspects = [job_id for job_id, found in rules.items() if found]
    found: list[Happening] = []
    for first in range(0, len(suspects), STREAK_JOBS):
        some = suspects[first : first + STREAK_JOBS]
        marks = recent_summaries(conn, some, until=now, per_job=MAX_STREAK)
        for job_id in some:
            own = [mark for mark in marks.get(job_id, ()) if mark.origin is not Origin.STEP]
            for rule in rules[job_id].values():
                is_near = rule.scope is RuleScope.JOB
                streak = _streak(marks.get(job_id, ()) if is_near else own)
                if len(streak) >= (rule.limits.count or STREAK):
                    found.append(_of_streak(failed[job_id], streak, rule.id))
    return found


def _of_streak(failed: Happening, streak: Sequence[RunSummary], rule_id: int) -> Happening:
    return Happening(
        kind=AlarmKind.FAILING_STREAK,
        subject=failed.subject,
        place=replace(failed.place, is_step=False),  # its rule is known already
        told=Told(
            template="The last %(count)d runs of “%(job)s” failed.",
            params={"count": len(streak), "job": failed.told.params["job"]},
        ),
        at=failed.at,
        since=streak[-1].ended_at,
        run_id=streak[0].id,
        rule_id=rule_id,
    )


def _streak(newest_first: Iterable[RunSummary]) -> list[RunSummary]:
    """The failures since the last success."""
    streak = []
    for mark in newest_first:
        if mark.state in FAILURES:
            streak.append(mark)
        elif mark.ended_at is not None and mark.state not in PASSED_OVER:
            break
    return streak


# --- one signal ----------------------------------------------------------------------------------

_OF_RUNS: Mapping[AlarmKind, str] = {
    AlarmKind.FAILED: Word("“%(job)s” failed."),
    AlarmKind.TRY_FAILED: Word("A try of “%(job)s” failed; it is tried again."),
    AlarmKind.TIMED_OUT: Word("“%(job)s” timed out."),
    AlarmKind.LOST: Word("Nobody knows how a run of “%(job)s” ended: its node was lost."),
    AlarmKind.SKIPPED: Word("“%(job)s” did not run when it should have."),
}


# When other jobs failed like this: the failure is the matter, more than the job.
_ALIKE: Mapping[AlarmKind, str] = {
    AlarmKind.FAILED: Word(
        "“%(job)s” failed, as %(runs)d runs of %(jobs)d jobs did alike: %(error)s"
    ),
    AlarmKind.TIMED_OUT: Word(
        "“%(job)s” timed out, as %(runs)d runs of %(jobs)d jobs did alike: %(error)s"
    ),
    AlarmKind.LOST: Word(
        "Nobody knows how a run of “%(job)s” ended, as of %(runs)d runs of %(jobs)d jobs: %(error)s"
    ),
}


_OF_GROUP = Word("%(runs)d runs of %(jobs)d jobs failed alike: %(error)s")


def _alike(group: FailureGroup, job: AlarmedJob) -> dict[str, Any]:
    return {
        "job": job.name,
        "runs": group.runs,
        "jobs": group.jobs,
        "error": group.text,
        "failure_group": group.id,
    }


def _of_run(
    signal: AlarmSignal,
    job: AlarmedJob,
    group: FailureGroup | None,
    *,
    joins: bool,
    is_retry: bool,
    is_step: bool,
) -> list[Happening]:
    """
    Args:
        joins: the job was not among the failing ones of the group.
    """
    if signal.kind not in _OF_RUNS:
        return []

    def happening(kind: AlarmKind, template: str, **params: Any) -> Happening:
        return Happening(
            kind=kind,
            subject=subject_of_job(job.id),
            place=place_of(job, is_step=is_step),
            told=Told(template=str(template), params=params),
            at=signal.at,
            run_id=signal.subject_id,
        )

    if group is None or not group.is_of_several:
        found = [happening(signal.kind, _OF_RUNS[signal.kind], job=job.name)]
    else:
        alone = happening(signal.kind, _ALIKE[signal.kind], **_alike(group, job))
        alike = replace(
            alone,
            subject=subject_of_failure(group.id),
            told=Told(template=str(_OF_GROUP), params=alone.told.params),
            joins=joins,
        )
        found = [replace(alone, alike=alike)]
    if is_retry:
        template = Word("A retry of “%(job)s” by hand failed as well.")
        found.append(happening(AlarmKind.RETRY_FAILED, template, job=job.name))
    return found


def _measured(signal: AlarmSignal, job: AlarmedJob, *, is_step: bool) -> Happening:
    took = measured_ms(signal)
    if signal.kind is AlarmKind.SLOW:
        template = Word("Run %(run)d of “%(job)s” took %(seconds)s s.")
    else:
        template = Word("Run %(run)d of “%(job)s” started %(seconds)s s late.")
    params = {"run": signal.subject_id, "job": job.name, "seconds": f"{took / 1000:.1f}"}
    return Happening(
        kind=signal.kind,
        subject=subject_of_job(job.id),
        place=place_of(job, is_step=is_step),
        told=Told(template=str(template), params=params),
        at=signal.at,
        since=signal.at - took,
        run_id=signal.subject_id,
        measured_ms=took,
        usual_ms=job.usual_ms,
    )


_ASKS = Word("“%(step)s” of “%(job)s” waits for an answer.")
_ASKS_THIS = Word("“%(step)s” of “%(job)s” waits for an answer: %(question)s")
_ASKS_SOMEBODY = Word("“%(step)s” of “%(job)s” waits for an answer of %(asked)s.")
_ASKS_SOMEBODY_THIS = Word("“%(step)s” of “%(job)s” waits for an answer of %(asked)s: %(question)s")


def _of_question(question: Question, asked: OpenQuestion, job: AlarmedJob) -> Happening:
    status, body = asked.status, asked.step.body
    params: dict[str, Any] = {"step": asked.step.key, "job": job.name}
    if isinstance(body, Approval) and (body.people or body.roles):
        params["asked"] = ", ".join((*body.people, *body.roles))[:MAX_QUESTION_CHARS]
    if isinstance(body, Approval) and question.reason == APPROVAL:
        if status.message:
            params["question"] = " ".join(status.message.split())[:MAX_QUESTION_CHARS]
        if status.due_at is not None:
            params |= {"due_at": status.due_at, "silence": body.silence.value}
    template = {
        (False, False): _ASKS,
        (False, True): _ASKS_THIS,
        (True, False): _ASKS_SOMEBODY,
        (True, True): _ASKS_SOMEBODY_THIS,
    }["asked" in params, "question" in params]
    return Happening(
        kind=AlarmKind.APPROVAL_WAITS,
        subject=question.subject,
        place=place_of(job),
        told=Told(template=str(template), params=params),
        at=status.since,
        run_id=question.run_id,
    )


def _of_trigger(signal: AlarmSignal, job: AlarmedJob) -> Happening:
    return Happening(
        kind=AlarmKind.TRIGGER_ERROR,
        subject=f"trigger:{signal.subject_id}",
        place=place_of(job),
        told=Told(
            template="A trigger of “%(job)s” does not fire: %(reason)s",
            params={"job": job.name, "reason": signal.text or ""},
        ),
        at=signal.at,
    )


def _of_node(
    signal: AlarmSignal, node_name: str, executor_id: int, executor_name: str
) -> Happening:
    return Happening(
        kind=AlarmKind.NODES_LOST,
        subject=subject_of_executor(executor_id),
        place=AlarmPlace(executor_id=executor_id),
        told=Told(
            template="“%(executor)s” lost the node “%(node)s”.",
            params={"executor": executor_name, "node": node_name},
        ),
        at=signal.at,
    )


def _of_admin(signal: AlarmSignal) -> Happening:
    return Happening(
        kind=AlarmKind.ADMIN_GONE,
        subject=f"admin:{signal.subject_id}",
        place=AlarmPlace(),
        told=Told(
            template="The admin “%(admin)s” ended without saying so.",
            params={"admin": signal.text or ""},
        ),
        at=signal.at,
    )


def _of_ledger(signal: AlarmSignal) -> Happening:
    return Happening(
        kind=AlarmKind.LEDGER_DIFFERENCE,
        subject="installation",
        place=AlarmPlace(),
        told=Told(
            template="The self-audit found what the ledger cannot explain: %(difference)s",
            params={"difference": signal.text or ""},
        ),
        at=signal.at,
    )


def _subjects(signals: Iterable[AlarmSignal], *kinds: AlarmKind) -> set[int]:
    return {each.subject_id for each in signals if each.kind in kinds}


def by_rules(
    book: RuleBook, happenings: Iterable[Happening]
) -> dict[tuple[int, str], list[Happening]]:
    """Happenings by (rule, subject), for every rule that applies."""
    found: defaultdict[tuple[int, str], list[Happening]] = defaultdict(list)
    for each in happenings:
        for rule in book.of(each.kind, each.place):
            if each.matters_to(rule):
                heard = each.heard_by(rule)
                found[rule.id, heard.subject].append(heard)
    return found
