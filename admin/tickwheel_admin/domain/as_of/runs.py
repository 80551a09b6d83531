"""A run as it stood at a past instant, by what the ledger tells of it now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.runs.run import FINAL, LIVE, RunState


class StandingThen(StrEnum):
    """Where a run stood that had not ended."""

    PLANNED = "planned"  # it was written, and its instant had not come
    QUEUED = "queued"  # it could have started, or waited for its next try
    PARKED = "parked"  # it waited for an earlier run of its job
    DISPATCHED = "dispatched"  # committed to a node, which had not confirmed it
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """An attempt that ended, while its run went on."""

    attempt: int
    node_id: int | None
    dispatched_at: int | None
    started_at: int | None
    ended_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """What the ledger tells of a run now, as far as it matters to the past."""

    id: int
    executor_id: int
    job_id: int
    job_revision: int
    trigger_id: int | None
    fire_id: int | None
    is_part: bool  # a shard, a step or a try: another run tells of it
    takes_slot: bool  # of a node, while it is live
    state: RunState  # now, as are the attempt and its node
    reason: str | None
    scheduled_at: int
    due_at: int  # first
    created_at: int
    attempt: int
    node_id: int | None
    is_claimed: bool  # the last attempt counts: it was not handed back
    dispatched_at: int | None
    started_at: int | None
    ended_at: int | None

    def was_there(self, at: int) -> bool:
        """Whether it was written and had not ended."""
        return self.created_at <= at and not self.had_ended(at)

    def had_ended(self, at: int) -> bool:
        """Whether it had ended. A run that is to be tried again tells when its try ended."""
        return self.state in FINAL and (self.ended_at is None or self.ended_at <= at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunThen:
    """A run as it stood at an instant at which it had not ended."""

    run: PastRun
    standing: StandingThen
    since: int  # it stood so since then
    node_id: int | None  # that it was on; None: on none
    attempt: int  # its number; 0: there was none yet

    @property
    def is_live(self) -> bool:
        """Whether it held its node's slot."""
        return self.standing in (StandingThen.DISPATCHED, StandingThen.RUNNING)


def run_at(run: PastRun, attempts: Sequence[PastAttempt], at: int) -> RunThen:
    """How a run stood at an instant at which it was there.

    Attempts that were handed back before they began are not kept: it is told as queued meanwhile.

    Args:
        attempts: those that ended while the run went on, in any order.
    """
    known = {each.attempt for each in attempts}
    tries = list(attempts)
    begun_at = run.started_at if run.dispatched_at is None else run.dispatched_at
    if begun_at is not None and run.is_claimed and run.attempt not in known:
        ended_at = run.ended_at if run.state not in LIVE else None
        tries.append(
            PastAttempt(
                attempt=run.attempt,
                node_id=run.node_id,
                dispatched_at=run.dispatched_at,
                started_at=run.started_at,
                ended_at=ended_at,
            )
        )
    begun = [each for each in tries if _began_at(each) <= at]
    last = max(begun, key=lambda each: each.attempt, default=None)
    if last is not None and (last.ended_at is None or at < last.ended_at):
        running = last.started_at is not None and last.started_at <= at
        return RunThen(
            run=run,
            standing=StandingThen.RUNNING if running else StandingThen.DISPATCHED,
            since=(last.started_at if running else last.dispatched_at) or at,
            node_id=last.node_id,
            attempt=last.attempt,
        )
    waits = run.due_at <= at
    since = run.due_at if waits else run.created_at
    if last is not None and last.ended_at is not None:
        since = last.ended_at
    return RunThen(
        run=run,
        standing=StandingThen.QUEUED if waits else StandingThen.PLANNED,
        since=max(since, run.created_at),
        node_id=None,
        attempt=0 if last is None else last.attempt,
    )


def _began_at(attempt: PastAttempt) -> int:
    begun = attempt.started_at if attempt.dispatched_at is None else attempt.dispatched_at
    return 2**53 if begun is None else begun
