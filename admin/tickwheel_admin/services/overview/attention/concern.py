"""What may need somebody's attention, and how one is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.kind import AlarmKind as AlarmKind
from tickwheel_admin.domain.alarms.kind import Severity as Severity
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.services.runs.waiting import Waiting

PER_KIND = 20  # concerns of one kind that are told


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """One thing that needs attention, and where to look."""

    kind: AlarmKind
    severity: Severity
    template: str  # English message id
    params: Mapping[str, Any] = field(default_factory=dict)
    since: int | None = None  # UTC ms, when it began; None: nobody knows
    last_at: int | None = None  # UTC ms, when it happened last; None: it is a state, not an event
    executor_id: int | None = None
    executor_name: str | None = None
    job_id: int | None = None
    job_name: str | None = None
    run_id: int | None = None
    trigger_id: int | None = None
    admin_id: int | None = None
    admin_name: str | None = None
    why: Waiting | None = None  # late: what the run waits for
    alarm: Alarm | None = None  # an open one about it, the one that needs somebody most
    alarms: int = 0  # how many open ones this row stands for
    failure: FailureGroup | None = None  # it is about this one, and stands for its jobs
    failing_jobs: frozenset[int] = frozenset()  # of the failure, as far as they are looked at
    is_told_by_alarm: bool = False  # nothing else says so: the text is the alarm's, or counts them

    @property
    def is_treated(self) -> bool:
        """Whether somebody looks after it, or wants to hear nothing of it."""
        of = self.failure
        if of is not None and (of.acknowledged_at is not None or of.muted_until is not None):
            return True
        return self.alarm is not None and is_treated(self.alarm)


def is_treated(alarm: Alarm) -> bool:
    """Whether somebody has acknowledged or muted it."""
    return alarm.acknowledged_at is not None or alarm.muted_until is not None


def told(count: int, limit: int) -> str:
    """A number for people that was counted up to a limit."""
    return f"{count:,}" if count < limit else f"{limit:,}+"
