"""Which runs people ask for, and what they are told of one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.run import FAILURES, FINAL, RunState
from tickwheel_admin.services.run_waiting import Waiting
from tickwheel_admin.store.run_lists import AttemptView, RunItem


class RunGroup(StrEnum):
    """States that people ask for together."""

    FAILED_ANY = "failed_any"  # failed, timed out or lost: what can be retried
    ACTIVE = "active"  # queued, dispatched or running


_STATES = {
    RunGroup.FAILED_ANY: FAILURES,
    RunGroup.ACTIVE: frozenset(RunState) - FINAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs a list shows; shards are shown with their whole fire only."""

    state: str | None = None  # one of RunState or of RunGroup
    job_id: int | None = None
    executor_id: int | None = None
    from_at: int | None = None  # scheduled at or after
    to_at: int | None = None  # scheduled before


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """One run and everything about it but its log."""

    item: RunItem
    config: JobConfig  # of the revision it was made with
    parameters: str  # JSON text that its handler gets
    attempts: list[AttemptView]  # ended ones that another try followed, oldest first
    waiting: Waiting | None  # why a queued run does not start
    job_deleted: bool
    retried_by: list[int]  # runs that retry it by hand
    shards: list[RunItem]  # of a whole fire, by their index; at most 1,000
    children: list[RunItem]  # runs that its end asked for, as far as the caller may see them


def states_of(state: str | None) -> frozenset[RunState] | None:
    """The states that a word means; None for no word.

    Raises:
        InvalidInput: no such word.
    """
    if state is None:
        return None
    if state in set(RunGroup):
        return _STATES[RunGroup(state)]
    if state in set(RunState):
        return frozenset({RunState(state)})
    raise InvalidInput.one(
        "state",
        "not_one_of",
        "This must be one of %(choices)s.",
        choices=", ".join((*RunState, *RunGroup)),
    )
