"""A failure group: all runs of an executor that failed alike, and what people do about them.

Which runs those are is decided by `domain.runs.error`: its fingerprint is the id of the group. A
group stands until what failed works again. When the same failure comes back, the group does, too:
it counts from the start, and keeps its owner and its notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

MAX_OWNER_CHARS = 100
MAX_NOTES_CHARS = 4_000
MAX_MUTE_S = 30 * 86_400


class GroupState(StrEnum):
    """What people did about a group. The values are part of the API."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"  # somebody looks after it
    MUTED = "muted"  # alarms say nothing of its runs
    RESOLVED = "resolved"  # it works again, or somebody said so


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedFailure:
    """A run that failed, after its last try."""

    group_id: int
    executor_id: int
    text: str
    run_id: int
    job_id: int
    revision: int
    node_id: int | None
    at: int  # UTC ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """A row of `failure_group`. Instants are UTC ms."""

    id: int
    executor_id: int
    text: str
    since: int  # the first failure since it was resolved last
    last_at: int
    runs: int  # since then
    jobs: int  # of these runs
    first_run_id: int
    first_job_id: int
    first_revision: int
    first_node_id: int | None
    last_run_id: int
    returns: int = 0  # how often it came back after it was resolved
    owner: str | None = None
    notes: str = ""
    acknowledged_by: str | None = None
    acknowledged_at: int | None = None
    muted_until: int | None = None
    resolved_at: int | None = None
    resolved_by: str | None = None  # None: its jobs succeeded
    version: int = 1  # rises with each edit of owner and notes

    @property
    def is_resolved(self) -> bool:
        return self.resolved_at is not None

    @property
    def is_of_several(self) -> bool:
        """Whether alarms speak of it, and not of its jobs."""
        return self.jobs > 1

    def is_muted(self, now: int) -> bool:
        """Whether alarms say nothing of its runs."""
        return self.muted_until is not None and self.muted_until > now

    def state(self, now: int) -> GroupState:
        """What holds at this instant: a mute ends by itself."""
        if self.is_resolved:
            return GroupState.RESOLVED
        if self.is_muted(now):
            return GroupState.MUTED
        if self.acknowledged_at is not None:
            return GroupState.ACKNOWLEDGED
        return GroupState.OPEN


def counted(
    group: FailureGroup | None, failures: Sequence[GroupedFailure], *, new_jobs: int
) -> FailureGroup:
    """The group with these runs, too: at least one.

    Args:
        group: None: nothing failed like this yet.
        new_jobs: jobs of them that it has not counted; of a group that is new or comes back, all.
    """
    first = min(failures, key=lambda each: (each.at, each.run_id))
    last = max(failures, key=lambda each: (each.at, each.run_id))
    if group is not None and not group.is_resolved:
        return replace(
            group,
            last_at=max(group.last_at, last.at),
            last_run_id=last.run_id if last.at >= group.last_at else group.last_run_id,
            runs=group.runs + len(failures),
            jobs=group.jobs + new_jobs,
        )
    again = FailureGroup(
        id=first.group_id,
        executor_id=first.executor_id,
        text=first.text,
        since=first.at,
        last_at=last.at,
        runs=len(failures),
        jobs=new_jobs,
        first_run_id=first.run_id,
        first_job_id=first.job_id,
        first_revision=first.revision,
        first_node_id=first.node_id,
        last_run_id=last.run_id,
    )
    if group is None:
        return again
    return replace(
        again,
        returns=group.returns + 1,
        owner=group.owner,
        notes=group.notes,
        muted_until=group.muted_until,
        version=group.version,
    )
