"""What may need somebody's attention: the kinds, and how one is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tickwheel_admin.services.runs.waiting import Waiting

PER_KIND = 20  # concerns of one kind that are told


class ConcernKind(StrEnum):
    """What is the matter."""

    FAILING_STREAK = "failing_streak"  # the last runs of a job all failed
    RETRY_FAILED = "retry_failed"  # a run was retried by hand, and that failed as well
    LAST_FAILED = "last_failed"  # the last run of a job failed, and it does not run again soon
    FAILURE_RATE = "failure_rate"  # runs of a job fail more often than usual
    LOW_SUCCESS = "low_success"  # of an executor, or of all, more runs fail than should
    NODES_LOST = "nodes_lost"  # nodes died within the hour
    LATE = "late"  # what is due does not start, or is not even planned
    SLOW = "slow"  # a run takes much longer than usual
    TRIGGER_ERROR = "trigger_error"  # a schedule cannot be computed
    NO_NODES = "no_nodes"  # an executor has jobs and no live node
    FULL = "full"  # runs wait because every slot is taken
    DECLARED_WAITING = "declared_waiting"  # jobs declared in code wait for somebody's decision
    DECLARED_BROKEN = "declared_broken"  # no job can be made of what code declares
    ADMIN_BEHIND = "admin_behind"  # an admin does not keep up


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"  # something does not happen that should
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """One thing that needs attention, and where to look."""

    kind: ConcernKind
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


def told(count: int, limit: int) -> str:
    """A number for people that was counted up to a limit."""
    return f"{count:,}" if count < limit else f"{limit:,}+"
