"""Puts a message together when it is sent: what happened, what was before, and where to look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm, page_to_answer
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.message import MAX_ENTRIES, AlarmEntry, AlarmMessage, Occasion
from tickwheel_admin.domain.alarms.notification import Notification, NotificationItem
from tickwheel_admin.domain.alarms.own_text import render_own_text
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.runs.run import PASSED_OVER, RunState
from tickwheel_admin.store.alarms.alarms import alarms_by_id
from tickwheel_admin.store.alarms.deliveries import count_items, items_of
from tickwheel_admin.store.alarms.rules import rules_by_id
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.overview.alarm_facts import AlarmedJob, alarmed_jobs, run_messages
from tickwheel_admin.store.overview.attention import next_fires_of_jobs
from tickwheel_admin.store.runs.summaries import RunSummary, recent_summaries
from tickwheel_admin.store.system.settings import read_settings

READ_ITEMS = 1_000  # of a message, of which MAX_ENTRIES become entries
MAX_ERROR_CHARS = 300
BEFORE = 25  # runs of a job that say what it did before
_LATER = (Occasion.OPENED, Occasion.REPEATED, Occasion.ESCALATED, Occasion.RECOVERED)


@dataclass(frozen=True, slots=True)
class Pages:
    """Absolute URLs of the console."""

    base: str  # without a slash at its end

    def of_alarm(self, alarm_id: int) -> str:
        return f"{self.base}/alarms/{alarm_id}"

    def of_message(self, notification_id: int) -> str:
        """The page that lists what a message tells of."""
        return f"{self.base}/alarms/messages/{notification_id}"

    def links(self, alarm: Alarm) -> dict[str, str]:
        """Where to look, and what to do: pages that ask, never actions."""
        found = {"alarm": self.of_alarm(alarm.id)}
        if alarm.failure_group_id is not None:
            found["failure"] = f"{self.base}/alarms/failures/{alarm.failure_group_id}"
        if alarm.run_id is not None:
            run = f"{self.base}/runs/{alarm.run_id}"
            found["run"] = run
            if alarm.kind is AlarmKind.APPROVAL_WAITS:
                found["answer"] = self.base + page_to_answer(alarm)
            else:
                found |= {"log": f"{run}#h-log", "retry": f"{run}/retry"}
        if alarm.job_id is not None:
            found["job"] = f"{self.base}/jobs/{alarm.job_id}"
        if alarm.executor_id is not None:
            found["executor"] = f"{self.base}/executors/{alarm.executor_id}"
        return found


def build_message(
    conn: sa.Connection, notification: Notification, pages: Pages, *, now: int
) -> AlarmMessage | None:
    """The message; None: there is nothing left that it could tell of."""
    items = items_of(conn, notification.id, limit=READ_ITEMS)
    alarms = alarms_by_id(conn, {each.alarm_id for each in items})
    occasions = _occasions(items)
    shown = sorted(
        (each for each in alarms.values()),
        key=lambda each: (
            not each.is_open,  # what is over takes no place from what is not
            each.severity is not Severity.ERROR,
            -each.last_at,
            -each.id,
        ),
    )[:MAX_ENTRIES]
    if not shown:
        return None
    facts = _Facts(conn, shown, now=now)
    covered = len(occasions)
    if len(items) == READ_ITEMS:
        covered = count_items(conn, notification.id)
    return AlarmMessage(
        id=notification.message_id,
        written_at=notification.written_at,
        installation=read_settings(conn).instance_name or pages.base,
        entries=[facts.entry(each, occasions[each.id], pages) for each in shown],
        covered=covered,
        link=pages.of_alarm(shown[0].id) if covered == 1 else pages.of_message(notification.id),
    )


def _occasions(items: Iterable[NotificationItem]) -> dict[int, Occasion]:
    """By alarm, the last thing that is told of it."""
    found: dict[int, Occasion] = {}
    for each in items:
        known = found.get(each.alarm_id, each.occasion)
        found[each.alarm_id] = max(known, each.occasion, key=_LATER.index)
    return found


class _Facts:
    """What the entries of one message tell beside their alarms."""

    def __init__(self, conn: sa.Connection, alarms: Sequence[Alarm], *, now: int) -> None:
        self._rules = rules_by_id(conn, {each.rule_id for each in alarms}, deleted=True)
        job_ids = sorted({each.job_id for each in alarms if each.job_id is not None})
        self._jobs = alarmed_jobs(conn, job_ids)
        self._executors = executor_names(
            conn, {each.executor_id for each in alarms if each.executor_id is not None}
        )
        self._next = next_fires_of_jobs(conn, job_ids) if job_ids else {}
        self._marks = recent_summaries(conn, job_ids, until=now, per_job=BEFORE)
        self._errors = run_messages(
            conn, {each.run_id for each in alarms if each.run_id is not None}
        )

    def entry(self, alarm: Alarm, occasion: Occasion, pages: Pages) -> AlarmEntry:
        rule, job = self._rules.get(alarm.rule_id), self._jobs.get(alarm.job_id or 0)
        error = last_line(self._errors.get(alarm.run_id or 0))
        of_job = None if alarm.failure_group_id is not None else alarm.job_id
        before = _before(alarm, self._marks.get(of_job or 0, ()))
        executor = self._executors.get(alarm.executor_id or 0)
        return AlarmEntry(
            alarm_id=alarm.id,
            occasion=occasion,
            kind=alarm.kind,
            severity=alarm.severity,
            template=alarm.told.template,
            params=alarm.told.params,
            since=alarm.since,
            last_at=alarm.last_at,
            count=alarm.count,
            closed_at=alarm.closed_at,
            rule_name="" if rule is None else rule.name,
            own_text=_own_text(alarm, rule, job, executor, error),
            executor_name=executor,
            job_name=None if job is None else job.name,
            failure=_error_of(alarm),
            owner=job.owner or None if job is not None else None,
            run_id=alarm.run_id,
            error_line=error,
            before_template=before[0],
            before_params=before[1],
            next_fire_at=self._next.get(of_job or 0),
            links=pages.links(alarm),
        )


def _error_of(alarm: Alarm) -> str | None:
    return None if alarm.failure_group_id is None else str(alarm.told.params["error"])


def last_line(message: str | None) -> str | None:
    """The last line of an error that says anything: of a traceback, the exception."""
    lines = [line.strip() for line in (message or "").splitlines()]
    return next((line[:MAX_ERROR_CHARS] for line in reversed(lines) if line), None)


def _before(alarm: Alarm, newest_first: Sequence[RunSummary]) -> tuple[str, Mapping[str, Any]]:
    """What its job did before this began: a text and its params; "": nothing is known."""
    earlier = [
        mark
        for mark in newest_first
        if mark.ended_at is not None
        and mark.ended_at < alarm.since
        and mark.id != alarm.run_id
        and mark.state not in PASSED_OVER
    ]
    in_a_row = 0
    for mark in earlier:
        if mark.state is not RunState.SUCCEEDED:
            break
        in_a_row += 1
    if in_a_row > 1:
        return _SUCCEEDED_OFTEN, {"count": in_a_row}
    if in_a_row == 1:
        return _SUCCEEDED, {}
    return (_FAILED, {}) if earlier else ("", {})


_SUCCEEDED_OFTEN = Word("Its %(count)d runs before had succeeded.")
_SUCCEEDED = Word("Its run before had succeeded.")
_FAILED = Word("Its run before had not succeeded either.")


def _own_text(
    alarm: Alarm,
    rule: AlarmRule | None,
    job: AlarmedJob | None,
    executor: str | None,
    error: str | None,
) -> str:
    if rule is None or not rule.own_text:
        return ""
    return render_own_text(
        rule.own_text,
        {
            "job": None if job is None else job.name,
            "executor": executor,
            "owner": None if job is None else job.owner,
            "kind": alarm.kind.value,
            "severity": alarm.severity.value,
            "count": alarm.count,
            "run_id": alarm.run_id,
            "error": error,
            "since": instant_to_iso(alarm.since),
            "rule": rule.name,
        },
    )
