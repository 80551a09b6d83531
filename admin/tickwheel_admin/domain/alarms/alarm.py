"""An alarm: what is or was the matter, with whom it concerns and what people did about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity

_FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is the matter, as a message id with its params."""

    template: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One alarm of one rule and subject."""

    id: int
    rule_id: int
    subject: str  # "job:17", "failure:11"
    kind: AlarmKind
    severity: Severity
    executor_id: int | None
    job_id: int | None  # of a failure group that of the newest run
    run_id: int | None  # the newest one that it is about
    told: Told
    count: int  # how often it happened
    since: int  # UTC ms, as all instants here: when it began
    last_at: int
    opened_at: int
    acknowledged_by: str | None = None
    acknowledged_at: int | None = None
    assigned_to: str | None = None
    muted_until: int | None = None
    repeats: int = 0
    repeat_at: int | None = None
    escalate_at: int | None = None
    next_at: int | None = None  # of the next repeat or escalation
    escalated_at: int | None = None
    closed_at: int | None = None
    closed_by: str | None = None  # None: it recovered, or its rule is gone

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    @property
    def failure_group_id(self) -> int | None:
        """The failure group that it speaks of; None: it speaks of something else."""
        kind, _, group_id = self.subject.partition(":")
        return int(group_id) if kind == _FAILURE else None

    def is_muted(self, now: int) -> bool:
        """Whether nothing of it is told."""
        return self.muted_until is not None and self.muted_until > now


def subject_of_job(job_id: int) -> str:
    """Subject of the alarms about a job."""
    return f"job:{job_id}"


def subject_of_failure(group_id: int) -> str:
    """Subject of the alarms that speak of a failure group."""
    return f"{_FAILURE}:{group_id}"


def page_to_answer(alarm: Alarm) -> str:
    """Path of the page where one answers the step that an alarm of this kind is about."""
    return f"/runs/{alarm.run_id}/steps/{alarm.told.params['step']}/answer"


def told_to_json(told: Told) -> str:
    """As the table keeps it."""
    return msgspec.json.encode(told).decode()


def told_from_json(text: str) -> Told:
    """What `told_to_json` wrote."""
    return _told.decode(text)


_told = msgspec.json.Decoder(Told)


def next_of(alarm: Alarm) -> int | None:
    """When it must be looked at again for a repeat or an escalation; None: never."""
    if alarm.closed_at is not None or alarm.acknowledged_at is not None:
        return None
    ahead = [at for at in (alarm.repeat_at, alarm.escalate_at) if at is not None]
    return min(ahead, default=None)
